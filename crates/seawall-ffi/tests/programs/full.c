/* A full disk refuses records, and the log continues when there is space. Argument: a folder on a
 * small file system. Exits with 2 if a check fails. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <seawall.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    static char record[100000];
    char ballast[256], path[256];
    seawall_log *log = NULL;
    seawall_error *error = NULL;
    seawall_options *options = seawall_options_new();
    uint64_t lsn = 0, last = 0;
    int status, file;
    CHECK(argc == 2);
    snprintf(ballast, sizeof ballast, "%s/ballast", argv[1]);
    snprintf(path, sizeof path, "%s/log", argv[1]);
    file = open(ballast, O_CREAT | O_WRONLY, 0600);
    CHECK(file >= 0 && posix_fallocate(file, 0, 3 << 20) == 0 && close(file) == 0);
    CHECK(seawall_options_set_segment_size(options, 1 << 20) == SEAWALL_STATUS_OK);
    OK(seawall_log_open(path, options, &log, &error));

    while ((status = seawall_log_append(log, record, sizeof record, &lsn, &error)) == 0) last = lsn;
    CHECK(last > 0);
    CHECK(status == SEAWALL_STATUS_RETRY && error->code == SEAWALL_ERROR_CODE_DISK_FULL);
    CHECK(error->os_error == ENOSPC && strcmp(error->log, path) == 0);
    seawall_error_free(error);
    error = NULL;
    CHECK(seawall_log_durable(log) == last);

    /* The same call succeeds once there is space, and no record is missing. */
    CHECK(unlink(ballast) == 0);
    OK(seawall_log_append(log, "after", 5, &lsn, &error));
    CHECK(lsn == last + 1);
    OK(seawall_log_close(log, &error));
    seawall_log_free(log);
    OK(seawall_log_open(path, options, &log, &error));
    CHECK(seawall_log_durable(log) == lsn);
    seawall_log_free(log);
    seawall_options_free(options);
    return 0;
}
