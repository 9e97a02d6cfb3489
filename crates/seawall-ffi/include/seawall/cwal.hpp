// The classes of CWal (github.com/sjay05/cwal) on a Seawall log. Include this header in place of
// walstream.h, walreader.h and walwriter.h, and link libseawall:
//
//     WalWriter w;
//     w.open_file("foo.wal");                             // a folder; creates or recovers
//     w.append_log(LogEntry(12, "Log Entry #1"));
//     w.wal_fsync();                                      // durable, or it throws
//     w.rotate_log();                                     // discards the entries so far
//
// What differs from CWal:
//
// - The path is a folder. A file of CWal is refused, never overwritten: `seawall convert` reads it.
// - wal_fsync covers every appended entry, also those that CWal would keep in its stream. If
//   wal_fsync, wal_flush, rotate_log or close_file fails, it throws seawall::error.
// - wal_flush is wal_fsync: it waits for the device. Without either, a crash loses at most the
//   entries of the last 10 ms or 1 MiB, and leaves no gap.
// - After rotate_log, readers find no old entry. The space is reused once a segment is full.
// - open_file recovers from a crash. An entry with a wrong length or content is never returned:
//   read_log throws wal_damage, a std::invalid_argument as in CWal, with the segment and offset.
// - Readers see only durable entries, and create nothing.
// - There is no stream `fs`: call is_open(). FILE_FORMAT::TEXT is accepted and changes nothing;
//   `seawall cat` shows entries as text.
//
// CWal does not have append_log_async; backup and restore, for copies on request (appends write no
// mirror); and view_log, which reads an entry without copying it.
#ifndef SEAWALL_CWAL_HPP
#define SEAWALL_CWAL_HPP

#include <seawall.hpp>

// Programs for CWal use these headers without including them.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace seawall {
namespace cwal {

// How CWal stores entries. Here both values mean the same.
enum class FILE_FORMAT : std::uint32_t { BINARY, TEXT };

// An entry. As in CWal, append_log refuses one whose length differs from that of its data.
struct LogEntry {
    std::uint64_t byte_length = 0;
    std::string data;

    LogEntry() = default;
    LogEntry(std::uint64_t length, std::string info) : byte_length(length), data(std::move(info)) {}
    // CWal leaves the length at 0, and later refuses the entry.
    LogEntry(std::string info) : byte_length(info.size()), data(std::move(info)) {}
};

// Stored entries are damaged: `why` has the segment, the offset and the lost entries.
class wal_damage : public std::invalid_argument {
public:
    explicit wal_damage(failure why) : std::invalid_argument(why.message), why_(std::move(why)) {}

    const failure &why() const noexcept { return why_; }

private:
    failure why_;
};

// Base class of the writer and the reader.
class WalStream {
public:
    std::string file_path;
    FILE_FORMAT file_format = FILE_FORMAT::BINARY;

    void set_file_format(FILE_FORMAT format) { file_format = format; }

    // The reason of the last call that returned false.
    const failure &why() const noexcept { return why_; }

protected:
    WalStream() = default;
    explicit WalStream(FILE_FORMAT format) : file_format(format) {}

    // Also prints to standard error, as CWal does.
    bool refuse(failure why) {
        std::cerr << why.message << '\n';
        why_ = std::move(why);
        return false;
    }
    bool refuse(const char *message) {
        failure why;
        why.message = message;
        return refuse(std::move(why));
    }

private:
    failure why_;
};

// Appends entries. Threads may share an open writer for append_log, append_log_async, wal_flush and
// wal_fsync, as long as these succeed.
class WalWriter : public WalStream {
public:
    WalWriter() = default;
    WalWriter(FILE_FORMAT format) : WalStream(format) {}

    // Opens the log in the folder `path` to append at its end; creates or recovers it.
    bool open_file(const std::string &path) {
        if (is_open()) return refuse("a log is open already");
        file_path = path;
        // At this level a ticket waits for the device. append_log, which submits, does not.
        auto opened = nothrow::log::open(path, options().level(SEAWALL_LEVEL_SYNCED));
        if (!opened) return refuse(std::move(opened).why());
        log_.emplace(*std::move(opened));
        return true;
    }

    // As open_file, and removes all entries.
    bool open_file_truncated(const std::string &path) {
        if (!open_file(path)) return false;
        auto removed = log_->truncate_after(0);
        // Also removes the segments of the removed entries.
        auto oldest = removed ? log_->truncate_before(log_->oldest()) : result<lsn_t>(removed.why());
        if (oldest) return true;
        log_.reset();
        return refuse(std::move(oldest).why());
    }

    bool is_open() const noexcept { return log_.has_value(); }

    // Appends an entry without waiting for the device.
    bool append_log(const LogEntry &entry) {
        if (!is_appendable(entry)) return false;
        seawall_error *error = nullptr;
        const auto &data = entry.data;
        // Without a ticket, an entry needs no allocation.
        const auto status = seawall_log_submit(log_->get(), data.data(), data.size(), nullptr,
                                               nullptr, &error);
        if (status == SEAWALL_STATUS_OK) return true;
        return refuse(detail::take(status, error));
    }

    // Appends an entry. The ticket tells when it is durable: wait, poll, an eventfd, or a callback,
    // which must not close the writer.
    result<nothrow::ticket> append_log_async(const LogEntry &entry) {
        if (!is_appendable(entry)) return why();
        return log_->submit(entry.data);
    }

    // Waits until every appended entry is durable.
    void wal_fsync() {
        if (is_open()) (void)log_->flush().value();
    }
    void wal_flush() { wal_fsync(); }

    // Discards the entries so far, durably: readers begin at the next one.
    void rotate_log() {
        if (!is_open()) return;
        const auto next = log_->flush().value() + 1;
        if (next == log_->replay_start()) return;
        log_->checkpoint(next).value();
        (void)log_->truncate_before(next).value();
    }

    // Writes all entries and closes the log. The destructor does too, but reports no error.
    void close_file() {
        if (!is_open()) return;
        const auto closed = log_->close();
        log_.reset();
        closed.value();
    }

    // Copies the log, as it is now, to the new folder `target`. The writer stays open.
    void backup(const std::string &target) {
        wal_fsync();
        (void)nothrow::back_up(file_path, target).value();
    }

    // Repairs a closed log from a copy, as `seawall repair --from-replica` does. Returns whether
    // every entry can be read again.
    static bool restore(const std::string &path, const std::string &replica) {
        const auto left = nothrow::repair(path, replica).value();
        return left->verdict == SEAWALL_VERDICT_CLEAN || left->verdict == SEAWALL_VERDICT_TORN;
    }

    // The log, for everything else.
    nothrow::log &log() noexcept { return *log_; }

private:
    bool is_appendable(const LogEntry &entry) {
        if (!is_open()) return refuse("file not opened correctly");
        if (entry.byte_length == entry.data.size()) return true;
        return refuse("Incorrect byte_len specification: byte_len != data.size()");
    }

    std::optional<nothrow::log> log_;
};

// Reads entries, also while a writer has the log open.
class WalReader : public WalStream {
public:
    WalReader() = default;
    WalReader(FILE_FORMAT format) : WalStream(format) {}

    // Opens the log in the folder `path` at its first entry after the last rotation.
    void open_file(const std::string &path) {
        close_file();
        file_path = path;
        auto opened = nothrow::reader::open(path);
        if (!opened) {
            refuse(std::move(opened).why());
            return;
        }
        reader_.emplace(*std::move(opened));
        reset_iter();
    }

    bool is_open() const noexcept { return reader_.has_value(); }

    // Returns to the first entry. Entries that became durable meanwhile are visible.
    void reset_iter() {
        if (!is_open()) return;
        records_.reset();
        auto records = reader_->replay();
        if (!records) raise(std::move(records).why());
        records_.emplace(*std::move(records));
    }

    // Reads the next entry; false at the end.
    bool read_log(LogEntry &entry) {
        std::string_view data;
        if (!view_log(data)) return false;
        entry.byte_length = data.size();
        entry.data.assign(data);
        return true;
    }

    // As read_log, without a copy: `data` is valid until the next call with this reader.
    bool view_log(std::string_view &data) {
        if (!records_) return refuse("file not opened correctly");
        auto found = records_->next();
        if (!found) raise(std::move(found).why());
        if (!*found) return refuse("reached end of file");
        data = (*found)->data;
        return true;
    }

    void close_file() {
        records_.reset();
        reader_.reset();
    }

private:
    [[noreturn]] static void raise(failure why) {
        if (why.status == SEAWALL_STATUS_REPAIR) throw wal_damage(std::move(why));
        throw error(std::move(why));
    }

    std::optional<nothrow::reader> reader_;
    std::optional<nothrow::records> records_;
};

} // namespace cwal
} // namespace seawall

// As in CWal, these names and those of the standard library are global, unless the program defines
// SEAWALL_CWAL_QUALIFIED.
#ifndef SEAWALL_CWAL_QUALIFIED
using namespace std;
using seawall::cwal::FILE_FORMAT;
using seawall::cwal::LogEntry;
using seawall::cwal::WalReader;
using seawall::cwal::WalStream;
using seawall::cwal::WalWriter;
#endif

#endif // SEAWALL_CWAL_HPP
