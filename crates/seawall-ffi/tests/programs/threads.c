/* Threads share a handle, and one closes it: the log has each record whose append succeeded, and
 * later calls return a status. Argument: a folder for the log, which must not exist. */
#include "check.h"

#include <pthread.h>
#include <seawall.h>
#include <string.h>

enum { THREADS = 6, RECORDS = 2000 };

static seawall_log *log_handle = NULL;

struct appender {
    pthread_t thread;
    int number;
    int appended;
    int submitted;
    int callbacks;
    uint64_t lsns[RECORDS];
};

static void done(void *context, seawall_status status, uint64_t lsn, const seawall_error *why) {
    CHECK(status == SEAWALL_STATUS_OK || status == SEAWALL_STATUS_REOPEN);
    CHECK((status == SEAWALL_STATUS_OK) == (why == NULL));
    CHECK(lsn > 0);
    __atomic_add_fetch((int *)context, 1, __ATOMIC_SEQ_CST);
}

static void *append(void *context) {
    struct appender *me = context;
    for (int turn = 0; turn < RECORDS; ++turn) {
        seawall_error *error = NULL;
        seawall_ticket *ticket = NULL;
        char record[64];
        uint64_t lsn = 0;
        int size = snprintf(record, sizeof record, "thread %d, record %d", me->number, turn);
        int status = turn % 4 == 0
                         ? seawall_log_submit(log_handle, record, (size_t)size, &lsn, &ticket, &error)
                         : seawall_log_append(log_handle, record, (size_t)size, &lsn, &error);
        if (status == SEAWALL_STATUS_OK && ticket != NULL) {
            me->submitted += 1;
            CHECK(seawall_ticket_on_done(ticket, done, &me->callbacks, &error) == 0);
            status = seawall_ticket_wait(ticket, &error);
        }
        seawall_ticket_free(ticket);
        if (status != SEAWALL_STATUS_OK) {
            CHECK(status == SEAWALL_STATUS_REOPEN && error->code == SEAWALL_ERROR_CODE_CLOSED);
            seawall_error_free(error);
            break;
        }
        me->lsns[me->appended++] = lsn;
    }
    while (__atomic_load_n(&me->callbacks, __ATOMIC_SEQ_CST) < me->submitted) sched_yield();
    return NULL;
}

int main(int argc, char **argv) {
    static struct appender appenders[THREADS];
    seawall_error *error = NULL;
    seawall_reader *reader = NULL;
    seawall_buffer *buffer = seawall_buffer_new();
    int total = 0;
    CHECK(argc == 2);
    OK(seawall_log_open(argv[1], NULL, &log_handle, &error));
    for (int at = 0; at < THREADS; ++at) {
        appenders[at].number = at;
        CHECK(pthread_create(&appenders[at].thread, NULL, append, &appenders[at]) == 0);
    }
    while (seawall_log_durable(log_handle) < 500) sched_yield();
    OK(seawall_log_close(log_handle, &error));
    for (int at = 0; at < THREADS; ++at) CHECK(pthread_join(appenders[at].thread, NULL) == 0);
    seawall_log_free(log_handle);

    OK(seawall_reader_open(argv[1], NULL, &reader, &error));
    for (int at = 0; at < THREADS; ++at) {
        char start[32];
        /* Each callback was called exactly once. */
        CHECK(appenders[at].callbacks == appenders[at].submitted);
        int size = snprintf(start, sizeof start, "thread %d,", at);
        for (int turn = 0; turn < appenders[at].appended; ++turn) {
            OK(seawall_reader_get(reader, appenders[at].lsns[turn], buffer, &error));
            CHECK(memcmp(seawall_buffer_data(buffer), start, (size_t)size) == 0);
            total += 1;
        }
    }
    CHECK(total >= 500 && total < THREADS * RECORDS);
    seawall_buffer_free(buffer);
    seawall_reader_free(reader);
    return 0;
}
