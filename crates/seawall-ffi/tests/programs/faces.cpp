// Both interfaces of seawall.hpp. Argument: a path to which the names of new logs are appended.
#include <seawall.hpp>

#include "check.h"

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace {

static_assert(!std::is_copy_constructible_v<seawall::log>);
static_assert(std::is_nothrow_move_constructible_v<seawall::log>);
static_assert(std::is_nothrow_move_assignable_v<seawall::log>);
static_assert(!std::is_copy_constructible_v<seawall::ticket>);
static_assert(!std::is_copy_constructible_v<seawall::records>);

struct order {
    std::string customer;
    int cents;
};

struct text {
    static void encode(const order &value, std::string &bytes) {
        bytes += std::to_string(value.cents);
        bytes += ' ';
        bytes += value.customer;
    }
    static std::optional<order> decode(std::string_view bytes) {
        const auto space = bytes.find(' ');
        if (space == std::string_view::npos) return std::nullopt;
        return order{std::string(bytes.substr(space + 1)), std::stoi(std::string(bytes.substr(0, space)))};
    }
};

template <class Call> seawall::failure thrown(Call call) {
    try {
        call();
    } catch (const seawall::error &error) {
        CHECK(std::string(error.what()) == error.why().message);
        return error.why();
    }
    CHECK(!"it throws");
    return {};
}

void throwing(const std::string &path) {
    seawall::log log(path, seawall::options().level(SEAWALL_LEVEL_SYNCED).segment_size(1 << 20));
    CHECK(log.recovery().created == 1);
    CHECK(log.append("one") == 1);
    CHECK(log.append(std::string("two")) == 2);
    const auto set = log.append_batch({"three", std::string_view("four")});
    CHECK(set.first == 3 && set.second == 4);
    auto ticket = log.submit("five");
    CHECK(ticket.lsn() == 5 && ticket.wait() == 5 && ticket.is_durable());

    std::string all;
    for (const auto &record : log.records()) {
        all += record.data;
        all += ',';
    }
    CHECK(all == "one,two,three,four,five,");
    auto records = log.records(4);
    const auto kept = records.next()->copy();
    CHECK(records.next()->lsn == 5 && !records.next() && kept == "four");
    CHECK(log.get(2) == "two" && !log.get(6));

    auto follower = log.follow(5);
    CHECK(follower.next(std::chrono::seconds(10))->data == "five");
    CHECK(!follower.next(std::chrono::milliseconds(0)) && follower.position() == 6);

    std::atomic<seawall::lsn_t> seen{0};
    log.submit("six").on_done([&seen, &log](const seawall::result<seawall::lsn_t> &lsn) {
        CHECK(lsn.has_value());
        CHECK(log.append("seven, from a callback") == 7);
        seen = *lsn;
    });
    while (seen == 0) std::this_thread::yield();
    CHECK(seen == 6 && log.flush() == 7 && log.confirm() == 7);

    log.checkpoint(7);
    CHECK(log.replay_start() == 7 && log.truncate_before(7) >= 1);
    log.truncate_after(7);
    CHECK(log.stat(SEAWALL_STAT_RECORDS) == 7);

    seawall::log moved = std::move(log);
    CHECK(moved.durable() == 7);
    const auto busy = thrown([&path] { seawall::log second(path); });
    CHECK(busy.code == SEAWALL_ERROR_CODE_BUSY && busy.may_retry() && busy.log == path);
    moved.close();
    CHECK(thrown([&moved] { (void)moved.append("late"); }).code == SEAWALL_ERROR_CODE_CLOSED);
    // A moved-from handle refuses calls.
    CHECK(thrown([&log] { (void)log.append("nowhere"); }).code == SEAWALL_ERROR_CODE_ARGUMENT);

    seawall::reader reader(path);
    CHECK(reader.oldest() >= 1 && reader.replay_start() == 7);
    CHECK(seawall::back_up(path, path + "-copy") == 7);
    CHECK(seawall::repair(path, path + "-copy")->verdict == SEAWALL_VERDICT_CLEAN);
    int count = 0;
    for (const auto &record : reader.records(7)) count += record.lsn == 7 ? 1 : 100;
    CHECK(count == 1);
    CHECK(reader.follow(7).next()->lsn == 7);
    CHECK(seawall::verify(path)->verdict == SEAWALL_VERDICT_CLEAN);
    const auto invalid = thrown([&path] { seawall::log log(path, seawall::options().parity(1, 9)); });
    CHECK(invalid.message == "invalid option: parity");
}

void returning(const std::string &path) {
    using namespace seawall::nothrow;
    auto opened = seawall::nothrow::log::open(path);
    CHECK(opened);
    auto &log = *opened;
    const auto lsn = log.append("one");
    CHECK(lsn && *lsn == 1 && lsn.value() == 1);
    int count = 0;
    auto records = log.records();
    CHECK(records);
    for (const auto &record : *records) {
        CHECK(record && record->data == "one");
        count += 1;
    }
    CHECK(count == 1);
    const auto wrong = log.checkpoint(9);
    CHECK(!wrong && wrong.why().status == SEAWALL_STATUS_USAGE);
    CHECK(log.close());
    const auto closed = log.append("late");
    CHECK(!closed && closed.why().code == SEAWALL_ERROR_CODE_CLOSED && closed.value_or(7U) == 7);
    CHECK(thrown([&closed] { (void)closed.value(); }).code == SEAWALL_ERROR_CODE_CLOSED);
    const auto nothing = reader::open(path + ".missing");
    CHECK(!nothing && nothing.why().os_error == 2);
    CHECK(!verify(path + ".missing") && !repair(path + ".missing"));
    CHECK(!back_up(path, path));
}

void typed(const std::string &path) {
    {
        seawall::typed_log<order, text> log(path);
        CHECK(log.append({"Ada", 700}) == 1);
        CHECK(log.append({"Bob", 5}) == 2);
        int cents = 0;
        for (const auto &entry : log.records()) {
            CHECK(entry.value.customer == (entry.lsn == 1 ? "Ada" : "Bob"));
            cents += entry.value.cents;
        }
        CHECK(cents == 705);
        CHECK(log.log().append("nothing"));
        CHECK(log.append({"Cid", 1}) == 4);
        auto entries = log.records();
        const auto why = thrown([&entries] { for (const auto &entry : entries) (void)entry; });
        CHECK(why.code == SEAWALL_ERROR_CODE_DECODE && why.first_lsn == 3);
        // Reading has ended: it does not continue after the record.
        CHECK(!(entries.begin() != entries.end()));
        log.close();
    }
    auto log = seawall::nothrow::typed_log<order, text>::open(path);
    CHECK(log);
    auto records = log->records();
    CHECK(records);
    int good = 0, bad = 0;
    for (const auto &entry : *records) ++(entry ? good : bad);
    CHECK(good == 2 && bad == 1);
}

// A loop over a moved-from object ends after one failure.
void moved(const std::string &path) {
    auto log = seawall::nothrow::typed_log<order, text>::open(path);
    CHECK(log && log->append({"Ada", 700}));
    auto records = log->log().records();
    auto entries = log->records();
    CHECK(records && entries);
    const auto taken = std::move(*records);
    const auto taken_too = std::move(*entries);
    int failures = 0;
    for (const auto &record : *records) {
        CHECK(!record && record.why().code == SEAWALL_ERROR_CODE_ARGUMENT && ++failures == 1);
    }
    for (const auto &entry : *entries) {
        CHECK(!entry && entry.why().code == SEAWALL_ERROR_CODE_ARGUMENT && ++failures == 2);
    }
    CHECK(failures == 2);
}

struct plain {
    static void encode(const std::string &value, std::string &bytes) { bytes += value; }
    static std::optional<std::string> decode(std::string_view bytes) { return std::string(bytes); }
};

// A typed append that finds the batch full writes it, and so runs the callbacks of its records.
// These may append to the same typed log, here a record of `size` bytes.
void reentrant(const std::string &path, std::size_t size) {
    // Nothing but a full batch is written in the background.
    const auto never = std::chrono::hours(1);
    seawall::typed_log<std::string, plain> log(path, seawall::options().buffered(never, 2 << 20).level(
                                                         SEAWALL_LEVEL_SYNCED));
    // With its header, one of 32 that fill a batch.
    const std::string filler((64 << 10) - 8, 'f');
    const auto thread = std::this_thread::get_id();
    std::map<seawall::lsn_t, std::string> acknowledged;
    // The log's own threads may run the callbacks too, and later.
    std::atomic<bool> is_appending{false};
    std::atomic<int> calls{0};
    int inside = 0;
    for (int round = 0; round < 20; ++round) {
        for (int i = 1; i < 32; ++i) CHECK(log.log().submit(filler));
        auto last = log.log().submit(filler);
        CHECK(last);
        is_appending = true;
        CHECK(last->on_done([&](const seawall::result<seawall::lsn_t> &) {
            if (is_appending && std::this_thread::get_id() == thread) {
                const std::string inner(size, 'i');
                acknowledged[log.append(inner)] = inner;
                inside += 1;
            }
            calls += 1;
        }));
        const std::string outer(400, 'o');
        acknowledged[log.append(outer)] = outer;
        is_appending = false;
        while (calls == round) std::this_thread::yield();
    }
    CHECK(inside > 0);
    for (const auto &[lsn, value] : acknowledged) CHECK(log.log().get(lsn).value() == value);
}

// A record in the middle is damaged: both interfaces report it, and a reader can skip it.
void damaged(const std::string &path) {
    {
        seawall::log log(path);
        for (const char *record : {"first record", "second record", "third record"}) {
            (void)log.append(record);
            (void)log.confirm();
        }
        log.close();
    }
    const auto file = path + "/000000000001.seg";
    std::FILE *segment = std::fopen(file.c_str(), "r+b");
    CHECK(segment != nullptr);
    std::string content(1 << 20, '\0');
    content.resize(std::fread(&content[0], 1, content.size(), segment));
    const auto at = content.find("second record");
    CHECK(at != std::string::npos);
    CHECK(std::fseek(segment, static_cast<long>(at), SEEK_SET) == 0);
    CHECK(std::fputc('S', segment) == 'S' && std::fclose(segment) == 0);

    int read = 0;
    seawall::reader reader(path);
    const auto why = thrown([&] { for (const auto &record : reader.records()) read += record.lsn == 1; });
    CHECK(read == 1 && why.status == SEAWALL_STATUS_REPAIR);
    CHECK(why.code == SEAWALL_ERROR_CODE_DAMAGED && why.first_lsn == 2 && why.last_lsn == 2);
    CHECK(why.segment == 1 && why.offset > 0 && why.offset <= at && why.log == path);

    const auto skipping = seawall::nothrow::reader::open(path, seawall::options().skip_damaged(true));
    CHECK(skipping);
    auto records = skipping->records();
    CHECK(records);
    std::string seen;
    for (const auto &record : *records) seen += record ? std::to_string(record->lsn) : "!";
    CHECK(seen == "1!3");

    const auto found = seawall::verify(path);
    CHECK(found->verdict == SEAWALL_VERDICT_LOST && found->records == 2);
    CHECK(found->damage_count == 1 && found->damage[0].lost_from == 2 && found->damage[0].lost_to == 2);
    CHECK(std::string(found->damage[0].text).find("record 2") != std::string::npos);
    CHECK(thrown([&path] { seawall::log log(path); }).code == SEAWALL_ERROR_CODE_DAMAGED);
    const seawall::log salvaged(path, seawall::options().mode(SEAWALL_OPEN_MODE_SALVAGE));
    CHECK(salvaged.recovery().damage_count == 1 && salvaged.recovery().damage[0].lost_from == 2);
}

#ifdef SEAWALL_HAS_SPAN
void spans(const std::string &path) {
    seawall::log log(path);
    const std::vector<std::byte> data{std::byte{1}, std::byte{0}, std::byte{255}};
    CHECK(log.append(std::span<const std::byte>(data)) == 1);
    for (const auto &record : log.records()) {
        CHECK(record.span().size() == 3 && record.span()[2] == std::byte{255});
    }
}
#endif

} // namespace

int main(int argc, char **argv) {
    CHECK(argc == 2);
    CHECK(seawall::abi_matches());
    const std::string folder(argv[1]);
    throwing(folder + "-throwing");
    returning(folder + "-returning");
    typed(folder + "-typed");
    moved(folder + "-moved");
    reentrant(folder + "-reentrant", 100);
    reentrant(folder + "-larger", 100000);
    damaged(folder + "-damaged");
#ifdef SEAWALL_HAS_SPAN
    spans(folder + "-spans");
#endif
    return 0;
}
