/* Invalid arguments: each call returns a status, and nothing crashes. Argument: a folder for the
 * log, which must not exist. */
#include "check.h"

#include <fcntl.h>
#include <seawall.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Not in the header; only in debug builds. */
seawall_status seawall_test_panic(seawall_error **error);

static seawall_error *error = NULL;

/* A misaligned address, which no handle has. */
#define MISALIGNED(type) ((type *)((char *)memory + 1))
static uint64_t memory[64];

static void options_are_checked(const char *path) {
    seawall_log *log = NULL;
    seawall_options *options = seawall_options_new();
    CHECK(seawall_options_set_level(NULL, 1) == SEAWALL_STATUS_USAGE);
    CHECK(seawall_options_set_level(MISALIGNED(seawall_options), 1) == SEAWALL_STATUS_USAGE);
    CHECK(seawall_options_set_level((seawall_options *)memory, 1) == SEAWALL_STATUS_USAGE);
    CHECK(seawall_options_set_level(options, 3) == SEAWALL_STATUS_USAGE);
    CHECK(seawall_options_set_level(options, -1) == SEAWALL_STATUS_USAGE);
    CHECK(seawall_options_set_layout(options, 7) == SEAWALL_STATUS_USAGE);
    CHECK(seawall_options_set_compression(options, 3) == SEAWALL_STATUS_USAGE);
    CHECK(seawall_options_set_key_file(options, NULL) == SEAWALL_STATUS_USAGE);
    CHECK(seawall_options_set_encryption(options, 9) == SEAWALL_STATUS_USAGE);
    CHECK(seawall_options_set_codec(options, 7) == SEAWALL_STATUS_USAGE);
    CHECK(seawall_options_set_mode(options, 7) == SEAWALL_STATUS_USAGE);
    CHECK(seawall_options_set_parity(options, 1, 1) == SEAWALL_STATUS_USAGE);
    CHECK(seawall_options_set_parity(options, 2, 3) == SEAWALL_STATUS_USAGE);
    CHECK(seawall_options_set_type_name(options, NULL) == SEAWALL_STATUS_USAGE);
    CHECK(seawall_options_set_type_name(options, "\xff") == SEAWALL_STATUS_USAGE);
    CHECK(seawall_options_set_segment_size(options, 1) == SEAWALL_STATUS_OK);
    FAILS(seawall_log_open(path, options, &log, &error), SEAWALL_STATUS_USAGE,
          SEAWALL_ERROR_CODE_INVALID_OPTION);
    CHECK(log == NULL);
    seawall_options_free(options);
    seawall_options_free(NULL);
}

static void places_are_checked(const char *path, seawall_log *log) {
    seawall_log *other = log;
    seawall_reader *reader = NULL;
    seawall_verification *found = NULL;
    REFUSED(seawall_log_open(NULL, NULL, &other, &error));
    CHECK(other == NULL);
    REFUSED(seawall_log_open(path, NULL, NULL, &error));
    REFUSED(seawall_log_open(path, NULL, MISALIGNED(seawall_log *), &error));
    REFUSED(seawall_log_open(path, MISALIGNED(seawall_options), &other, &error));
    REFUSED(seawall_reader_open(NULL, NULL, &reader, &error));
    REFUSED(seawall_reader_open(path, NULL, NULL, &error));
    REFUSED(seawall_verify(path, NULL, &error));
    FAILS(seawall_verify("", &found, &error), SEAWALL_STATUS_USAGE, SEAWALL_ERROR_CODE_IO);
    /* Without a pointer for the error object, the status is still returned. */
    CHECK(seawall_log_open(NULL, NULL, &other, NULL) == SEAWALL_STATUS_USAGE);
    CHECK(seawall_log_append(log, "x", 1, NULL, MISALIGNED(seawall_error *)) == SEAWALL_STATUS_OK);
    CHECK(seawall_log_append(log, "x", 1, MISALIGNED(uint64_t), NULL) == SEAWALL_STATUS_OK);
}

static void handles_are_checked(seawall_log *log) {
    seawall_log *wrong = (seawall_log *)memory;
    seawall_buffer *buffer = seawall_buffer_new();
    seawall_cursor *cursor = NULL;
    seawall_record record;
    REFUSED(seawall_log_append(NULL, "x", 1, NULL, &error));
    REFUSED(seawall_log_append(MISALIGNED(seawall_log), "x", 1, NULL, &error));
    REFUSED(seawall_log_append(wrong, "x", 1, NULL, &error));
    REFUSED(seawall_log_submit(NULL, "x", 1, NULL, NULL, &error));
    REFUSED(seawall_log_close(wrong, &error));
    REFUSED(seawall_log_get((seawall_log *)(void *)buffer, 1, buffer, &error));
    REFUSED(seawall_log_get(log, 1, NULL, &error));
    REFUSED(seawall_log_get(log, 1, (seawall_buffer *)(void *)log, &error));
    REFUSED(seawall_log_get(log, 0, buffer, &error));
    REFUSED(seawall_log_read(log, 0, &cursor, &error));
    REFUSED(seawall_log_read(log, 1, NULL, &error));
    REFUSED(seawall_cursor_next(NULL, &record, &error));
    OK(seawall_log_read(log, 1, &cursor, &error));
    REFUSED(seawall_cursor_next(cursor, NULL, &error));
    seawall_cursor_free(cursor);
    REFUSED(seawall_ticket_wait(NULL, &error));
    REFUSED(seawall_ticket_poll((seawall_ticket *)(void *)buffer, &error));
    REFUSED(seawall_log_checkpoint(log, 0, &error));
    CHECK(seawall_log_durable(wrong) == 0 && seawall_log_oldest(NULL) == 0);
    CHECK(seawall_log_recovery(NULL) == NULL && seawall_buffer_data(NULL) == NULL);
    CHECK(seawall_log_stat(log, -1, NULL) == SEAWALL_STATUS_USAGE);
    /* Freeing an invalid handle does nothing. */
    seawall_log_free(NULL);
    seawall_log_free(wrong);
    seawall_log_free((seawall_log *)(void *)buffer);
    seawall_cursor_free(MISALIGNED(seawall_cursor));
    seawall_error_free(NULL);
    CHECK(seawall_buffer_size(buffer) == 0);
    seawall_buffer_free(buffer);
}

static void lengths_are_checked(seawall_log *log) {
    const size_t impossible = (size_t)PTRDIFF_MAX + 1;
    seawall_slice set[2] = {{"a", 1}, {NULL, 1}};
    uint64_t before = 0, after = 0;
    OK(seawall_log_flush(log, &before, &error));
    REFUSED(seawall_log_append(log, NULL, 1, NULL, &error));
    REFUSED(seawall_log_append(log, "x", impossible, NULL, &error));
    REFUSED(seawall_log_append(log, "x", SIZE_MAX, NULL, &error));
    REFUSED(seawall_log_append(log, (const void *)(UINTPTR_MAX - 3), 8, NULL, &error));
    REFUSED(seawall_log_submit(log, "x", impossible, NULL, NULL, &error));
    REFUSED(seawall_log_append_batch(log, set, 2, NULL, NULL, &error));
    set[1].data = "b";
    set[1].size = impossible;
    REFUSED(seawall_log_append_batch(log, set, 2, NULL, NULL, &error));
    REFUSED(seawall_log_append_batch(log, NULL, 1, NULL, NULL, &error));
    REFUSED(seawall_log_append_batch(log, set, impossible, NULL, NULL, &error));
    REFUSED(seawall_log_append_batch(log, set, SIZE_MAX / 2, NULL, NULL, &error));
    REFUSED(seawall_log_append_batch(log, MISALIGNED(seawall_slice), 1, NULL, NULL, &error));
    FAILS(seawall_log_append_batch(log, NULL, 0, NULL, NULL, &error), SEAWALL_STATUS_USAGE,
          SEAWALL_ERROR_CODE_INVALID_OPTION);
    OK(seawall_log_flush(log, &after, &error));
    CHECK(before == after);
    /* An empty record is valid. */
    OK(seawall_log_append(log, NULL, 0, NULL, &error));
}

static void descriptors_are_checked(seawall_log *log) {
    seawall_ticket *ticket = NULL;
    uint64_t count = 0;
    int ends[2], other;
    OK(seawall_log_submit(log, "x", 1, NULL, &ticket, &error));
    REFUSED(seawall_ticket_signal(ticket, -1, &error));
    REFUSED(seawall_ticket_signal(ticket, 12345, &error));
    CHECK(pipe(ends) == 0);
    /* A pipe is refused: once its other end is closed, a write would end the process. */
    REFUSED(seawall_ticket_signal(ticket, ends[1], &error));
    CHECK(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    REFUSED(seawall_ticket_signal(ticket, ends[1], &error));
    close(ends[0]);
    REFUSED(seawall_ticket_signal(ticket, ends[1], &error));
    other = epoll_create1(0);
    CHECK(other >= 0 && fcntl(other, F_SETFL, O_NONBLOCK) == 0);
    REFUSED(seawall_ticket_signal(ticket, other, &error));
    close(other);
    /* An eventfd that blocks is refused: once full, it would block the log. */
    other = eventfd(0, 0);
    CHECK(other >= 0);
    REFUSED(seawall_ticket_signal(ticket, other, &error));
    CHECK(fcntl(other, F_SETFL, O_NONBLOCK) == 0);
    OK(seawall_ticket_wait(ticket, &error));
    OK(seawall_ticket_signal(ticket, other, &error));
    CHECK(read(other, &count, sizeof count) == sizeof count && count == 1);
    close(other);
    REFUSED(seawall_ticket_on_done(ticket, NULL, NULL, &error));
    seawall_ticket_free(ticket);
    close(ends[1]);
}

int main(int argc, char **argv) {
    seawall_log *log = NULL;
    CHECK(argc == 2);
    options_are_checked(argv[1]);
    OK(seawall_log_open(argv[1], NULL, &log, &error));
    places_are_checked(argv[1], log);
    handles_are_checked(log);
    lengths_are_checked(log);
    descriptors_are_checked(log);
    /* A panic in the library becomes a status. */
    FAILS(seawall_test_panic(&error), SEAWALL_STATUS_BUG, SEAWALL_ERROR_CODE_PANIC);
    CHECK(seawall_test_panic(NULL) == SEAWALL_STATUS_BUG);
    OK(seawall_log_close(log, &error));
    seawall_log_free(log);
    return 0;
}
