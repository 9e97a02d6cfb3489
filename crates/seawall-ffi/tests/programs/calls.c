/* Calls every function as intended. Argument: a folder for the log, which must not exist. */
#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <seawall.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

static seawall_error *error = NULL;

/* What the callback `done` received and did. */
struct outcome {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    seawall_log *log;
    int calls;
    int status;
    uint64_t lsn;
    uint64_t appended;
};

/* A callback that appends to its own log. */
static void done(void *context, seawall_status status, uint64_t lsn, const seawall_error *why) {
    struct outcome *outcome = context;
    seawall_error *failure = NULL;
    uint64_t appended = 0;
    CHECK(why == NULL);
    CHECK(seawall_log_append(outcome->log, "from a callback", 15, &appended, &failure) == 0);
    pthread_mutex_lock(&outcome->lock);
    outcome->calls += 1;
    outcome->status = status;
    outcome->lsn = lsn;
    outcome->appended = appended;
    pthread_cond_signal(&outcome->changed);
    pthread_mutex_unlock(&outcome->lock);
}

static void fails(void *context, seawall_status status, uint64_t lsn, const seawall_error *why) {
    CHECK(lsn > 0);
    CHECK((why == NULL) == (status == SEAWALL_STATUS_OK));
    *(int *)context += 1;
}

/* A callback that frees its ticket and, which has no effect, the error that it borrows. */
static void release(void *context, seawall_status status, uint64_t lsn, const seawall_error *why) {
    seawall_ticket **ticket = context;
    CHECK(lsn > 0);
    seawall_ticket_free(*ticket);
    *ticket = NULL;
    if (status == SEAWALL_STATUS_OK) {
        CHECK(why == NULL);
        return;
    }
    seawall_error_free((seawall_error *)why);
    CHECK(why->status == status && strlen(why->message) > 0);
}

static void expect(const seawall_record *record, uint64_t lsn, const char *text) {
    CHECK(record->lsn == lsn);
    CHECK(record->size == strlen(text));
    CHECK(memcmp(record->data, text, record->size) == 0);
}

static seawall_log *open_log(const char *path) {
    seawall_log *log = NULL;
    seawall_options *options = seawall_options_new();
    CHECK(options != NULL);
    CHECK(seawall_options_set_level(options, SEAWALL_LEVEL_SYNCED) == 0);
    CHECK(seawall_options_set_segment_size(options, 1 << 20) == 0);
    CHECK(seawall_options_set_parity(options, 16, 2) == 0);
    CHECK(seawall_options_set_reuse(options, 0) == 0);
    CHECK(seawall_options_set_fill_blocks(options, 1) == 0);
    CHECK(seawall_options_set_layout(options, SEAWALL_LAYOUT_BINARY) == 0);
    CHECK(seawall_options_set_compression(options, SEAWALL_COMPRESSION_LZ4) == 0);
    CHECK(seawall_options_set_buffered(options, 10, 1 << 20) == 0);
    CHECK(seawall_options_set_create(options, 1) == 0);
    CHECK(seawall_options_set_codec(options, SEAWALL_CODEC_RAW) == 0);
    CHECK(seawall_options_set_type_name(options, "order") == 0);
    CHECK(seawall_options_set_schema(options, 3) == 0);
    CHECK(seawall_options_set_mode(options, SEAWALL_OPEN_MODE_STANDARD) == 0);
    CHECK(seawall_options_set_skip_damaged(options, 0) == 0);
    CHECK(seawall_options_set_on_failover(options, NULL, NULL) == 0);
    OK(seawall_log_open(path, options, &log, &error));
    /* Opening copied the options. */
    seawall_options_free(options);
    CHECK(log != NULL);
    return log;
}

static void append(seawall_log *log) {
    uint64_t first = 0, last = 0;
    const seawall_slice set[3] = {{"two", 3}, {NULL, 0}, {"four", 4}};
    OK(seawall_log_append(log, "one", 3, &last, &error));
    CHECK(last == 1);
    CHECK(seawall_log_durable(log) == 1);
    OK(seawall_log_append_batch(log, set, 3, &first, &last, &error));
    CHECK(first == 2 && last == 4);
}

static void submit(seawall_log *log) {
    struct outcome outcome = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, log, 0, -1, 0, 0};
    seawall_ticket *ticket = NULL;
    uint64_t lsn = 0, count = 0;
    int descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct pollfd event = {descriptor, POLLIN, 0};
    CHECK(descriptor >= 0);

    OK(seawall_log_submit(log, "five", 4, &lsn, &ticket, &error));
    CHECK(lsn == 5 && seawall_ticket_lsn(ticket) == 5);
    OK(seawall_ticket_wait(ticket, &error));
    OK(seawall_ticket_poll(ticket, &error));
    seawall_ticket_free(ticket);

    /* The log's own thread writes the record and signals the eventfd: no call waits. */
    OK(seawall_log_try_submit(log, "six", 3, NULL, &ticket, &error));
    OK(seawall_ticket_signal(ticket, descriptor, &error));
    CHECK(poll(&event, 1, 10000) == 1);
    CHECK(read(descriptor, &count, sizeof count) == sizeof count);
    CHECK(count == 1);
    OK(seawall_ticket_poll(ticket, &error));
    /* The record is durable: the eventfd is signalled immediately. */
    OK(seawall_ticket_signal(ticket, descriptor, &error));
    CHECK(read(descriptor, &count, sizeof count) == sizeof count);
    seawall_ticket_free(ticket);
    close(descriptor);

    OK(seawall_log_submit(log, "seven", 5, NULL, &ticket, &error));
    OK(seawall_ticket_on_done(ticket, done, &outcome, &error));
    seawall_ticket_free(ticket);
    pthread_mutex_lock(&outcome.lock);
    while (outcome.calls == 0) pthread_cond_wait(&outcome.changed, &outcome.lock);
    pthread_mutex_unlock(&outcome.lock);
    CHECK(outcome.calls == 1 && outcome.status == SEAWALL_STATUS_OK);
    CHECK(outcome.lsn == 7 && outcome.appended == 8);

    /* Without a ticket, a flush waits for the record. */
    OK(seawall_log_submit(log, "nine", 4, NULL, NULL, &error));
    OK(seawall_log_flush(log, &lsn, &error));
    CHECK(lsn == 9);
    OK(seawall_log_confirm(log, &lsn, &error));
    CHECK(lsn == 9);
}

static void read_records(seawall_log *log) {
    seawall_cursor *cursor = NULL;
    seawall_record record, copied;
    seawall_buffer *buffer = seawall_buffer_new();
    int records = 2;
    CHECK(buffer != NULL);
    OK(seawall_log_read(log, 1, &cursor, &error));
    OK(seawall_cursor_next(cursor, &record, &error));
    expect(&record, 1, "one");
    CHECK(record.schema == 3 && record.set_continues == 0 && record.time_us > 0);
    OK(seawall_cursor_next_copy(cursor, buffer, &copied, &error));
    CHECK(copied.set_continues == 1);
    CHECK(seawall_buffer_size(buffer) == 3 && seawall_buffer_data(buffer) == copied.data);
    while (seawall_cursor_next(cursor, &record, &error) == SEAWALL_STATUS_OK) records += 1;
    CHECK(error == NULL && records == 9);
    /* The copied bytes are still valid. */
    expect(&copied, 2, "two");
    seawall_cursor_free(cursor);

    OK(seawall_log_get(log, 4, buffer, &error));
    CHECK(seawall_buffer_size(buffer) == 4 && memcmp(seawall_buffer_data(buffer), "four", 4) == 0);
    CHECK(seawall_log_get(log, 10, buffer, &error) == SEAWALL_STATUS_NONE && error == NULL);
    CHECK(seawall_buffer_size(buffer) == 0);
    seawall_buffer_free(buffer);
}

static void follow(seawall_log *log) {
    seawall_follower *follower = NULL;
    seawall_record record, copied;
    seawall_buffer *buffer = seawall_buffer_new();
    OK(seawall_log_follow(log, 9, &follower, &error));
    OK(seawall_follower_next(follower, 10000, &record, &error));
    expect(&record, 9, "nine");
    CHECK(seawall_follower_position(follower) == 10);
    CHECK(seawall_follower_next(follower, 0, &record, &error) == SEAWALL_STATUS_NONE);
    CHECK(error == NULL);
    OK(seawall_log_append(log, "ten", 3, NULL, &error));
    OK(seawall_follower_next_copy(follower, SEAWALL_FOREVER, buffer, &copied, &error));
    expect(&copied, 10, "ten");
    CHECK(seawall_buffer_data(buffer) == copied.data);
    seawall_follower_free(follower);
    seawall_buffer_free(buffer);
    FAILS(seawall_log_follow(log, 99, &follower, &error), SEAWALL_STATUS_USAGE,
          SEAWALL_ERROR_CODE_BEYOND_END);
    CHECK(follower == NULL);
}

static void shorten(seawall_log *log) {
    uint64_t oldest = 0, records = 0;
    OK(seawall_log_checkpoint(log, 10, &error));
    CHECK(seawall_log_replay_start(log) == 10);
    OK(seawall_log_truncate_before(log, 10, &oldest, &error));
    CHECK(oldest == seawall_log_oldest(log));
    OK(seawall_log_append(log, "eleven", 6, NULL, &error));
    OK(seawall_log_truncate_after(log, 10, &error));
    CHECK(seawall_log_durable(log) == 10);
    CHECK(seawall_log_stat(log, SEAWALL_STAT_RECORDS, &records) == SEAWALL_STATUS_OK);
    CHECK(records == 11);
}

/* Reads a log that another handle has open. */
static void read_elsewhere(const char *path, seawall_log *log) {
    seawall_log *second = NULL;
    seawall_reader *reader = NULL;
    seawall_cursor *cursor = NULL;
    seawall_follower *follower = NULL;
    seawall_record record;
    seawall_verification *found = NULL;
    seawall_buffer *buffer = seawall_buffer_new();
    uint64_t oldest = 0;
    FAILS(seawall_log_open(path, NULL, &second, &error), SEAWALL_STATUS_RETRY,
          SEAWALL_ERROR_CODE_BUSY);
    CHECK(second == NULL);
    OK(seawall_reader_open(path, NULL, &reader, &error));
    OK(seawall_reader_oldest(reader, &oldest, &error));
    CHECK(oldest == seawall_log_oldest(log));
    OK(seawall_reader_replay_start(reader, &oldest, &error));
    CHECK(oldest == seawall_log_replay_start(log) && oldest > 1);
    OK(seawall_reader_read(reader, 10, &cursor, &error));
    OK(seawall_reader_get(reader, 10, buffer, &error));
    CHECK(seawall_buffer_size(buffer) == 3);
    OK(seawall_reader_follow(reader, 10, &follower, &error));
    /* Cursor and follower outlive the reader. */
    seawall_reader_free(reader);
    OK(seawall_cursor_next(cursor, &record, &error));
    expect(&record, 10, "ten");
    OK(seawall_follower_next(follower, 10000, &record, &error));
    expect(&record, 10, "ten");
    seawall_cursor_free(cursor);
    seawall_follower_free(follower);
    seawall_buffer_free(buffer);

    OK(seawall_verify(path, &found, &error));
    CHECK(found->verdict == SEAWALL_VERDICT_CLEAN && found->last == 10);
    CHECK(found->damage_count == 0);
    seawall_verification_free(found);
}

static void encrypt(const char *path) {
    char folder[300], key[300];
    seawall_log *log = NULL;
    seawall_reader *reader = NULL;
    seawall_buffer *buffer = seawall_buffer_new();
    seawall_options *options = seawall_options_new();
    FILE *file = NULL;
    snprintf(folder, sizeof folder, "%s-encrypted", path);
    snprintf(key, sizeof key, "%s-key", path);
    file = fopen(key, "wb");
    CHECK(file != NULL && fwrite("0123456789abcdef0123456789abcdef", 1, 32, file) == 32);
    CHECK(fclose(file) == 0);
    CHECK(seawall_options_set_encryption(options, 1) == 0);
    FAILS(seawall_log_open(folder, options, &log, &error), SEAWALL_STATUS_USAGE,
          SEAWALL_ERROR_CODE_INVALID_OPTION);
    CHECK(seawall_options_set_key_file(options, key) == 0);
    OK(seawall_log_open(folder, options, &log, &error));
    OK(seawall_log_append(log, "secret", 6, NULL, &error));
    seawall_log_free(log);
    FAILS(seawall_log_open(folder, NULL, &log, &error), SEAWALL_STATUS_USAGE,
          SEAWALL_ERROR_CODE_KEY);
    FAILS(seawall_reader_open(folder, NULL, &reader, &error), SEAWALL_STATUS_USAGE,
          SEAWALL_ERROR_CODE_KEY);
    OK(seawall_reader_open(folder, options, &reader, &error));
    OK(seawall_reader_get(reader, 1, buffer, &error));
    CHECK(seawall_buffer_size(buffer) == 6);
    CHECK(memcmp(seawall_buffer_data(buffer), "secret", 6) == 0);
    seawall_reader_free(reader);
    seawall_buffer_free(buffer);
    seawall_options_free(options);
}

/* A backup restores lost segments. */
static void repair_from_a_copy(const char *path) {
    char copy[300], segment[300];
    uint64_t last = 0;
    seawall_verification *found = NULL;
    snprintf(copy, sizeof copy, "%s-copy", path);
    OK(seawall_back_up(path, copy, &last, &error));
    CHECK(last == 11);
    FAILS(seawall_back_up(path, copy, NULL, &error), SEAWALL_STATUS_USAGE, SEAWALL_ERROR_CODE_IO);
    OK(seawall_repair(path, NULL, NULL, &error));
    for (int id = 1; id < 9; ++id) {
        snprintf(segment, sizeof segment, "%s/00000000000%d.seg", path, id);
        (void)remove(segment);
    }
    OK(seawall_repair(path, NULL, &found, &error));
    CHECK(found->verdict == SEAWALL_VERDICT_LOST);
    seawall_verification_free(found);
    OK(seawall_repair(path, copy, &found, &error));
    CHECK(found->verdict == SEAWALL_VERDICT_CLEAN && found->last == 11);
    seawall_verification_free(found);
    REFUSED(seawall_back_up(path, NULL, NULL, &error));
    REFUSED(seawall_repair(NULL, copy, &found, &error));
}

static void sync_every_fourth(const char *path) {
    char folder[300];
    seawall_log *log = NULL;
    seawall_options *options = seawall_options_new();
    snprintf(folder, sizeof folder, "%s-fourth", path);
    CHECK(seawall_options_set_buffered(options, 3600 * 1000, 1 << 20) == 0);
    CHECK(seawall_options_set_sync_every(options, 4) == 0);
    OK(seawall_log_open(folder, options, &log, &error));
    seawall_options_free(options);
    for (int records = 1; records <= 8; ++records) {
        OK(seawall_log_append(log, "one of four", 11, NULL, &error));
        CHECK(seawall_log_durable(log) == (uint64_t)(records / 4 * 4));
    }
    OK(seawall_log_close(log, &error));
    seawall_log_free(log);
}

/* A reader that knows schema 1 follows a log that continues in schema 2. */
static void follow_a_newer_schema(const char *path) {
    char folder[300];
    seawall_log *log = NULL;
    seawall_reader *reader = NULL;
    seawall_follower *follower = NULL;
    seawall_record record;
    seawall_buffer *buffer = seawall_buffer_new();
    seawall_options *options = seawall_options_new();
    snprintf(folder, sizeof folder, "%s-schemas", path);
    CHECK(seawall_options_set_schema(options, 1) == 0);
    OK(seawall_log_open(folder, options, &log, &error));
    OK(seawall_log_append(log, "old", 3, NULL, &error));
    seawall_log_free(log);
    OK(seawall_reader_open(folder, options, &reader, &error));
    CHECK(seawall_options_set_schema(options, 2) == 0);
    OK(seawall_log_open(folder, options, &log, &error));
    OK(seawall_log_append(log, "new", 3, NULL, &error));
    OK(seawall_log_append(log, "newer", 5, NULL, &error));
    OK(seawall_reader_follow(reader, 1, &follower, &error));
    OK(seawall_follower_next(follower, 10000, &record, &error));
    expect(&record, 1, "old");
    /* Each call tries the same record again, and the position stays there. */
    for (int call = 0; call < 2; ++call) {
        FAILS(seawall_follower_next(follower, 10000, &record, &error), SEAWALL_STATUS_USAGE,
              SEAWALL_ERROR_CODE_MISMATCH);
        FAILS(seawall_follower_next_copy(follower, 10000, buffer, &record, &error),
              SEAWALL_STATUS_USAGE, SEAWALL_ERROR_CODE_MISMATCH);
        CHECK(seawall_follower_position(follower) == 2);
    }
    seawall_follower_free(follower);
    seawall_reader_free(reader);
    seawall_log_free(log);
    seawall_buffer_free(buffer);
    seawall_options_free(options);
}

/* A reader of a relative path that is not UTF-8, after the program changed its working directory
 * and renamed the log. */
static void read_a_renamed_log(const char *path) {
    char folder[300], moved[300], before[300];
    seawall_log *log = NULL;
    seawall_reader *reader = NULL;
    seawall_follower *follower = NULL;
    uint64_t from = 0;
    const char *name = strrchr(path, '/') + 1;
    snprintf(folder, sizeof folder, "%s-\xff", name);
    snprintf(moved, sizeof moved, "%s-moved", name);
    CHECK(getcwd(before, sizeof before) != NULL);
    CHECK(chdir(path) == 0 && chdir("..") == 0);
    OK(seawall_log_open(folder, NULL, &log, &error));
    OK(seawall_log_append(log, "one", 3, NULL, &error));
    OK(seawall_log_checkpoint(log, 2, &error));
    seawall_log_free(log);
    OK(seawall_reader_open(folder, NULL, &reader, &error));
    CHECK(rename(folder, moved) == 0);
    CHECK(chdir(before) == 0);
    OK(seawall_reader_replay_start(reader, &from, &error));
    CHECK(from == 2);
    CHECK(seawall_reader_follow(reader, 99, &follower, &error) == SEAWALL_STATUS_USAGE);
    /* The path as the program gave it. */
    CHECK(error->log != NULL && strcmp(error->log, folder) == 0);
    seawall_error_free(error);
    error = NULL;
    seawall_reader_free(reader);
}

/* Callbacks free the ticket and the error: while the log writes, at once, and after a failure. */
static void free_in_callbacks(const char *path) {
    char folder[300];
    struct rlimit before, none;
    seawall_log *log = NULL;
    seawall_ticket *ticket = NULL, *failed = NULL;
    snprintf(folder, sizeof folder, "%s-callbacks", path);
    OK(seawall_log_open(folder, NULL, &log, &error));
    OK(seawall_log_submit(log, "one", 3, NULL, &ticket, &error));
    OK(seawall_ticket_on_done(ticket, release, &ticket, &error));
    OK(seawall_log_flush(log, NULL, &error));
    while (*(seawall_ticket *volatile *)&ticket != NULL) usleep(1000);
    OK(seawall_log_submit(log, "two", 3, NULL, &ticket, &error));
    OK(seawall_log_flush(log, NULL, &error));
    OK(seawall_ticket_on_done(ticket, release, &ticket, &error));
    CHECK(ticket == NULL);

    /* Every write fails. */
    CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    none = before;
    none.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
    OK(seawall_log_submit(log, "three", 5, NULL, &failed, &error));
    CHECK(seawall_ticket_wait(failed, NULL) == SEAWALL_STATUS_REOPEN);
    OK(seawall_ticket_on_done(failed, release, &failed, &error));
    CHECK(failed == NULL);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    seawall_log_free(log);
}

/* Each call with a closed handle has a status. */
static void close_and_call(seawall_log *log) {
    seawall_ticket *ticket = NULL;
    seawall_cursor *cursor = NULL;
    seawall_follower *follower = NULL, *before = NULL;
    seawall_record record;
    seawall_buffer *buffer = seawall_buffer_new();
    const seawall_slice set[1] = {{"x", 1}};
    int calls = 0;
    OK(seawall_log_follow(log, 11, &before, &error));
    OK(seawall_log_submit(log, "eleven", 6, NULL, &ticket, &error));
    OK(seawall_ticket_on_done(ticket, fails, &calls, &error));
    OK(seawall_log_close(log, &error));
    CHECK(calls == 1);
    OK(seawall_ticket_wait(ticket, &error));
#define CLOSED(call) FAILS(call, SEAWALL_STATUS_REOPEN, SEAWALL_ERROR_CODE_CLOSED)
    CLOSED(seawall_log_close(log, &error));
    CLOSED(seawall_log_append(log, "x", 1, NULL, &error));
    CLOSED(seawall_log_append_batch(log, set, 1, NULL, NULL, &error));
    CLOSED(seawall_log_submit(log, "x", 1, NULL, NULL, &error));
    CLOSED(seawall_log_try_submit(log, "x", 1, NULL, NULL, &error));
    CLOSED(seawall_log_flush(log, NULL, &error));
    CLOSED(seawall_log_confirm(log, NULL, &error));
    CLOSED(seawall_log_checkpoint(log, 1, &error));
    CLOSED(seawall_log_truncate_before(log, 1, NULL, &error));
    CLOSED(seawall_log_truncate_after(log, 1, &error));
    CLOSED(seawall_log_read(log, 1, &cursor, &error));
    CLOSED(seawall_log_follow(log, 1, &follower, &error));
    CLOSED(seawall_log_get(log, 1, buffer, &error));
    OK(seawall_follower_next(before, 0, &record, &error));
    expect(&record, 11, "eleven");
    CLOSED(seawall_follower_next(before, SEAWALL_FOREVER, &record, &error));
    CHECK(seawall_log_durable(log) == 11 && seawall_log_recovery(log) != NULL);
    seawall_follower_free(before);
    seawall_log_free(log);
    /* A ticket outlives its log's handle. */
    OK(seawall_ticket_poll(ticket, &error));
    seawall_ticket_free(ticket);
    seawall_buffer_free(buffer);
}

static void open_again(const char *path) {
    seawall_log *log = NULL;
    const seawall_recovery *recovery = NULL;
    seawall_options *options = seawall_options_new();
    CHECK(seawall_options_set_type_name(options, "parcel") == 0);
    FAILS(seawall_log_open(path, options, &log, &error), SEAWALL_STATUS_USAGE,
          SEAWALL_ERROR_CODE_MISMATCH);
    seawall_options_free(options);
    log = open_log(path);
    recovery = seawall_log_recovery(log);
    CHECK(recovery->created == 0 && recovery->tail == SEAWALL_TAIL_CLEAN);
    CHECK(recovery->last == 11 && recovery->quarantine == NULL);
    CHECK(recovery->damage_count == 0 && recovery->warning_count == 0);
    /* Freeing the handle closes the log. */
    seawall_log_free(log);
    log = open_log(path);
    seawall_log_free(log);
}

int main(int argc, char **argv) {
    seawall_log *log = NULL;
    CHECK(argc == 2);
    CHECK(seawall_abi_version() == SEAWALL_ABI_VERSION);
    CHECK(strlen(seawall_version()) >= 5);
    log = open_log(argv[1]);
    CHECK(seawall_log_recovery(log)->created == 1);
    CHECK(seawall_log_durable(log) == 0);
    append(log);
    submit(log);
    read_records(log);
    follow(log);
    shorten(log);
    read_elsewhere(argv[1], log);
    close_and_call(log);
    open_again(argv[1]);
    repair_from_a_copy(argv[1]);
    encrypt(argv[1]);
    sync_every_fourth(argv[1]);
    follow_a_newer_schema(argv[1]);
    read_a_renamed_log(argv[1]);
    free_in_callbacks(argv[1]);
    return 0;
}
