/* Checks that print the line of a failure and end the program with 2. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(what)                                                    \
    do {                                                               \
        if (!(what)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
            exit(2);                                                   \
        }                                                              \
    } while (0)

/* Expects SEAWALL_STATUS_OK from a call whose last argument is `&error`. */
#define OK(call)                                                          \
    do {                                                                  \
        if ((call) != SEAWALL_STATUS_OK) {                                \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                    error != NULL ? error->message : "no error object");  \
            exit(2);                                                      \
        }                                                                 \
        CHECK(error == NULL);                                             \
    } while (0)

/* Expects a status and a code from a call whose last argument is `&error`. */
#define FAILS(call, expected, expected_code)                                                      \
    do {                                                                                          \
        int status_of_call = (call);                                                              \
        if (status_of_call != (expected)) {                                                       \
            fprintf(stderr, "%s:%d: %s: status %d\n", __FILE__, __LINE__, #call, status_of_call); \
            exit(2);                                                                              \
        }                                                                                         \
        CHECK(error != NULL);                                                                     \
        CHECK(error->status == (expected));                                                       \
        if (error->code != (expected_code)) {                                                     \
            fprintf(stderr, "%s:%d: %s: code %d: %s\n", __FILE__, __LINE__, #call,                \
                    (int)error->code, error->message);                                            \
            exit(2);                                                                              \
        }                                                                                         \
        CHECK(error->message != NULL && error->message[0] != 0);                                  \
        seawall_error_free(error);                                                                \
        error = NULL;                                                                             \
    } while (0)

/* Expects the call to refuse an argument. */
#define REFUSED(call) FAILS(call, SEAWALL_STATUS_USAGE, SEAWALL_ERROR_CODE_ARGUMENT)

#endif
