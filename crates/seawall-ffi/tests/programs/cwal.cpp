// Programs for CWal on seawall/cwal.hpp, and the errors of CWal that it avoids. Arguments: the name
// of a case, and a folder for the log, which must not exist.
#include <seawall/cwal.hpp>

#include "check.h"

#include <atomic>
#include <csignal>
#include <functional>
#include <map>
#include <random>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

// Counts allocations by C++.
static std::size_t allocations = 0;
void *operator new(std::size_t size) {
    allocations += 1;
    void *memory = std::malloc(size == 0 ? 1 : size);
    CHECK(memory != nullptr);
    return memory;
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }

namespace {

string text(int number) { return "entry " + to_string(number) + string(number % 50, '.'); }

// Appends the entries `from` to `to` - 1.
void append(WalWriter &w, int from, int to) {
    for (int i = from; i < to; ++i) CHECK(w.append_log(LogEntry(text(i).size(), text(i))));
}

WalWriter opened(const string &path) {
    WalWriter w(FILE_FORMAT::BINARY);
    CHECK(w.open_file(path));
    return w;
}

vector<string> read_all(const string &path) {
    WalReader r(FILE_FORMAT::BINARY);
    r.open_file(path);
    CHECK(r.is_open());
    vector<string> found;
    LogEntry entry;
    while (r.read_log(entry)) {
        CHECK(entry.byte_length == entry.data.size());
        found.push_back(entry.data);
    }
    return found;
}

// The log has the entries `from` to `to` - 1, and no others.
void expect(const string &path, int from, int to) {
    const auto found = read_all(path);
    CHECK(found.size() == static_cast<std::size_t>(to - from));
    for (int i = from; i < to; ++i) CHECK(found[static_cast<std::size_t>(i - from)] == text(i));
}

// Runs `program` with an open writer in a child process, which then kills itself.
void killed(const string &path, const function<void(WalWriter &)> &program) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        auto w = opened(path);
        program(w);
        kill(getpid(), SIGKILL);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

string segment(const string &path) {
    string newest;
    for (const auto &file : filesystem::directory_iterator(path)) {
        if (file.path().extension() == ".seg") newest = max(newest, file.path().string());
    }
    return newest;
}

string content(const string &file) {
    ifstream in(file, ios::binary);
    return string(istreambuf_iterator<char>(in), {});
}

void overwrite(const string &file, size_t at, const string &bytes) {
    fstream out(file, ios::in | ios::out | ios::binary);
    out.seekp(static_cast<streamoff>(at));
    out.write(bytes.data(), static_cast<streamsize>(bytes.size()));
    CHECK(out.good());
}

// The example of CWal's README.
void example_of_the_readme_works(const string &path) {
    WalWriter w(FILE_FORMAT::BINARY);
    w.open_file(path);
    w.append_log(LogEntry(12, "Log Entry #1"));
    w.append_log(LogEntry(12, "Log Entry #2"));
    w.append_log(LogEntry(12, "Log Entry #3"));
    w.wal_fsync();

    WalReader r(FILE_FORMAT::BINARY);
    r.open_file(path);
    vector<LogEntry> logs(3);
    for (int i = 0; i < 3; i++) CHECK(r.read_log(logs[static_cast<size_t>(i)]));
    CHECK(logs[2].byte_length == 12 && logs[2].data == "Log Entry #3");
    CHECK(!r.read_log(logs[0]) && r.why().message == "reached end of file");
    r.reset_iter();
    CHECK(r.read_log(logs[2]) && logs[2].data == "Log Entry #1");
    r.close_file();
    CHECK(!r.read_log(logs[0]));

    w.rotate_log();
    w.close_file();
    CHECK(read_all(path).empty());
}

// As CWal's own test: writes random entries, twice into the same log.
void random_entries_are_read_back(const string &path) {
    mt19937_64 rng(5489);
    for (int turn = 0; turn < 2; ++turn) {
        vector<LogEntry> entries;
        WalWriter w(FILE_FORMAT::BINARY);
        CHECK(w.open_file(path));
        w.rotate_log();
        for (int i = 0; i < 1000; ++i) {
            const auto length = uniform_int_distribution<uint64_t>(1, 1000)(rng);
            string data(length, ' ');
            for (auto &c : data) c = static_cast<char>(rng());
            CHECK(w.append_log(LogEntry(length, data)));
            entries.push_back(LogEntry(length, data));
        }
        w.wal_fsync();
        w.close_file();
        const auto found = read_all(path);
        CHECK(found.size() == entries.size());
        for (size_t i = 0; i < entries.size(); ++i) CHECK(found[i] == entries[i].data);
    }
}

void every_method_works(const string &path) {
    WalWriter w;
    CHECK(!w.append_log(LogEntry(1, "x")) && w.why().message == "file not opened correctly");
    w.wal_flush();
    w.wal_fsync();
    w.rotate_log();
    w.close_file();
    CHECK(w.open_file(path) && w.file_path == path && !w.open_file(path));
    CHECK(!w.append_log(LogEntry(3, "four")));
    CHECK(w.append_log(LogEntry("length")) && w.append_log(LogEntry()));
    w.wal_flush();
    CHECK((read_all(path) == vector<string>{"length", ""}));
    WalWriter second;
    CHECK(!second.open_file(path) && second.why().code == SEAWALL_ERROR_CODE_BUSY);
    w.close_file();
    // Opening an existing log appends; a destructor closes it.
    opened(path).append_log(LogEntry("third"));
    CHECK(read_all(path).size() == 3);
    w.set_file_format(FILE_FORMAT::TEXT);
    CHECK(w.open_file_truncated(path));
    CHECK(read_all(path).empty() && w.append_log(LogEntry("first\nagain")));
    w.close_file();
    CHECK((read_all(path) == vector<string>{"first\nagain"}));
    // A reader creates nothing.
    WalReader r;
    LogEntry entry;
    r.open_file(path + "-missing");
    CHECK(!r.is_open() && !r.read_log(entry) && !filesystem::exists(path + "-missing"));
}

// CWal syncs the file without flushing its stream first.
void fsync_covers_the_newest_entry(const string &path) {
    killed(path, [](WalWriter &w) {
        append(w, 0, 200);
        w.wal_fsync();
    });
    expect(path, 0, 200);
}

// CWal ignores errors of fsync.
void failed_sync_is_reported(const string &path) {
    killed(path, [](WalWriter &w) {
        append(w, 0, 10);
        w.wal_fsync();
        // From here on, every write to a file fails.
        const rlimit none{0, 0};
        CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
        bool is_reported = false;
        try {
            append(w, 10, 11);
            w.wal_fsync();
        } catch (const seawall::error &error) {
            is_reported = error.status() == SEAWALL_STATUS_REOPEN;
        }
        CHECK(is_reported && !w.append_log(LogEntry("late")));
    });
    const auto found = read_all(path);
    CHECK(found.size() >= 10 && found[9] == text(9));
}

// CWal overwrites its file from the start, so old entries follow the new ones.
void rotation_shows_no_stale_entry(const string &path) {
    {
        auto w = opened(path);
        append(w, 0, 100);
        w.rotate_log();
        append(w, 100, 103);
        w.close_file();
        expect(path, 100, 103);
    }
    killed(path, [](WalWriter &w) {
        append(w, 103, 110);
        w.rotate_log();
    });
    CHECK(read_all(path).empty());
    auto w = opened(path);
    append(w, 110, 112);
    w.wal_fsync();
    expect(path, 110, 112);
    // Rotations remove old segments, so their space stays bounded.
    const string large(100000, 'x');
    for (int i = 0; i < 100; ++i) {
        CHECK(w.append_log(LogEntry(large)));
        w.rotate_log();
    }
    int segments = 0;
    for (const auto &file : filesystem::directory_iterator(path)) {
        segments += file.path().extension() == ".seg";
    }
    CHECK(segments <= 3 && w.log().oldest() > 150);
}

// CWal has no recovery.
void killed_writer_is_recovered(const string &path) {
    for (int life = 0; life < 8; ++life) {
        killed(path, [life](WalWriter &w) {
            append(w, life * 10, life * 10 + 10);
            w.wal_fsync();
        });
        auto w = opened(path);
        w.close_file();
        expect(path, 0, life * 10 + 10);
    }
}

// CWal reports half an entry as a wrong checksum, and appends after it.
void unfinished_entry_is_removed(const string &path) {
    killed(path, [](WalWriter &w) {
        append(w, 0, 5);
        w.wal_fsync();
        CHECK(w.append_log(LogEntry(string(10000, 'x'))));
        w.wal_fsync();
    });
    const auto file = segment(path);
    const auto at = content(file).find(string(10000, 'x'));
    CHECK(at != string::npos);
    // The device wrote the first blocks only.
    overwrite(file, at / 4096 * 4096 + 4096, string(8000, '\0'));
    // As after a power failure: `live` of an earlier boot does not count.
    CHECK(filesystem::remove(path + "/live"));
    auto w = opened(path);
    CHECK(w.log().recovery().tail != SEAWALL_TAIL_CLEAN);
    append(w, 5, 6);
    w.close_file();
    expect(path, 0, 6);
}

// CWal trusts the length, which its checksum does not cover.
void flipped_byte_yields_no_wrong_entry(const string &path) {
    {
        auto w = opened(path);
        append(w, 0, 3);
        w.wal_fsync();
        append(w, 3, 6);
        w.close_file();
    }
    const auto file = segment(path);
    const auto good = content(file);
    const auto end = good.rfind(text(5)) + text(5).size();
    int damaged = 0;
    for (size_t at = good.find(text(0)) - 100; at < end; ++at) {
        overwrite(file, at, string(1, static_cast<char>(good[at] ^ 0x10)));
        int next = 0;
        try {
            WalReader r;
            LogEntry entry;
            r.open_file(path);
            while (r.read_log(entry)) CHECK(entry.data == text(next++));
            // This byte was only padding.
            CHECK(next == 6);
        } catch (const invalid_argument &) {
            damaged += 1;
        }
        overwrite(file, at, string(1, good[at]));
    }
    CHECK(damaged > 100);
    expect(path, 0, 6);
}

// CWal reports only that a checksum does not match.
void damage_is_named_with_its_place(const string &path) {
    {
        auto w = opened(path);
        append(w, 0, 3);
        w.wal_fsync();
        append(w, 3, 4);
        w.close_file();
    }
    const auto file = segment(path);
    const auto at = content(file).find(text(3));
    overwrite(file, at, "E");
    WalReader r;
    LogEntry entry;
    r.open_file(path);
    for (int i = 0; i < 3; ++i) CHECK(r.read_log(entry) && entry.data == text(i));
    bool is_thrown = false;
    try {
        r.read_log(entry);
    } catch (const seawall::cwal::wal_damage &damage) {
        const auto &why = damage.why();
        is_thrown = why.first_lsn == 4 && why.last_lsn == 4 && why.segment == 1 && why.offset <= at;
    }
    CHECK(is_thrown);
}

// A file of CWal at the log's path is refused and kept.
void file_of_cwal_is_refused_and_kept(const string &path) {
    const string entry("\x01\0\0\0\0\0\0\0xXXXX", 13);
    ofstream(path, ios::binary) << entry;
    WalWriter w;
    CHECK(!w.open_file_truncated(path) && !w.open_file(path) && !w.is_open());
    CHECK(content(path) == entry);
}

// Not in CWal: asynchronous appends.
void entries_are_appended_without_waiting(const string &path) {
    atomic<int> durable{0};
    auto w = opened(path);
    vector<seawall::nothrow::ticket> tickets;
    for (int i = 0; i < 100; ++i) {
        auto ticket = w.append_log_async(LogEntry(text(i)));
        CHECK(ticket);
        const auto count = [&durable, &w](const seawall::result<seawall::lsn_t> &lsn) {
            if (lsn && w.log().durable() >= *lsn) durable += 1;
        };
        CHECK(ticket->on_done(count));
        tickets.push_back(*std::move(ticket));
    }
    for (const auto &ticket : tickets) CHECK(ticket.wait());
    while (durable < 100) usleep(100);
    CHECK(!w.append_log_async(LogEntry(9, "short")));
    w.close_file();
    CHECK(!w.append_log_async(LogEntry("closed")));
    expect(path, 0, 100);
}

void awaited_entry_survives_a_kill(const string &path) {
    killed(path, [](WalWriter &w) {
        const auto ticket = w.append_log_async(LogEntry(text(0)));
        CHECK(ticket && ticket->wait());
    });
    expect(path, 0, 1);
}

// Not in CWal: copies, and repair from one.
void copy_repairs_a_damaged_log(const string &path) {
    auto w = opened(path);
    append(w, 0, 10);
    w.backup(path + "-copy");
    append(w, 10, 20);
    w.backup(path + "-later");
    w.close_file();
    expect(path + "-copy", 0, 10);
    overwrite(segment(path), content(segment(path)).find(text(4)), "E");
    bool is_damaged = false;
    try {
        (void)read_all(path);
    } catch (const invalid_argument &) {
        is_damaged = true;
    }
    CHECK(is_damaged && !WalWriter().open_file(path));
    CHECK(!WalWriter::restore(path, "") && WalWriter::restore(path, path + "-later"));
    expect(path, 0, 20);
}

// Not in CWal: reading entries without a copy.
void views_copy_nothing(const string &path) {
    auto w = opened(path);
    append(w, 0, 1000);
    w.close_file();
    WalReader r;
    r.open_file(path);
    string_view data;
    string expected;
    expected.reserve(200);
    const auto first = allocations;
    for (int i = 0; i < 1000; ++i) {
        CHECK(r.view_log(data));
        CHECK(data.substr(0, 6) == "entry " && data.size() >= 7);
    }
    CHECK(allocations == first);
    CHECK(data == text(999) && !r.view_log(data));
}

const map<string, void (*)(const string &)> cases{
    {"example_of_the_readme_works", example_of_the_readme_works},
    {"random_entries_are_read_back", random_entries_are_read_back},
    {"every_method_works", every_method_works},
    {"fsync_covers_the_newest_entry", fsync_covers_the_newest_entry},
    {"failed_sync_is_reported", failed_sync_is_reported},
    {"rotation_shows_no_stale_entry", rotation_shows_no_stale_entry},
    {"killed_writer_is_recovered", killed_writer_is_recovered},
    {"unfinished_entry_is_removed", unfinished_entry_is_removed},
    {"flipped_byte_yields_no_wrong_entry", flipped_byte_yields_no_wrong_entry},
    {"damage_is_named_with_its_place", damage_is_named_with_its_place},
    {"file_of_cwal_is_refused_and_kept", file_of_cwal_is_refused_and_kept},
    {"entries_are_appended_without_waiting", entries_are_appended_without_waiting},
    {"awaited_entry_survives_a_kill", awaited_entry_survives_a_kill},
    {"copy_repairs_a_damaged_log", copy_repairs_a_damaged_log},
    {"views_copy_nothing", views_copy_nothing},
};

} // namespace

int main(int argc, char **argv) {
    CHECK(argc == 3);
    const auto found = cases.find(argv[1]);
    CHECK(found != cases.end());
    found->second(argv[2]);
    return 0;
}
