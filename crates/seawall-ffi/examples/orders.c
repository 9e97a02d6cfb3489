/* Appends a record, and reads all records back. Build and run it after installing the library:
 *
 *     cc orders.c $(pkg-config --cflags --libs seawall) -o orders && ./orders orders.wal
 */
#include <seawall.h>
#include <stdio.h>
#include <string.h>

/* Prints an error, and whether a retry can help. */
static int fail(seawall_error *error) {
    fprintf(stderr, "%s\n", error->message);
    if (error->status == SEAWALL_STATUS_RETRY) fprintf(stderr, "try again later\n");
    seawall_error_free(error);
    return 1;
}

int main(int argc, char **argv) {
    seawall_log *log = NULL;
    seawall_cursor *cursor = NULL;
    seawall_error *error = NULL;
    seawall_record record;
    const char *order = "order: 3 apples";
    uint64_t lsn = 0;
    int status;

    /* Creates or opens the log; recovery happens here. */
    if (seawall_log_open(argc > 1 ? argv[1] : "orders.wal", NULL, &log, &error)) return fail(error);

    /* Replays the records of earlier runs: in order, verified. */
    if (seawall_log_read(log, seawall_log_replay_start(log), &cursor, &error)) return fail(error);
    while ((status = seawall_cursor_next(cursor, &record, &error)) == SEAWALL_STATUS_OK) {
        printf("redo %llu: %.*s\n", (unsigned long long)record.lsn, (int)record.size,
               (const char *)record.data);
    }
    seawall_cursor_free(cursor);
    if (status != SEAWALL_STATUS_NONE) return fail(error);

    /* Returns when the record is durable: now act on it. */
    if (seawall_log_append(log, order, strlen(order), &lsn, &error)) return fail(error);
    printf("logged %llu\n", (unsigned long long)lsn);

    if (seawall_log_close(log, &error)) return fail(error);
    seawall_log_free(log);
    return 0;
}
