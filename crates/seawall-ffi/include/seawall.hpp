// Seawall, a write-ahead log, for C++17 and later: one header on top of seawall.h.
//
// Two interfaces have the same names: classes in seawall throw seawall::error; classes in
// seawall::nothrow return seawall::result, and also work with -fno-exceptions. Handles can be
// moved, not copied. Destructors close them; log::close also reports errors.
//
//     seawall::log log("orders.wal");                  // creates or opens, recovers
//     for (const auto &record : log.records())         // in order, verified
//         replay(record.lsn, record.data);
//     log.append("order 1");                           // returns when durable
//
// Threads may share logs, readers and tickets. One thread at a time may use records, followers and
// options. A callback that throws ends the program; longjmp out of one is undefined.
#ifndef SEAWALL_HPP
#define SEAWALL_HPP

#include "seawall.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>
#if __cplusplus >= 202002L && __has_include(<span>)
#include <span>
#define SEAWALL_HAS_SPAN 1
#endif
#if defined(__cpp_exceptions)
#include <stdexcept>
#define SEAWALL_HAS_EXCEPTIONS 1
#endif

namespace seawall {

// A record number: 1, 2, 3, ... without gaps.
using lsn_t = std::uint64_t;

// An error, with the fields of seawall_error.
struct failure {
    seawall_status status = SEAWALL_STATUS_USAGE;
    seawall_error_code code = SEAWALL_ERROR_CODE_OTHER;
    std::string message;
    std::string log;
    int os_error = 0;
    std::uint64_t segment = 0;
    std::uint64_t offset = 0;
    lsn_t first_lsn = 0;
    lsn_t last_lsn = 0;

    // Whether the same call can succeed later.
    bool may_retry() const noexcept { return status == SEAWALL_STATUS_RETRY; }
};

#ifdef SEAWALL_HAS_EXCEPTIONS
// The exception of the interface that throws.
class error : public std::runtime_error {
public:
    explicit error(failure why) : std::runtime_error(why.message), why_(std::move(why)) {}

    const failure &why() const noexcept { return why_; }
    seawall_status status() const noexcept { return why_.status; }
    seawall_error_code code() const noexcept { return why_.code; }

private:
    failure why_;
};
#endif

namespace detail {

struct empty {};

[[noreturn]] inline void raise(failure &&why) {
#ifdef SEAWALL_HAS_EXCEPTIONS
    throw error(std::move(why));
#else
    (void)why;
    std::abort();
#endif
}

// Copies an error object, which may be null.
inline failure copied(seawall_status status, const seawall_error *object) {
    failure why;
    why.status = status;
    if (object == nullptr) {
        why.message = "out of memory, or an invalid argument";
        return why;
    }
    why.code = object->code;
    why.message = object->message;
    why.log = object->log == nullptr ? "" : object->log;
    why.os_error = object->os_error;
    why.segment = object->segment;
    why.offset = object->offset;
    why.first_lsn = object->first_lsn;
    why.last_lsn = object->last_lsn;
    return why;
}

// Copies an error object, and releases it.
inline failure take(seawall_status status, seawall_error *object) {
    std::unique_ptr<seawall_error, void (*)(seawall_error *)> held(object, seawall_error_free);
    return copied(status, object);
}

template <class Handle, void (*Free)(Handle *)> struct deleter {
    void operator()(Handle *handle) const noexcept { Free(handle); }
};

template <class Handle, void (*Free)(Handle *)>
using owned = std::unique_ptr<Handle, deleter<Handle, Free>>;

using log_handle = owned<seawall_log, seawall_log_free>;
using reader_handle = owned<seawall_reader, seawall_reader_free>;
using ticket_handle = owned<seawall_ticket, seawall_ticket_free>;
using cursor_handle = owned<seawall_cursor, seawall_cursor_free>;
using follower_handle = owned<seawall_follower, seawall_follower_free>;
using options_handle = owned<seawall_options, seawall_options_free>;
using buffer_handle = owned<seawall_buffer, seawall_buffer_free>;
using verification_handle = owned<seawall_verification, seawall_verification_free>;

} // namespace detail

// A value or a failure, like std::expected.
template <class T> class [[nodiscard]] result {
public:
    using value_type = T;

    result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    result(failure why) : state_(std::in_place_index<1>, std::move(why)) {}

    bool has_value() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }

    // The value; undefined after a failure.
    T &operator*() & noexcept { return *std::get_if<0>(&state_); }
    const T &operator*() const & noexcept { return *std::get_if<0>(&state_); }
    T &&operator*() && noexcept { return std::move(*std::get_if<0>(&state_)); }
    T *operator->() noexcept { return std::get_if<0>(&state_); }
    const T *operator->() const noexcept { return std::get_if<0>(&state_); }

    // The failure; undefined after a success.
    const failure &why() const & noexcept { return *std::get_if<1>(&state_); }
    failure &&why() && noexcept { return std::move(*std::get_if<1>(&state_)); }

    // Returns the value, or throws seawall::error (without exceptions, aborts).
    T value() && {
        if (!has_value()) detail::raise(std::move(*this).why());
        return std::move(**this);
    }
    const T &value() const & {
        if (!has_value()) detail::raise(failure(why()));
        return **this;
    }
    template <class Other> T value_or(Other &&other) const {
        return has_value() ? **this : static_cast<T>(std::forward<Other>(other));
    }

private:
    std::variant<T, failure> state_;
};

template <> class [[nodiscard]] result<void> {
public:
    result() noexcept = default;
    result(failure why) : why_(std::move(why)) {}

    bool has_value() const noexcept { return !why_.has_value(); }
    explicit operator bool() const noexcept { return has_value(); }
    const failure &why() const noexcept { return *why_; }
    void value() const {
        if (!has_value()) detail::raise(failure(*why_));
    }

private:
    std::optional<failure> why_;
};

// The interface that returns results.
struct returns {
    template <class T> using type = result<T>;
    template <class T> static result<T> give(result<T> &&done) { return std::move(done); }
};

#ifdef SEAWALL_HAS_EXCEPTIONS
// The interface that throws.
struct throws {
    template <class T> using type = T;
    template <class T> static T give(result<T> &&done) { return std::move(done).value(); }
};
#endif

// Bytes that a call reads. They are not copied, and must stay valid during the call.
class bytes {
public:
    bytes(std::string_view text) noexcept : slice_{text.data(), text.size()} {}
    bytes(const std::string &text) noexcept : slice_{text.data(), text.size()} {}
    bytes(const char *text) noexcept : bytes(std::string_view(text)) {}
    bytes(const void *data, std::size_t size) noexcept : slice_{data, size} {}
#ifdef SEAWALL_HAS_SPAN
    bytes(std::span<const std::byte> data) noexcept : slice_{data.data(), data.size()} {}
    bytes(std::span<const unsigned char> data) noexcept : slice_{data.data(), data.size()} {}
#endif

    const void *data() const noexcept { return slice_.data; }
    std::size_t size() const noexcept { return slice_.size; }
    const seawall_slice &slice() const noexcept { return slice_; }

private:
    seawall_slice slice_;
};

// A record. Its bytes are valid until the next one is read.
struct record {
    lsn_t lsn = 0;
    std::string_view data;
    // Microseconds since 1970; 0 if unknown.
    std::uint64_t time_us = 0;
    std::uint32_t schema = 0;
    bool set_continues = false;

    // A copy of the bytes.
    std::string copy() const { return std::string(data); }
#ifdef SEAWALL_HAS_SPAN
    std::span<const std::byte> span() const noexcept {
        return std::as_bytes(std::span<const char>(data.data(), data.size()));
    }
#endif
};

namespace detail {

inline record shown(const seawall_record &found) noexcept {
    record shown;
    shown.lsn = found.lsn;
    shown.data = std::string_view(static_cast<const char *>(found.data), found.size);
    shown.time_us = found.time_us;
    shown.schema = found.schema;
    shown.set_continues = found.set_continues != 0;
    return shown;
}

} // namespace detail

// Options for opening a log. A setter with an invalid value makes the open fail.
class options {
public:
    options() : handle_(seawall_options_new()) {}

    options &create(bool create) { return set("create", seawall_options_set_create(get(), create)); }
    options &level(seawall_level level) {
        return set("level", seawall_options_set_level(get(), level));
    }
    options &buffered(std::chrono::milliseconds delay, std::size_t size_max) {
        const auto ms = static_cast<std::uint64_t>(delay.count() < 0 ? 0 : delay.count());
        return set("buffered", seawall_options_set_buffered(get(), ms, size_max));
    }
    options &sync_every(std::uint64_t records) {
        return set("sync every", seawall_options_set_sync_every(get(), records));
    }
    options &segment_size(std::uint64_t size) {
        return set("segment size", seawall_options_set_segment_size(get(), size));
    }
    options &parity(std::uint16_t data, std::uint16_t parity) {
        return set("parity", seawall_options_set_parity(get(), data, parity));
    }
    options &reuse(bool reuse) { return set("reuse", seawall_options_set_reuse(get(), reuse)); }
    options &fill_blocks(bool fill) {
        return set("fill blocks", seawall_options_set_fill_blocks(get(), fill));
    }
    options &layout(seawall_layout layout) {
        return set("layout", seawall_options_set_layout(get(), layout));
    }
    options &compression(seawall_compression compression) {
        return set("compression", seawall_options_set_compression(get(), compression));
    }
    options &key_file(const std::string &path) {
        return set("key file", seawall_options_set_key_file(get(), path.c_str()));
    }
    options &encryption(std::uint32_t padding) {
        return set("encryption", seawall_options_set_encryption(get(), padding));
    }
    options &codec(seawall_codec codec) {
        return set("codec", seawall_options_set_codec(get(), codec));
    }
    options &type_name(const std::string &name) {
        return set("type name", seawall_options_set_type_name(get(), name.c_str()));
    }
    options &schema(std::uint32_t schema) {
        return set("schema", seawall_options_set_schema(get(), schema));
    }
    options &mode(seawall_open_mode mode) {
        return set("mode", seawall_options_set_mode(get(), mode));
    }
    // Only for readers.
    options &skip_damaged(bool skip) {
        return set("skip damaged", seawall_options_set_skip_damaged(get(), skip));
    }

    seawall_options *get() const noexcept { return handle_.get(); }
    // The first setter with an invalid value; null if there is none.
    const char *invalid() const noexcept { return invalid_; }

private:
    options &set(const char *what, seawall_status status) {
        if (status != SEAWALL_STATUS_OK && invalid_ == nullptr) invalid_ = what;
        return *this;
    }

    detail::options_handle handle_;
    const char *invalid_ = nullptr;
};

namespace detail {

inline std::optional<failure> refused(const options &options) {
    if (options.get() != nullptr && options.invalid() == nullptr) return std::nullopt;
    failure why;
    why.code = SEAWALL_ERROR_CODE_ARGUMENT;
    why.message = "invalid option: ";
    why.message += options.invalid() == nullptr ? "out of memory" : options.invalid();
    return why;
}

// The item type of a loop: a record, or a result with a record.
template <class Face, class Item> struct item_of {
    using type = result<Item>;
    static type made(result<Item> &&found) { return std::move(found); }
};
#ifdef SEAWALL_HAS_EXCEPTIONS
template <class Item> struct item_of<throws, Item> {
    using type = Item;
    static type made(result<Item> &&found) { return std::move(found).value(); }
};
#endif

struct sentinel {};

// The iterator over a source with a method `next_item`, which returns an optional item.
template <class Source> class input_iterator {
public:
    using iterator_category = std::input_iterator_tag;
    using value_type = typename Source::item;
    using difference_type = std::ptrdiff_t;
    using pointer = const value_type *;
    using reference = const value_type &;

    explicit input_iterator(Source &source) : source_(&source) { ++*this; }

    reference operator*() const noexcept { return *current_; }
    pointer operator->() const noexcept { return &*current_; }
    input_iterator &operator++() {
        // The last item borrows bytes that the next one replaces.
        current_.reset();
        if (auto found = source_->next_item()) current_.emplace(std::move(*found));
        return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const input_iterator &at, sentinel) noexcept { return !at.current_; }
    friend bool operator!=(const input_iterator &at, sentinel) noexcept {
        return at.current_.has_value();
    }

private:
    Source *source_;
    std::optional<value_type> current_;
};

} // namespace detail

// The records of a log in order. Loop over it once, or call next.
template <class Face> class basic_records {
    template <class T> using gives = typename Face::template type<T>;

public:
    using item = typename detail::item_of<Face, record>::type;
    using iterator = detail::input_iterator<basic_records>;

    explicit basic_records(detail::cursor_handle cursor) : cursor_(std::move(cursor)) {}

    iterator begin() { return iterator(*this); }
    detail::sentinel end() const noexcept { return {}; }

    // The next record; std::nullopt at the end.
    gives<std::optional<record>> next() { return Face::give(read()); }

    std::optional<item> next_item() {
        if (is_over_) return std::nullopt;
        auto found = read();
        if (!found) {
            // Reading may continue after damage. After another failure, such as that of a moved-from
            // object, every call would fail.
            is_over_ = found.why().status != SEAWALL_STATUS_REPAIR;
            return detail::item_of<Face, record>::made(std::move(found).why());
        }
        if (!*found) return std::nullopt;
        return detail::item_of<Face, record>::made(**found);
    }

private:
    result<std::optional<record>> read() {
        seawall_record found{};
        seawall_error *error = nullptr;
        const auto status = seawall_cursor_next(cursor_.get(), &found, &error);
        if (status == SEAWALL_STATUS_OK) return std::optional<record>(detail::shown(found));
        if (status == SEAWALL_STATUS_NONE) return std::optional<record>();
        return detail::take(status, error);
    }

    detail::cursor_handle cursor_;
    bool is_over_ = false;
};

// The records of a log as they become durable.
template <class Face> class basic_follower {
    template <class T> using gives = typename Face::template type<T>;

public:
    explicit basic_follower(detail::follower_handle follower) : follower_(std::move(follower)) {}

    // Waits for the next record; std::nullopt after the timeout.
    gives<std::optional<record>> next(std::chrono::milliseconds timeout) {
        return Face::give(wait(static_cast<std::uint64_t>(timeout.count() < 0 ? 0 : timeout.count())));
    }

    // Waits for the next record without a timeout.
    gives<std::optional<record>> next() { return Face::give(wait(SEAWALL_FOREVER)); }

    // The number of the record that comes next.
    lsn_t position() const noexcept { return seawall_follower_position(follower_.get()); }

private:
    result<std::optional<record>> wait(std::uint64_t timeout_ms) {
        seawall_record found{};
        seawall_error *error = nullptr;
        const auto status = seawall_follower_next(follower_.get(), timeout_ms, &found, &error);
        if (status == SEAWALL_STATUS_OK) return std::optional<record>(detail::shown(found));
        if (status == SEAWALL_STATUS_NONE) return std::optional<record>();
        return detail::take(status, error);
    }

    detail::follower_handle follower_;
};

// A submitted record.
template <class Face> class basic_ticket {
    template <class T> using gives = typename Face::template type<T>;

public:
    explicit basic_ticket(detail::ticket_handle ticket) : ticket_(std::move(ticket)) {}

    lsn_t lsn() const noexcept { return seawall_ticket_lsn(ticket_.get()); }

    // Waits until the record is as durable as the log's level requires.
    gives<lsn_t> wait() const {
        seawall_error *error = nullptr;
        const auto status = seawall_ticket_wait(ticket_.get(), &error);
        if (status != SEAWALL_STATUS_OK) {
            return Face::give(result<lsn_t>(detail::take(status, error)));
        }
        return Face::give(result<lsn_t>(lsn()));
    }

    // Whether the record is as durable as the log's level requires, without waiting.
    gives<bool> is_durable() const {
        seawall_error *error = nullptr;
        const auto status = seawall_ticket_poll(ticket_.get(), &error);
        if (status == SEAWALL_STATUS_OK || status == SEAWALL_STATUS_NONE) {
            return Face::give(result<bool>(status == SEAWALL_STATUS_OK));
        }
        return Face::give(result<bool>(detail::take(status, error)));
    }

    // Calls `callback(result<lsn_t>)` once when the record is as durable as the log's level requires
    // or has failed, also if the ticket is gone. It runs on a thread of the log, on an appending one,
    // or inside on_done, and may use the log, but not destroy it.
    template <class Callback> gives<void> on_done(Callback callback) const {
        auto held = std::make_unique<Callback>(std::move(callback));
        seawall_error *error = nullptr;
        const auto status =
            seawall_ticket_on_done(ticket_.get(), &run<Callback>, held.get(), &error);
        if (status != SEAWALL_STATUS_OK) {
            return Face::give(result<void>(detail::take(status, error)));
        }
        // `run` releases the callback, perhaps already.
        (void)held.release();
        return Face::give(result<void>());
    }

    // Adds 1 to a non-blocking eventfd when the record is as durable as the log's level requires or
    // has failed.
    gives<void> signal(int descriptor) const {
        seawall_error *error = nullptr;
        const auto status = seawall_ticket_signal(ticket_.get(), descriptor, &error);
        if (status == SEAWALL_STATUS_OK) return Face::give(result<void>());
        return Face::give(result<void>(detail::take(status, error)));
    }

private:
    template <class Callback>
    static void run(void *context, seawall_status status, std::uint64_t lsn,
                    const seawall_error *error) noexcept {
        std::unique_ptr<Callback> callback(static_cast<Callback *>(context));
        if (status == SEAWALL_STATUS_OK) {
            (*callback)(result<lsn_t>(lsn));
            return;
        }
        (*callback)(result<lsn_t>(detail::copied(status, error)));
    }

    detail::ticket_handle ticket_;
};

// A log that is open for append. Threads may share it.
template <class Face> class basic_log {
    template <class T> using gives = typename Face::template type<T>;

public:
    using records_type = basic_records<Face>;
    using follower_type = basic_follower<Face>;
    using ticket_type = basic_ticket<Face>;

    // Opens the log in the directory `path`, or creates it. Recovers from a crash.
    static gives<basic_log> open(const std::string &path, const options &options = {}) {
        return Face::give(opened(path, options));
    }

#ifdef SEAWALL_HAS_EXCEPTIONS
    // As open, but throws on failure.
    explicit basic_log(const std::string &path, const options &options = {})
        : basic_log(opened(path, options).value()) {}
#endif

    // Appends a record and returns its number once it is as durable as the log's level requires.
    gives<lsn_t> append(bytes record) {
        lsn_t lsn = 0;
        seawall_error *error = nullptr;
        const auto status =
            seawall_log_append(get(), record.data(), record.size(), &lsn, &error);
        return done(status, error, lsn);
    }

    // Appends records as one atomic set; returns the first and the last number.
    gives<std::pair<lsn_t, lsn_t>> append_batch(const bytes *records, std::size_t count) {
        std::vector<seawall_slice> slices;
        slices.reserve(count);
        for (std::size_t at = 0; at < count; ++at) slices.push_back(records[at].slice());
        std::pair<lsn_t, lsn_t> lsns;
        seawall_error *error = nullptr;
        const auto status = seawall_log_append_batch(get(), slices.data(), count, &lsns.first,
                                                     &lsns.second, &error);
        return done(status, error, lsns);
    }
    gives<std::pair<lsn_t, lsn_t>> append_batch(std::initializer_list<bytes> records) {
        return append_batch(records.begin(), records.size());
    }
    gives<std::pair<lsn_t, lsn_t>> append_batch(const std::vector<bytes> &records) {
        return append_batch(records.data(), records.size());
    }

    // Appends a record without waiting until it is durable; may block while a full batch waits.
    gives<ticket_type> submit(bytes record) { return submitted(record, seawall_log_submit); }
    // As submit, but fails with SEAWALL_ERROR_CODE_WOULD_BLOCK instead of blocking.
    gives<ticket_type> try_submit(bytes record) {
        return submitted(record, seawall_log_try_submit);
    }

    // The durable records from `from` on, as of now; by default from the replay start.
    gives<records_type> records(lsn_t from = 0) {
        for (;;) {
            seawall_cursor *cursor = nullptr;
            seawall_error *error = nullptr;
            const lsn_t start = from == 0 ? replay_start() : from;
            const auto status = seawall_log_read(get(), start, &cursor, &error);
            detail::cursor_handle held(cursor);
            if (status == SEAWALL_STATUS_OK) {
                return Face::give(result<records_type>(records_type(std::move(held))));
            }
            auto why = detail::take(status, error);
            // Another thread may truncate the log between the two calls.
            if (from == 0 && replay_start() != start) continue;
            return Face::give(result<records_type>(std::move(why)));
        }
    }

    // The record `lsn`; std::nullopt after the last durable one.
    gives<std::optional<std::string>> get(lsn_t lsn) {
        detail::buffer_handle buffer(seawall_buffer_new());
        seawall_error *error = nullptr;
        const auto status = seawall_log_get(get(), lsn, buffer.get(), &error);
        if (status == SEAWALL_STATUS_NONE) return done(SEAWALL_STATUS_OK, error, nothing());
        if (status != SEAWALL_STATUS_OK) return done(status, error, nothing());
        const auto *data = static_cast<const char *>(seawall_buffer_data(buffer.get()));
        return done(status, error,
                    std::optional<std::string>(std::in_place, data, seawall_buffer_size(buffer.get())));
    }

    // The durable records from `from` on, then new ones.
    gives<follower_type> follow(lsn_t from) {
        seawall_follower *follower = nullptr;
        seawall_error *error = nullptr;
        const auto status = seawall_log_follow(get(), from, &follower, &error);
        detail::follower_handle held(follower);
        if (status != SEAWALL_STATUS_OK) {
            return Face::give(result<follower_type>(detail::take(status, error)));
        }
        return Face::give(result<follower_type>(follower_type(std::move(held))));
    }

    // Waits until everything appended is durable; returns the last number, or 0.
    gives<lsn_t> flush() { return last_of(seawall_log_flush); }
    // Waits until everything appended is confirmed.
    gives<lsn_t> confirm() { return last_of(seawall_log_confirm); }

    // Sets a checkpoint: replay needs no record before `from`.
    gives<void> checkpoint(lsn_t from) {
        seawall_error *error = nullptr;
        const auto status = seawall_log_checkpoint(get(), from, &error);
        return done(status, error);
    }

    // Removes whole segments before `from`; returns the first record left.
    gives<lsn_t> truncate_before(lsn_t from) {
        lsn_t oldest = 0;
        seawall_error *error = nullptr;
        const auto status = seawall_log_truncate_before(get(), from, &oldest, &error);
        return done(status, error, oldest);
    }

    // Removes every record after `last`; 0 removes all.
    gives<void> truncate_after(lsn_t last) {
        seawall_error *error = nullptr;
        const auto status = seawall_log_truncate_after(get(), last, &error);
        return done(status, error);
    }

    // Closes the log and reports errors. Calls of other threads then get SEAWALL_STATUS_REOPEN.
    gives<void> close() {
        seawall_error *error = nullptr;
        const auto status = seawall_log_close(get(), &error);
        return done(status, error);
    }

    lsn_t durable() const noexcept { return seawall_log_durable(get()); }
    lsn_t oldest() const noexcept { return seawall_log_oldest(get()); }
    lsn_t replay_start() const noexcept { return seawall_log_replay_start(get()); }
    // What opening found; valid while this handle is.
    const seawall_recovery &recovery() const noexcept { return *seawall_log_recovery(get()); }
    std::uint64_t stat(seawall_stat stat) const noexcept {
        std::uint64_t value = 0;
        (void)seawall_log_stat(get(), stat, &value);
        return value;
    }
    // The handle for seawall.h.
    seawall_log *get() const noexcept { return log_.get(); }

private:
    explicit basic_log(detail::log_handle log) : log_(std::move(log)) {}

    static std::optional<std::string> nothing() { return std::nullopt; }

    static result<basic_log> opened(const std::string &path, const options &options) {
        if (auto why = detail::refused(options)) return std::move(*why);
        seawall_log *log = nullptr;
        seawall_error *error = nullptr;
        const auto status = seawall_log_open(path.c_str(), options.get(), &log, &error);
        detail::log_handle held(log);
        if (status != SEAWALL_STATUS_OK) return detail::take(status, error);
        return basic_log(std::move(held));
    }

    template <class T> static gives<T> done(seawall_status status, seawall_error *error, T value) {
        if (status == SEAWALL_STATUS_OK) return Face::give(result<T>(std::move(value)));
        return Face::give(result<T>(detail::take(status, error)));
    }
    static gives<void> done(seawall_status status, seawall_error *error) {
        if (status == SEAWALL_STATUS_OK) return Face::give(result<void>());
        return Face::give(result<void>(detail::take(status, error)));
    }

    template <class Call> gives<ticket_type> submitted(bytes record, Call call) {
        seawall_ticket *ticket = nullptr;
        seawall_error *error = nullptr;
        const auto status = call(get(), record.data(), record.size(), nullptr, &ticket, &error);
        detail::ticket_handle held(ticket);
        if (status != SEAWALL_STATUS_OK) {
            return Face::give(result<ticket_type>(detail::take(status, error)));
        }
        return Face::give(result<ticket_type>(ticket_type(std::move(held))));
    }

    template <class Call> gives<lsn_t> last_of(Call call) {
        lsn_t last = 0;
        seawall_error *error = nullptr;
        const auto status = call(get(), &last, &error);
        return done(status, error, last);
    }

    detail::log_handle log_;
};

// A log that is open for reading, even while a writer has it open. Threads may share it.
template <class Face> class basic_reader {
    template <class T> using gives = typename Face::template type<T>;

public:
    using records_type = basic_records<Face>;
    using follower_type = basic_follower<Face>;

    static gives<basic_reader> open(const std::string &path, const options &options = {}) {
        return Face::give(opened(path, options));
    }

#ifdef SEAWALL_HAS_EXCEPTIONS
    explicit basic_reader(const std::string &path, const options &options = {})
        : basic_reader(opened(path, options).value()) {}
#endif

    // The first record, or the next one if the log is empty.
    gives<lsn_t> oldest() const { return Face::give(number(seawall_reader_oldest)); }

    // Where replay starts: the newest checkpoint, or the oldest record without one.
    gives<lsn_t> replay_start() const { return Face::give(number(seawall_reader_replay_start)); }

    // The records from `from` on; by default all.
    gives<records_type> records(lsn_t from = 0) const {
        return from == 0 ? records_from(seawall_reader_oldest)
                         : Face::give(result<records_type>(read_from(from)));
    }

    // The records from the replay start on.
    gives<records_type> replay() const { return records_from(seawall_reader_replay_start); }

    // The records from `from` on, then new ones.
    gives<follower_type> follow(lsn_t from) const {
        seawall_follower *follower = nullptr;
        seawall_error *error = nullptr;
        const auto status = seawall_reader_follow(get(), from, &follower, &error);
        detail::follower_handle held(follower);
        if (status != SEAWALL_STATUS_OK) {
            return Face::give(result<follower_type>(detail::take(status, error)));
        }
        return Face::give(result<follower_type>(follower_type(std::move(held))));
    }

    // The handle for seawall.h.
    seawall_reader *get() const noexcept { return reader_.get(); }

private:
    explicit basic_reader(detail::reader_handle reader) : reader_(std::move(reader)) {}

    // The records from a start that the writer may move while it is read.
    template <class Call> gives<records_type> records_from(Call call) const {
        auto start = number(call);
        while (start) {
            auto records = read_from(*start);
            auto later = number(call);
            if (records || !later || *later == *start) {
                return Face::give(std::move(records));
            }
            start = std::move(later);
        }
        return Face::give(result<records_type>(std::move(start).why()));
    }

    result<records_type> read_from(lsn_t from) const {
        seawall_cursor *cursor = nullptr;
        seawall_error *error = nullptr;
        const auto status = seawall_reader_read(get(), from, &cursor, &error);
        detail::cursor_handle held(cursor);
        if (status != SEAWALL_STATUS_OK) return detail::take(status, error);
        return records_type(std::move(held));
    }

    template <class Call> result<lsn_t> number(Call call) const {
        lsn_t found = 0;
        seawall_error *error = nullptr;
        const auto status = call(get(), &found, &error);
        if (status != SEAWALL_STATUS_OK) return detail::take(status, error);
        return found;
    }

    static result<basic_reader> opened(const std::string &path, const options &options) {
        if (auto why = detail::refused(options)) return std::move(*why);
        seawall_reader *reader = nullptr;
        seawall_error *error = nullptr;
        const auto status = seawall_reader_open(path.c_str(), options.get(), &reader, &error);
        detail::reader_handle held(reader);
        if (status != SEAWALL_STATUS_OK) return detail::take(status, error);
        return basic_reader(std::move(held));
    }

    detail::reader_handle reader_;
};

// A record of a typed log.
template <class T> struct entry {
    lsn_t lsn;
    T value;
};

// The records of a typed log. Reading ends after an error, also at a record that Serializer cannot
// decode.
template <class T, class Serializer, class Face> class basic_entries {
public:
    using item = typename detail::item_of<Face, entry<T>>::type;
    using iterator = detail::input_iterator<basic_entries>;

    explicit basic_entries(basic_records<returns> records) : records_(std::move(records)) {}

    iterator begin() { return iterator(*this); }
    detail::sentinel end() const noexcept { return {}; }

    std::optional<item> next_item() {
        using made = detail::item_of<Face, entry<T>>;
        if (is_over_) return std::nullopt;
        // Before reading and decoding, which may fail and throw.
        is_over_ = true;
        auto found = records_.next();
        if (!found) return made::made(std::move(found).why());
        if (!*found) return std::nullopt;
        const record &stored = **found;
        std::optional<T> value = Serializer::decode(stored.data);
        is_over_ = !value;
        if (value) return made::made(entry<T>{stored.lsn, std::move(*value)});
        failure why;
        why.code = SEAWALL_ERROR_CODE_DECODE;
        why.message = "cannot decode record " + std::to_string(stored.lsn);
        why.first_lsn = stored.lsn;
        return made::made(std::move(why));
    }

private:
    basic_records<returns> records_;
    bool is_over_ = false;
};

// A log of records of type T. Serializer has
//     static void encode(const T &value, std::string &bytes);   // appends to bytes
//     static std::optional<T> decode(std::string_view bytes);   // std::nullopt: not a T
template <class T, class Serializer, class Face> class basic_typed_log {
    template <class U> using gives = typename Face::template type<U>;

public:
    using entries_type = basic_entries<T, Serializer, Face>;

    static gives<basic_typed_log> open(const std::string &path, const options &options = {}) {
        return Face::give(opened(path, options));
    }

#ifdef SEAWALL_HAS_EXCEPTIONS
    explicit basic_typed_log(const std::string &path, const options &options = {})
        : basic_typed_log(opened(path, options).value()) {}
#endif

    // Appends a record and returns its number once it is as durable as the log's level requires.
    gives<lsn_t> append(const T &value) {
        // Reused, so that a record needs no allocation. Moved out meanwhile: append may run a
        // callback that appends to a typed log, too.
        thread_local std::string kept;
        std::string encoded(std::move(kept));
        encoded.clear();
        Serializer::encode(value, encoded);
        auto lsn = log_.append(encoded);
        kept = std::move(encoded);
        return Face::give(std::move(lsn));
    }

    // The durable records from `from` on; by default from the replay start.
    gives<entries_type> records(lsn_t from = 0) {
        auto found = log_.records(from);
        if (!found) return Face::give(result<entries_type>(std::move(found).why()));
        return Face::give(result<entries_type>(entries_type(*std::move(found))));
    }

    gives<void> close() { return Face::give(log_.close()); }

    // The log of bytes, for everything else.
    basic_log<returns> &log() noexcept { return log_; }

private:
    explicit basic_typed_log(basic_log<returns> log) : log_(std::move(log)) {}

    static result<basic_typed_log> opened(const std::string &path, const options &options) {
        auto log = basic_log<returns>::open(path, options);
        if (!log) return std::move(log).why();
        return basic_typed_log(*std::move(log));
    }

    basic_log<returns> log_;
};

// The report of a verification.
class verification {
public:
    explicit verification(detail::verification_handle found) : found_(std::move(found)) {}
    const seawall_verification *operator->() const noexcept { return found_.get(); }
    const seawall_verification &operator*() const noexcept { return *found_; }

private:
    detail::verification_handle found_;
};

namespace nothrow {

using log = basic_log<returns>;
using reader = basic_reader<returns>;
using records = basic_records<returns>;
using follower = basic_follower<returns>;
using ticket = basic_ticket<returns>;
template <class T, class Serializer> using typed_log = basic_typed_log<T, Serializer, returns>;

// Verifies every byte of the log at `path`. Damage is not a failure: the report lists it.
inline result<verification> verify(const std::string &path) {
    seawall_verification *found = nullptr;
    seawall_error *error = nullptr;
    const auto status = seawall_verify(path.c_str(), &found, &error);
    detail::verification_handle held(found);
    if (status != SEAWALL_STATUS_OK) return detail::take(status, error);
    return verification(std::move(held));
}

// Copies the log at `path` to the new directory `target`, even while a writer has it open; returns
// the last record of the copy, or 0.
inline result<lsn_t> back_up(const std::string &path, const std::string &target) {
    lsn_t last = 0;
    seawall_error *error = nullptr;
    const auto status = seawall_back_up(path.c_str(), target.c_str(), &last, &error);
    if (status != SEAWALL_STATUS_OK) return detail::take(status, error);
    return last;
}

// Repairs the closed log at `path` from its parity, and from a copy at `replica` unless that is
// empty. Reports what could not be repaired.
inline result<verification> repair(const std::string &path, const std::string &replica = {}) {
    seawall_verification *left = nullptr;
    seawall_error *error = nullptr;
    const char *copy = replica.empty() ? nullptr : replica.c_str();
    const auto status = seawall_repair(path.c_str(), copy, &left, &error);
    detail::verification_handle held(left);
    if (status != SEAWALL_STATUS_OK) return detail::take(status, error);
    return verification(std::move(held));
}

} // namespace nothrow

#ifdef SEAWALL_HAS_EXCEPTIONS
using log = basic_log<throws>;
using reader = basic_reader<throws>;
using records = basic_records<throws>;
using follower = basic_follower<throws>;
using ticket = basic_ticket<throws>;
template <class T, class Serializer> using typed_log = basic_typed_log<T, Serializer, throws>;

// Verifies every byte of the log at `path`. Damage does not throw: the report lists it.
inline verification verify(const std::string &path) { return nothrow::verify(path).value(); }

// As in seawall::nothrow, but these throw.
inline lsn_t back_up(const std::string &path, const std::string &target) {
    return nothrow::back_up(path, target).value();
}
inline verification repair(const std::string &path, const std::string &replica = {}) {
    return nothrow::repair(path, replica).value();
}
#endif

// Whether library and header have the same ABI.
inline bool abi_matches() noexcept { return seawall_abi_version() == SEAWALL_ABI_VERSION; }

} // namespace seawall

#endif // SEAWALL_HPP
