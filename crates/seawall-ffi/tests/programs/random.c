/* Random calls, many with invalid arguments: each returns a known status, and nothing crashes.
 * Arguments: a folder for the log, which must not exist, and a seed. */
#include "check.h"

#include <seawall.h>
#include <string.h>

enum { CALLS = 1500, HANDLES = 9 };

static uint64_t state;
static uint64_t memory[64];
static seawall_error *error = NULL;
/* Null, a misaligned address, memory without a handle, and one handle of each kind. */
static void *handles[HANDLES];
static uint64_t numbers[4];
static char data[200];

static uint64_t below(uint64_t end) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % end;
}

/* A handle, in at least half of all calls the right one. */
static void *any(int right) { return handles[below(2) ? (uint64_t)right : below(HANDLES)]; }

static uint64_t number(void) {
    const uint64_t some[] = {0, 1, 2, 7, 50, 100000, UINT64_MAX};
    return some[below(7)];
}

/* A length that fits in `data`, or an impossible one. */
static size_t length(void) {
    const size_t some[] = {0, 1, 100, sizeof data, (size_t)PTRDIFF_MAX + 1, SIZE_MAX};
    return some[below(6)];
}

static const void *bytes(void) { return below(5) ? data : NULL; }

static uint64_t *place(void) {
    uint64_t *some[] = {NULL, &numbers[0], (uint64_t *)(void *)((char *)memory + 1)};
    return some[below(3)];
}

enum { OPTIONS = 3, LOG, READER, CURSOR, FOLLOWER, BUFFER };

static int call(const char *path) {
    seawall_slice set[2] = {{"a", 1}, {NULL, 0}};
    seawall_record record;
    seawall_ticket *ticket = NULL;
    seawall_cursor *cursor = NULL;
    seawall_follower *follower = NULL;
    seawall_verification *found = NULL;
    seawall_log *log = NULL;
    int status = 0;
    set[1].data = bytes();
    set[1].size = length();
    switch (below(26)) {
    case 0: return seawall_log_append(any(LOG), bytes(), length(), place(), &error);
    case 1: return seawall_log_append(any(LOG), data, below(100), place(), &error);
    case 2: return seawall_log_append_batch(any(LOG), set, below(3), place(), place(), &error);
    case 3:
    case 4:
        status = seawall_log_submit(any(LOG), bytes(), length(), place(), &ticket, &error);
        if (below(2)) seawall_error_free(error), error = NULL, status = seawall_ticket_poll(ticket, &error);
        if (below(2)) seawall_error_free(error), error = NULL, status = seawall_ticket_wait(ticket, &error);
        seawall_ticket_free(ticket);
        return status;
    case 5: return seawall_log_try_submit(any(LOG), bytes(), length(), place(), NULL, &error);
    case 6: return seawall_log_flush(any(LOG), place(), &error);
    case 7: return seawall_log_confirm(any(LOG), place(), &error);
    case 8: return seawall_log_checkpoint(any(LOG), number(), &error);
    case 9: return seawall_log_truncate_before(any(LOG), number(), place(), &error);
    case 10: return below(20) ? 0 : seawall_log_truncate_after(any(LOG), number(), &error);
    case 11:
        status = seawall_log_read(any(LOG), number(), &cursor, &error);
        seawall_cursor_free(cursor);
        return status;
    case 12:
        status = seawall_log_follow(any(LOG), number(), &follower, &error);
        seawall_follower_free(follower);
        return status;
    case 13: return seawall_log_get(any(LOG), number(), any(BUFFER), &error);
    case 14: return seawall_reader_get(any(READER), number(), any(BUFFER), &error);
    case 15: return seawall_reader_oldest(any(READER), place(), &error);
    case 16: return seawall_cursor_next(any(CURSOR), below(9) ? &record : NULL, &error);
    case 17: return seawall_cursor_next_copy(any(CURSOR), any(BUFFER), &record, &error);
    case 18: return seawall_follower_next(any(FOLLOWER), 0, below(9) ? &record : NULL, &error);
    case 19: return seawall_follower_next_copy(any(FOLLOWER), 1, any(BUFFER), &record, &error);
    case 20: return seawall_log_stat(any(LOG), (int)below(12) - 1, place());
    case 21: return seawall_options_set_level(any(OPTIONS), (int)below(5) - 1);
    case 22: return seawall_options_set_parity(any(OPTIONS), (uint16_t)below(99), (uint16_t)below(9));
    case 23:
        status = seawall_log_open(below(2) ? path : NULL, any(OPTIONS), &log, &error);
        CHECK(log == NULL);
        return status;
    case 24:
        status = seawall_verify(below(2) ? path : NULL, &found, &error);
        seawall_verification_free(found);
        return status;
    default:
        CHECK(seawall_buffer_size(any(BUFFER)) <= sizeof data);
        (void)seawall_log_durable(any(LOG));
        (void)seawall_log_recovery(any(LOG));
        (void)seawall_follower_position(any(FOLLOWER));
        return 0;
    }
}

int main(int argc, char **argv) {
    int found[7] = {0};
    CHECK(argc == 3);
    state = strtoull(argv[2], NULL, 10) * 2 + 1;
    handles[1] = (char *)memory + 1;
    handles[2] = memory;
    handles[OPTIONS] = seawall_options_new();
    handles[BUFFER] = seawall_buffer_new();
    CHECK(seawall_options_set_level(handles[OPTIONS], SEAWALL_LEVEL_BUFFERED) == 0);
    OK(seawall_log_open(argv[1], handles[OPTIONS], (seawall_log **)&handles[LOG], &error));
    OK(seawall_log_append(handles[LOG], "first", 5, NULL, &error));
    OK(seawall_log_flush(handles[LOG], NULL, &error));
    OK(seawall_reader_open(argv[1], NULL, (seawall_reader **)&handles[READER], &error));
    OK(seawall_log_read(handles[LOG], 1, (seawall_cursor **)&handles[CURSOR], &error));
    OK(seawall_log_follow(handles[LOG], 1, (seawall_follower **)&handles[FOLLOWER], &error));
    for (int turn = 0; turn < CALLS; ++turn) {
        int status = call(argv[1]);
        CHECK(status >= 0 && status < 6);
        CHECK(error == NULL || error->status == status);
        seawall_error_free(error);
        error = NULL;
        found[status] += 1;
    }
    CHECK(found[SEAWALL_STATUS_OK] > CALLS / 10 && found[SEAWALL_STATUS_USAGE] > CALLS / 10);
    seawall_follower_free(handles[FOLLOWER]);
    seawall_cursor_free(handles[CURSOR]);
    seawall_reader_free(handles[READER]);
    OK(seawall_log_close(handles[LOG], &error));
    seawall_log_free(handles[LOG]);
    seawall_buffer_free(handles[BUFFER]);
    seawall_options_free(handles[OPTIONS]);
    return 0;
}
