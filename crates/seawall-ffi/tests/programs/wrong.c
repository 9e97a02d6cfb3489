/* Runs one bug, which a sanitizer must report. Arguments: the name of the bug, and a folder for the
 * log, which must not exist. */
#include "check.h"

#include <pthread.h>
#include <seawall.h>
#include <string.h>
#include <unistd.h>

static seawall_error *error = NULL;
static seawall_log *log_handle = NULL;
static seawall_buffer *buffer = NULL;
static volatile uint64_t used;

/* Reads the first bytes of memory that the library lent. */
static void use(const void *lent) {
    used += *(const uint64_t *)lent;
}

static void view_outlives_its_buffer(void) {
    OK(seawall_log_get(log_handle, 1, buffer, &error));
    const void *lent = seawall_buffer_data(buffer);
    seawall_buffer_free(buffer);
    buffer = NULL;
    use(lent);
}

static void view_outlives_the_next_lookup(void) {
    OK(seawall_log_get(log_handle, 1, buffer, &error));
    const void *lent = seawall_buffer_data(buffer);
    OK(seawall_log_get(log_handle, 2, buffer, &error));
    use(lent);
}

static void message_outlives_its_error(void) {
    CHECK(seawall_log_get(log_handle, 0, buffer, &error) == SEAWALL_STATUS_USAGE);
    const char *message = error->message;
    seawall_error_free(error);
    used += strlen(message);
}

/* The library, not C, reads after the end of the record. */
static void record_is_shorter_than_its_size(void) {
    char *record = malloc(100);
    memset(record, 'x', 100);
    OK(seawall_log_append(log_handle, record, 200, NULL, &error));
    free(record);
}

static void path_has_no_end(void) {
    char *path = malloc(4);
    seawall_reader *reader = NULL;
    memset(path, 'x', 4);
    (void)seawall_reader_open(path, NULL, &reader, &error);
    free(path);
}

static void handle_is_freed_by_c_too(void) {
    seawall_options *options = seawall_options_new();
    seawall_options_free(options);
    free(options);
}

/* Two functions read the freed handle's first bytes, which no longer identify a handle. */
static void handle_is_used_after_its_end(void) {
    seawall_options *options = seawall_options_new();
    seawall_options_free(options);
    CHECK(seawall_options_set_create(options, 1) == SEAWALL_STATUS_USAGE);
    seawall_options_free(options);
}

/* Several: a copy of one pointer may stay on the stack and hide that leak from LeakSanitizer. */
static void handles_are_lost(void) {
    for (int handle = 0; handle < 64; ++handle) {
        seawall_options *options = seawall_options_new();
        CHECK(seawall_options_set_type_name(options, "order") == 0);
    }
}

static void record_is_read_misaligned(void) {
    OK(seawall_log_get(log_handle, 1, buffer, &error));
    use((const char *)seawall_buffer_data(buffer) + 1);
}

static volatile int calls = 0;

static void count(void *context, seawall_status status, uint64_t lsn, const seawall_error *why) {
    (void)context, (void)lsn, (void)why;
    CHECK(status == SEAWALL_STATUS_OK);
    calls += 1;
}

/* The log's own thread runs the callback, and this one reads `calls` without a lock. */
static void callback_races_with_the_program(void) {
    for (int turn = 1; turn <= 20; ++turn) {
        seawall_ticket *ticket = NULL;
        OK(seawall_log_submit(log_handle, "x", 1, NULL, &ticket, &error));
        OK(seawall_ticket_on_done(ticket, count, NULL, &error));
        while (calls < turn) sched_yield();
        seawall_ticket_free(ticket);
    }
}

/* The sleep makes the report reproducible, but does not synchronise the threads. */
static void *fill(void *context) {
    seawall_error *failure = NULL;
    usleep(100000);
    CHECK(seawall_log_get(log_handle, 2, context, &failure) == SEAWALL_STATUS_OK);
    return NULL;
}

/* The library refuses concurrent calls, but cannot know how long C reads the bytes it lent. */
static void buffer_is_filled_while_its_bytes_are_read(void) {
    pthread_t thread;
    OK(seawall_log_get(log_handle, 1, buffer, &error));
    const void *lent = seawall_buffer_data(buffer);
    CHECK(pthread_create(&thread, NULL, fill, buffer) == 0);
    use(lent);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void *release(void *handle) {
    usleep(100000);
    seawall_log_free(handle);
    return NULL;
}

/* Two threads share the handle; one frees it during a call of the other. */
static void handle_is_freed_during_a_call(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, release, log_handle) == 0);
    used += seawall_log_durable(log_handle);
    CHECK(pthread_join(thread, NULL) == 0);
    log_handle = NULL;
}

static void no_bug(void) {}

#define BUG(name) {#name, name}

static const struct {
    const char *name;
    void (*run)(void);
} BUGS[] = {
    BUG(no_bug),
    BUG(view_outlives_its_buffer),
    BUG(view_outlives_the_next_lookup),
    BUG(message_outlives_its_error),
    BUG(record_is_shorter_than_its_size),
    BUG(path_has_no_end),
    BUG(handle_is_freed_by_c_too),
    BUG(handle_is_used_after_its_end),
    BUG(handles_are_lost),
    BUG(record_is_read_misaligned),
    BUG(callback_races_with_the_program),
    BUG(buffer_is_filled_while_its_bytes_are_read),
    BUG(handle_is_freed_during_a_call),
};

int main(int argc, char **argv) {
    CHECK(argc == 3);
    OK(seawall_log_open(argv[2], NULL, &log_handle, &error));
    OK(seawall_log_append(log_handle, "a first record", 14, NULL, &error));
    OK(seawall_log_append(log_handle, "a second record", 15, NULL, &error));
    buffer = seawall_buffer_new();
    for (size_t at = 0; at < sizeof BUGS / sizeof BUGS[0]; ++at) {
        if (strcmp(argv[1], BUGS[at].name) == 0) {
            BUGS[at].run();
            seawall_buffer_free(buffer);
            seawall_log_free(log_handle);
            return 0;
        }
    }
    fprintf(stderr, "no such bug: %s\n", argv[1]);
    return 3;
}
