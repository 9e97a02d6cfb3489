// Seawall, a write-ahead log, for C. Made by cbindgen from crates/seawall-ffi: do not edit.
//
// - Most functions return a seawall_status, which says what the caller can do. Their last argument
//   is a place for an error object, or null: it gets null, or an object to read and to release with
//   seawall_error_free.
// - Functions check what they can: null, misaligned, impossible lengths, handles of another type.
//   Other memory must be valid during the call. Texts end with a zero; paths are bytes.
// - Threads may share handles, except where the type says otherwise. A handle is freed once, when no
//   other call uses it.
// - Records are numbered 1, 2, 3, ... without gaps (LSN); 0 means none.
// - A callback must not throw or longjmp. In a child made by fork only free and open are of use.


#ifndef SEAWALL_H
#define SEAWALL_H

#include <stddef.h>
#include <stdint.h>

// The version of this interface. It increases if a program that was compiled for an earlier one
// would no longer work; new functions, and new fields at the end of structures that the library
// allocates, do not change it.
#define SEAWALL_ABI_VERSION 1

// Waits without an end, as `timeout_ms`.
#define SEAWALL_FOREVER UINT64_MAX

// The outcome of a call: what the caller can do next.
enum seawall_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Done.
    SEAWALL_STATUS_OK = 0,
    // There is nothing: no further record, no such record, or not yet. Not an error.
    SEAWALL_STATUS_NONE = 1,
    // The log is unchanged. The same call can succeed later: when the device works again, has
    // space, or the other writer has exited.
    SEAWALL_STATUS_RETRY = 2,
    // This handle cannot write any more. Free it and open the log again, to see which records
    // survived.
    SEAWALL_STATUS_REOPEN = 3,
    // Stored bytes are damaged, or a crash may have left them unfinished. See `seawall verify` and
    // `seawall repair`.
    SEAWALL_STATUS_REPAIR = 4,
    // Fix the call: it does not fit the log, its state or its environment, or an argument is
    // invalid.
    SEAWALL_STATUS_USAGE = 5,
    // A bug in Seawall. The message has details; free the handle and open the log again.
    SEAWALL_STATUS_BUG = 6,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum seawall_status seawall_status;
#else
typedef int32_t seawall_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Which error happened, finer than its status.
enum seawall_error_code
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // An error that this version of the interface has no number for; see status and message.
    SEAWALL_ERROR_CODE_OTHER = 0,
    // The device or the operating system refused the operation: see `os_error`.
    SEAWALL_ERROR_CODE_IO = 1,
    // Another writer has the log open.
    SEAWALL_ERROR_CODE_BUSY = 2,
    // The path exists and is not a log.
    SEAWALL_ERROR_CODE_NOT_A_LOG = 3,
    // The log needs a newer version of Seawall.
    SEAWALL_ERROR_CODE_UNSUPPORTED = 4,
    // The options differ from those that the log was created with.
    SEAWALL_ERROR_CODE_MISMATCH = 5,
    // An option has an invalid value.
    SEAWALL_ERROR_CODE_INVALID_OPTION = 6,
    // Stored bytes differ from what was written: see `segment`, `offset`, `first_lsn`, `last_lsn`.
    SEAWALL_ERROR_CODE_DAMAGED = 7,
    // With SEAWALL_OPEN_MODE_STRICT: the end is a torn write or damage.
    SEAWALL_ERROR_CODE_AMBIGUOUS = 8,
    // The record or atomic set is too large.
    SEAWALL_ERROR_CODE_TOO_LARGE = 9,
    // The device has no space for another segment. The log is unchanged.
    SEAWALL_ERROR_CODE_DISK_FULL = 10,
    // The codec refused the record.
    SEAWALL_ERROR_CODE_ENCODE = 11,
    // The record at `first_lsn` has another encoding.
    SEAWALL_ERROR_CODE_DECODE = 12,
    // A write or sync failed, and this handle writes no more.
    SEAWALL_ERROR_CODE_POISONED = 13,
    // The records were truncated at the start; the log begins at `first_lsn`.
    SEAWALL_ERROR_CODE_PRUNED = 14,
    // Records that were read have been truncated; the next record is `first_lsn`.
    SEAWALL_ERROR_CODE_REWOUND = 15,
    // The log ends before the position `first_lsn`.
    SEAWALL_ERROR_CODE_BEYOND_END = 16,
    // A crash could still remove the records `first_lsn` to `last_lsn`.
    SEAWALL_ERROR_CODE_UNCONFIRMED = 17,
    // The call would have to wait.
    SEAWALL_ERROR_CODE_WOULD_BLOCK = 18,
    // The handle was closed.
    SEAWALL_ERROR_CODE_CLOSED = 19,
    // A failover callback tried to write to its log or to wait for it.
    SEAWALL_ERROR_CODE_REENTRANT = 20,
    // The process was forked after it opened the log.
    SEAWALL_ERROR_CODE_FORKED = 21,
    // An argument is invalid: a null or misaligned pointer, a length that no memory has, an
    // unknown number.
    SEAWALL_ERROR_CODE_ARGUMENT = 22,
    // A panic inside Seawall.
    SEAWALL_ERROR_CODE_PANIC = 23,
    // No key or a wrong one, or bytes that no holder of the key wrote. Nothing was changed.
    SEAWALL_ERROR_CODE_KEY = 24,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum seawall_error_code seawall_error_code;
#else
typedef int32_t seawall_error_code;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The state of the end of a log.
enum seawall_tail
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The log ends with its last record.
    SEAWALL_TAIL_CLEAN = 0,
    // A write was in progress that was not acknowledged: the usual trace of a crash.
    SEAWALL_TAIL_TORN = 1,
    // A torn write or damage; both look the same.
    SEAWALL_TAIL_AMBIGUOUS = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum seawall_tail seawall_tail;
#else
typedef int32_t seawall_tail;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The result of a verification. Programs must expect new ones.
enum seawall_verdict
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // All records are intact.
    SEAWALL_VERDICT_CLEAN = 0,
    // All records are intact; the log ends with a write that was not acknowledged.
    SEAWALL_VERDICT_TORN = 1,
    // The log ends with a torn write or damage.
    SEAWALL_VERDICT_UNSURE = 2,
    // Damaged, but every record is readable.
    SEAWALL_VERDICT_CORRECTABLE = 3,
    // Damaged, and records are lost.
    SEAWALL_VERDICT_LOST = 4,
    // A verdict that this version of the interface has no number for.
    SEAWALL_VERDICT_OTHER = 5,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum seawall_verdict seawall_verdict;
#else
typedef int32_t seawall_verdict;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What an append waits for.
enum seawall_level
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Nothing: a crash can lose the newest records, but never leaves a gap.
    SEAWALL_LEVEL_BUFFERED = 0,
    // A device sync. The default.
    SEAWALL_LEVEL_SYNCED = 1,
    // Also evidence at a second place, so that damage at one place cannot hide the record.
    SEAWALL_LEVEL_CONFIRMED = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum seawall_level seawall_level;
#else
typedef int32_t seawall_level;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How the bytes of the records are encoded; the program encodes them itself.
enum seawall_codec
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Any bytes. The default.
    SEAWALL_CODEC_RAW = 0,
    // MessagePack with field names.
    SEAWALL_CODEC_MSGPACK = 1,
    // JSON.
    SEAWALL_CODEC_JSON = 2,
    // MessagePack without field names.
    SEAWALL_CODEC_POSITIONAL = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum seawall_codec seawall_codec;
#else
typedef int32_t seawall_codec;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How a new log stores records in its files.
enum seawall_layout
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // In batches. The default.
    SEAWALL_LAYOUT_BINARY = 0,
    // As lines that people can read. The records must be JSON, with SEAWALL_CODEC_JSON.
    SEAWALL_LAYOUT_TEXT = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum seawall_layout seawall_layout;
#else
typedef int32_t seawall_layout;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How batches of records are compressed.
enum seawall_compression
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Not at all. The default of a new log.
    SEAWALL_COMPRESSION_NONE = 0,
    // As blocks of LZ4.
    SEAWALL_COMPRESSION_LZ4 = 1,
    // As frames of Zstandard, if the library was built with the feature zstd.
    SEAWALL_COMPRESSION_ZSTD = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum seawall_compression seawall_compression;
#else
typedef int32_t seawall_compression;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How much damage opening for append tolerates.
enum seawall_open_mode
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // A torn write at the end and nothing else.
    SEAWALL_OPEN_MODE_STRICT = 0,
    // Also an end that may be a torn write or damage: it is moved to quarantine and reported. The
    // default.
    SEAWALL_OPEN_MODE_STANDARD = 1,
    // Also damage, which stays in place and is reported.
    SEAWALL_OPEN_MODE_SALVAGE = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum seawall_open_mode seawall_open_mode;
#else
typedef int32_t seawall_open_mode;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A statistic of a handle since it was opened.
enum seawall_stat
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Batches written, with one device write and one sync each.
    SEAWALL_STAT_BATCHES = 0,
    // Records in them.
    SEAWALL_STAT_RECORDS = 1,
    // Bytes that these records take in the files.
    SEAWALL_STAT_BYTES = 2,
    // Ordinary rotations to a new segment.
    SEAWALL_STAT_ROTATIONS = 3,
    // Marks written.
    SEAWALL_STAT_MARKS = 4,
    // Failed writes and syncs that the log survived in a new segment.
    SEAWALL_STAT_FAILOVERS = 5,
    // Segments removed at the start of the log.
    SEAWALL_STAT_PRUNED = 6,
    // Segments created in files of removed segments.
    SEAWALL_STAT_REUSED = 7,
    // Stripes of records with parity.
    SEAWALL_STAT_PARITY_STRIPES = 8,
    // Segments whose parity is incomplete because of an error.
    SEAWALL_STAT_PARITY_FAILURES = 9,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum seawall_stat seawall_stat;
#else
typedef int32_t seawall_stat;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Bytes that the caller owns, for use again and again. One thread at a time may use it.
typedef struct seawall_buffer seawall_buffer;

// Reads the records of a log in order, without copying them. One thread at a time may use it.
typedef struct seawall_cursor seawall_cursor;

// Reads the records of a log as they become durable. One thread at a time may use it.
typedef struct seawall_follower seawall_follower;

// A log that is open for append. Threads may share it, and threads that append at the same time
// share device syncs.
typedef struct seawall_log seawall_log;

// Options for opening a log. One thread at a time may use them; opening copies them.
typedef struct seawall_options seawall_options;

// A log that is open for reading. It takes no lock and changes no file. Threads may share it.
typedef struct seawall_reader seawall_reader;

// A submitted record. Threads may share it.
typedef struct seawall_ticket seawall_ticket;

// An error. It never changes, so threads may share it; seawall_error_free releases it. Numbers
// that do not apply are 0.
typedef struct seawall_error {
    // What the caller can do.
    seawall_status status;
    // Which error.
    seawall_error_code code;
    // What happened, in English: the log, what is wrong, what to do.
    const char *message;
    // The path of the log; null if the error is about no log.
    const char *log;
    // The number of the operating system's error (errno).
    int32_t os_error;
    // The damaged segment; 0 for the manifest.
    uint64_t segment;
    // Where the damage begins in the segment's file.
    uint64_t offset;
    // The first record concerned.
    uint64_t first_lsn;
    // The last record concerned; 0 also if it is unknown.
    uint64_t last_lsn;
} seawall_error;

// Called after a write or sync failed and the log continued in the new segment `segment`; `cause`
// is valid during the call. It runs on a thread that appends or on one of the log, and several
// threads may call it at once. A call in it that would write to this log or wait for it gets
// SEAWALL_ERROR_CODE_REENTRANT, except seawall_log_close, which closes it. It must not free the
// log, throw or longjmp.
typedef void (*seawall_failover_callback)(void *context, const char *cause, uint64_t segment);

// One place where stored bytes differ from what was written.
typedef struct seawall_damage {
    // The segment; 0 for the manifest.
    uint64_t segment;
    // The first damaged byte in the file.
    uint64_t offset;
    // How many bytes cannot be trusted.
    uint64_t size;
    // The first lost record; 0 if none is lost.
    uint64_t lost_from;
    // The last lost record; 0 if none is lost, or if the end is unknown.
    uint64_t lost_to;
    // What is damaged, in English.
    const char *text;
} seawall_damage;

// What opening a log found. It never changes.
typedef struct seawall_recovery {
    // 1 if this call created the log, otherwise 0.
    int32_t created;
    // The state of the end.
    seawall_tail tail;
    // The first record; 0 if there is none.
    uint64_t first;
    // The last record; 0 if there is none. Everything up to it is durable.
    uint64_t last;
    // How many bytes after the last record were removed.
    uint64_t removed_size;
    // The file in the log's directory that keeps them; null if there is none.
    const char *quarantine;
    // Damage that stays, with SEAWALL_OPEN_MODE_SALVAGE.
    const struct seawall_damage *damage;
    // How many places.
    size_t damage_count;
    // Problems that affect no record, for an operator, in English.
    const char *const *warnings;
    // How many.
    size_t warning_count;
} seawall_recovery;

// Bytes that C lends during a call.
typedef struct seawall_slice {
    // The first byte; may be null if `size` is 0.
    const void *data;
    // How many.
    size_t size;
} seawall_slice;

// Called once when a record is as durable as the log's level requires (SEAWALL_STATUS_OK), or when
// that failed: then `error` says why. The library releases it after the call.
//
// It runs on a thread that appends, on one of the log, or at once in seawall_ticket_on_done. It
// may call any function, also with the same log, and free the ticket, but must not free the log: a
// call may still use it. While it runs, other callbacks may wait. It must not throw or longjmp.
typedef void (*seawall_done_callback)(void *context,
                                      seawall_status status,
                                      uint64_t lsn,
                                      const struct seawall_error *error);

// A record. The bytes are borrowed: the function that returns them says until when they are valid.
typedef struct seawall_record {
    // The record's number.
    uint64_t lsn;
    // The first byte; never null.
    const void *data;
    // How many bytes.
    size_t size;
    // When the record's batch was written, in microseconds since 1970; 0 if unknown.
    uint64_t time_us;
    // The schema number of the log when the record was appended.
    uint32_t schema;
    // 1 if the atomic set continues with the next record, otherwise 0.
    uint32_t set_continues;
} seawall_record;

// What a verification found. It never changes, so threads may share it.
typedef struct seawall_verification {
    // The result.
    seawall_verdict verdict;
    // The state of the end.
    seawall_tail tail;
    // How many records are intact.
    uint64_t records;
    // The first intact record; 0 if there is none.
    uint64_t first;
    // The last intact record; 0 if there is none.
    uint64_t last;
    // All damage, in the order of the log.
    const struct seawall_damage *damage;
    // How many places.
    size_t damage_count;
} seawall_verification;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the ABI version of the library, which must be SEAWALL_ABI_VERSION.
uint32_t seawall_abi_version(void);

// Returns the version of Seawall, such as "0.1.0".
const char *seawall_version(void);

// Releases an error; null is allowed.
void seawall_error_free(struct seawall_error *error);

// Makes options with the defaults: creates a missing log, waits for SEAWALL_LEVEL_SYNCED, segments
// of up to 64 MiB. Null if that fails. Free them with seawall_options_free.
//
// Each setter returns SEAWALL_STATUS_USAGE for an invalid value, and then changes nothing.
struct seawall_options *seawall_options_new(void);

// Releases options; null is allowed.
void seawall_options_free(struct seawall_options *options);

// Sets whether to create a missing log; 0: no.
seawall_status seawall_options_set_create(struct seawall_options *options, int32_t create);

// Sets what an append waits for: a seawall_level. A new log stores it; for an existing log it
// applies while this handle is open.
seawall_status seawall_options_set_level(struct seawall_options *options, int32_t level);

// Sets how long records, in milliseconds, and how many bytes may wait in memory at level buffered.
seawall_status seawall_options_set_buffered(struct seawall_options *options,
                                            uint64_t delay_ms,
                                            size_t size_max);

// Sets level buffered, and that the append which makes `records` records wait in memory waits for
// a sync of all of them. A crash of the process loses up to `records` - 1. 0 counts as 1.
seawall_status seawall_options_set_sync_every(struct seawall_options *options, uint64_t records);

// Sets the size in bytes up to which segments double, at least 1 MiB; fixed at creation.
seawall_status seawall_options_set_segment_size(struct seawall_options *options, uint64_t size);

// Sets the parity that the log writes from now on: `parity` blocks for each `data` blocks, such as
// 2 for 16; 0 and 0 turn it off. The log stores it.
seawall_status seawall_options_set_parity(struct seawall_options *options,
                                          uint16_t data,
                                          uint16_t parity);

// Sets whether the file of a removed segment may become that of a new one, which is faster and the
// default; 0: no, so that removed records do not stay on the disk.
seawall_status seawall_options_set_reuse(struct seawall_options *options, int32_t reuse);

// Sets whether each write of records ends with zeros up to the end of its block of 4 KiB, for
// devices that garble a block if the power fails while they write it; 0, the default: no. The log
// does not store it.
seawall_status seawall_options_set_fill_blocks(struct seawall_options *options, int32_t fill);

// Sets how a new log stores records: a seawall_layout; fixed at creation.
seawall_status seawall_options_set_layout(struct seawall_options *options, int32_t layout);

// Sets how the log compresses batches from now on: a seawall_compression. The log stores it. Where
// an attacker chooses part of the records and sees sizes, compression can reveal the rest.
seawall_status seawall_options_set_compression(struct seawall_options *options,
                                               int32_t compression);

// Sets the file with the key of an encrypted log: 32 bytes, as `seawall keygen` makes it. The file
// is read at each open. A new log is encrypted with it; an existing one that is not encrypted is
// refused, unless seawall_options_set_encryption is called, too.
seawall_status seawall_options_set_key_file(struct seawall_options *options, const char *path);

// Encrypts the log from now on, with the key of seawall_options_set_key_file. `padding` sets the
// sizes that encrypted batches grow to, so that the sizes of records show less. 0: none; 1: up to
// 12 % more; else multiples of this number of bytes, itself a multiple of 8 up to 1 MiB. The log
// stores it.
seawall_status seawall_options_set_encryption(struct seawall_options *options, uint32_t padding);

// Sets how the records are encoded: a seawall_codec. Opening a log with another one fails.
seawall_status seawall_options_set_codec(struct seawall_options *options, int32_t codec);

// Sets the name of the record type, at most 64 bytes of UTF-8. A log with another name is refused;
// a log without one takes it.
seawall_status seawall_options_set_type_name(struct seawall_options *options, const char *name);

// Sets the schema number of new records. A log with a higher number is refused.
seawall_status seawall_options_set_schema(struct seawall_options *options, uint32_t schema);

// Sets how much damage opening for append tolerates: a seawall_open_mode.
seawall_status seawall_options_set_mode(struct seawall_options *options, int32_t mode);

// Sets whether readers continue after damage; 0: no. Each damaged place is still an error, and
// records after it are intact, but some are missing.
seawall_status seawall_options_set_skip_damaged(struct seawall_options *options, int32_t skip);

// Sets a function to call when a write or sync failed and the log continued; null: none. `context`
// is passed to it.
seawall_status seawall_options_set_on_failover(struct seawall_options *options,
                                               seawall_failover_callback callback,
                                               void *context);

// Opens the log in the directory `path`, or creates it. Recovers from a crash;
// seawall_log_recovery reports what was found.
//
// `options` may be null, for the defaults. `*log` is the handle, or null after an error. Release
// it with seawall_log_free.
seawall_status seawall_log_open(const char *path,
                                const struct seawall_options *options,
                                struct seawall_log **log,
                                struct seawall_error **error);

// Writes everything appended, records the clean close, and lets other processes open the log.
//
// Later calls with this handle return SEAWALL_STATUS_REOPEN, and threads that wait in one return.
// The handle must still be freed.
seawall_status seawall_log_close(const struct seawall_log *log, struct seawall_error **error);

// Releases the handle, and closes the log without a report if seawall_log_close was not called;
// null is allowed. No other call may use the handle meanwhile or later. Tickets, cursors and
// followers of it stay valid.
void seawall_log_free(struct seawall_log *log);

// What opening found. Valid until the handle is freed; null if `log` is invalid.
const struct seawall_recovery *seawall_log_recovery(const struct seawall_log *log);

// The last durable record; 0 if there is none.
uint64_t seawall_log_durable(const struct seawall_log *log);

// The first record of the log, or the next one if the log is empty; 0 if `log` is invalid.
uint64_t seawall_log_oldest(const struct seawall_log *log);

// Where replay starts: the newest checkpoint, or the oldest record without one; 0 if `log` is
// invalid.
uint64_t seawall_log_replay_start(const struct seawall_log *log);

// Waits until every record appended so far is durable. `last`, if not null, gets the last of them,
// or 0 if the log is empty.
seawall_status seawall_log_flush(const struct seawall_log *log,
                                 uint64_t *last,
                                 struct seawall_error **error);

// Waits until every record appended so far is confirmed: durable, with durable evidence in another
// place. `last` as in seawall_log_flush.
seawall_status seawall_log_confirm(const struct seawall_log *log,
                                   uint64_t *last,
                                   struct seawall_error **error);

// Sets a checkpoint durably: replay needs no record before `from`, which must exist.
seawall_status seawall_log_checkpoint(const struct seawall_log *log,
                                      uint64_t from,
                                      struct seawall_error **error);

// Removes the segments that hold only records before `from`, durably. Whole segments are removed,
// so some records before `from` may stay: `oldest`, if not null, gets the first one left.
seawall_status seawall_log_truncate_before(const struct seawall_log *log,
                                           uint64_t from,
                                           uint64_t *oldest,
                                           struct seawall_error **error);

// Removes every record after `last`, durably; 0: all records. The next record gets the first
// number that this frees.
seawall_status seawall_log_truncate_after(const struct seawall_log *log,
                                          uint64_t last,
                                          struct seawall_error **error);

// Appends a record and waits until it is as durable as the log's level requires. `lsn`, if not
// null, gets its number.
//
// After SEAWALL_STATUS_RETRY and SEAWALL_STATUS_USAGE the log is unchanged. After
// SEAWALL_STATUS_REOPEN, open the log again to learn whether this record survived.
seawall_status seawall_log_append(const struct seawall_log *log,
                                  const void *data,
                                  size_t size,
                                  uint64_t *lsn,
                                  struct seawall_error **error);

// Appends `count` records as one atomic set, of 8 MiB at most: after a crash either all of them
// exist or none. `first` and `last`, if not null, get the first and the last number.
seawall_status seawall_log_append_batch(const struct seawall_log *log,
                                        const struct seawall_slice *records,
                                        size_t count,
                                        uint64_t *first,
                                        uint64_t *last,
                                        struct seawall_error **error);

// Appends a record without waiting until it is durable. Blocks while 2 MiB wait to be written, and
// during a checkpoint or truncation.
//
// `lsn` and `ticket` may be null. Free the ticket with seawall_ticket_free. Without a ticket,
// seawall_log_flush waits for the record.
seawall_status seawall_log_submit(const struct seawall_log *log,
                                  const void *data,
                                  size_t size,
                                  uint64_t *lsn,
                                  struct seawall_ticket **ticket,
                                  struct seawall_error **error);

// As seawall_log_submit, but where that would block the error has the code
// SEAWALL_ERROR_CODE_WOULD_BLOCK and the status SEAWALL_STATUS_RETRY.
seawall_status seawall_log_try_submit(const struct seawall_log *log,
                                      const void *data,
                                      size_t size,
                                      uint64_t *lsn,
                                      struct seawall_ticket **ticket,
                                      struct seawall_error **error);

// The record's number; 0 if `ticket` is invalid.
uint64_t seawall_ticket_lsn(const struct seawall_ticket *ticket);

// Waits as seawall_log_append does.
seawall_status seawall_ticket_wait(const struct seawall_ticket *ticket,
                                   struct seawall_error **error);

// Returns at once: SEAWALL_STATUS_NONE if the record is not yet as durable as the log's level
// requires.
seawall_status seawall_ticket_poll(const struct seawall_ticket *ticket,
                                   struct seawall_error **error);

// Calls `callback` once when the record is as durable as the log's level requires or has failed,
// also if the ticket is freed before. `context` is passed to it. Each call of this function adds a
// callback.
seawall_status seawall_ticket_on_done(const struct seawall_ticket *ticket,
                                      seawall_done_callback callback,
                                      void *context,
                                      struct seawall_error **error);

// Adds 1 to the eventfd `descriptor` when the record is as durable as the log's level requires or
// has failed; then seawall_ticket_poll tells which. The descriptor must be non-blocking; others
// than eventfds are refused. The library uses a duplicate, so the caller may close it at any time.
seawall_status seawall_ticket_signal(const struct seawall_ticket *ticket,
                                     int descriptor,
                                     struct seawall_error **error);

// Releases a ticket; null is allowed. The record is still written, and callbacks are still called.
void seawall_ticket_free(struct seawall_ticket *ticket);

// Makes a buffer; null if that fails. Free it with seawall_buffer_free.
struct seawall_buffer *seawall_buffer_new(void);

// The bytes of a buffer, valid until it is filled again or freed; null if `buffer` is invalid.
const void *seawall_buffer_data(const struct seawall_buffer *buffer);

// How many bytes a buffer has; 0 if `buffer` is invalid.
size_t seawall_buffer_size(const struct seawall_buffer *buffer);

// Releases a buffer; null is allowed.
void seawall_buffer_free(struct seawall_buffer *buffer);

// Copies the record `lsn` to `buffer`. SEAWALL_STATUS_NONE after the last durable record.
seawall_status seawall_log_get(const struct seawall_log *log,
                               uint64_t lsn,
                               struct seawall_buffer *buffer,
                               struct seawall_error **error);

// Reads the durable records from `from` on, as of now. Begin at seawall_log_replay_start. Free the
// cursor with seawall_cursor_free.
seawall_status seawall_log_read(const struct seawall_log *log,
                                uint64_t from,
                                struct seawall_cursor **cursor,
                                struct seawall_error **error);

// Follows the log: the durable records from `from` on, then new ones. Free the follower with
// seawall_follower_free.
seawall_status seawall_log_follow(const struct seawall_log *log,
                                  uint64_t from,
                                  struct seawall_follower **follower,
                                  struct seawall_error **error);

// Gets the next record; SEAWALL_STATUS_NONE at the end. The bytes are valid until the next call
// with this cursor. After an error reading ends, unless the reader skips damage.
seawall_status seawall_cursor_next(struct seawall_cursor *cursor,
                                   struct seawall_record *record,
                                   struct seawall_error **error);

// As seawall_cursor_next, but copies the bytes to `buffer`: they are valid until the buffer is
// filled again or freed.
seawall_status seawall_cursor_next_copy(struct seawall_cursor *cursor,
                                        struct seawall_buffer *buffer,
                                        struct seawall_record *record,
                                        struct seawall_error **error);

// Releases a cursor; null is allowed.
void seawall_cursor_free(struct seawall_cursor *cursor);

// Waits up to `timeout_ms` milliseconds, or SEAWALL_FOREVER, for the next record;
// SEAWALL_STATUS_NONE if there is none by then. The bytes are valid until the next call with this
// follower. After an error a later call tries again at the same position.
//
// Closing the log in this process ends the wait with SEAWALL_STATUS_REOPEN. `time_us` and `schema`
// are 0.
seawall_status seawall_follower_next(struct seawall_follower *follower,
                                     uint64_t timeout_ms,
                                     struct seawall_record *record,
                                     struct seawall_error **error);

// As seawall_follower_next, but copies the bytes to `buffer`: they are valid until the buffer is
// filled again or freed.
seawall_status seawall_follower_next_copy(struct seawall_follower *follower,
                                          uint64_t timeout_ms,
                                          struct seawall_buffer *buffer,
                                          struct seawall_record *record,
                                          struct seawall_error **error);

// The number of the record that comes next: store it to continue there. 0 if `follower` is
// invalid or another thread waits in it.
uint64_t seawall_follower_position(const struct seawall_follower *follower);

// Releases a follower; null is allowed.
void seawall_follower_free(struct seawall_follower *follower);

// Opens the log in the directory `path` for reading, also while a writer has it open.
//
// `options` may be null. If it sets codec, type name or schema, a log with others is refused.
// `*reader` is the handle, or null after an error. Release it with seawall_reader_free.
seawall_status seawall_reader_open(const char *path,
                                   const struct seawall_options *options,
                                   struct seawall_reader **reader,
                                   struct seawall_error **error);

// Gets the first record of the log, or the next one if the log is empty. Reading begins there.
seawall_status seawall_reader_oldest(const struct seawall_reader *reader,
                                     uint64_t *oldest,
                                     struct seawall_error **error);

// Gets where replay starts: the newest checkpoint, or the oldest record without one, also if the
// manifest is damaged.
seawall_status seawall_reader_replay_start(const struct seawall_reader *reader,
                                           uint64_t *from,
                                           struct seawall_error **error);

// Copies the record `lsn` to `buffer`. SEAWALL_STATUS_NONE after the last record that a reader may
// see.
seawall_status seawall_reader_get(const struct seawall_reader *reader,
                                  uint64_t lsn,
                                  struct seawall_buffer *buffer,
                                  struct seawall_error **error);

// Reads the records from `from` on. Free the cursor with seawall_cursor_free.
seawall_status seawall_reader_read(const struct seawall_reader *reader,
                                   uint64_t from,
                                   struct seawall_cursor **cursor,
                                   struct seawall_error **error);

// Follows the log: the records from `from` on, then new ones as they become durable. Free the
// follower with seawall_follower_free.
seawall_status seawall_reader_follow(const struct seawall_reader *reader,
                                     uint64_t from,
                                     struct seawall_follower **follower,
                                     struct seawall_error **error);

// Releases the handle; null is allowed. Cursors and followers of it stay valid.
void seawall_reader_free(struct seawall_reader *reader);

// Verifies every byte of the log in the directory `path`, also while a writer has it open. Damage
// is not an error: the report lists it. Free the report with seawall_verification_free.
seawall_status seawall_verify(const char *path,
                              struct seawall_verification **verification,
                              struct seawall_error **error);

// Releases a report; null is allowed.
void seawall_verification_free(struct seawall_verification *verification);

// Copies the log in the directory `path` to the new directory `target`, durably, also while a
// writer has it open. `last`, if not null, gets the last record of the copy, or 0.
//
// An error leaves no `target`, unless it says that `target` is complete; a crash leaves
// `target.partial`, which can be removed.
seawall_status seawall_back_up(const char *path,
                               const char *target,
                               uint64_t *last,
                               struct seawall_error **error);

// Repairs the log in the directory `path`, which no writer may have open, from its parity and from
// a copy of the same log in the directory `replica`, which may be null.
//
// `verification`, if not null, gets what could not be repaired. Free it with
// seawall_verification_free. The replaced bytes are kept in quarantine.
seawall_status seawall_repair(const char *path,
                              const char *replica,
                              struct seawall_verification **verification,
                              struct seawall_error **error);

// Gets the statistic `stat`, a seawall_stat. SEAWALL_STATUS_USAGE if the library has no such one.
seawall_status seawall_log_stat(const struct seawall_log *log, int32_t stat, uint64_t *value);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SEAWALL_H */
