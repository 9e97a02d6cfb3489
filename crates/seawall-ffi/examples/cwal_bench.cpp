// Runs CWal's benchmarks with seawall/cwal.hpp and with CWal's own method: a buffered stream, its
// flush, and an fsync of the flushed bytes. Runs of both alternate.
//
//     c++ -O2 -std=c++17 cwal_bench.cpp $(pkg-config --cflags --libs seawall) -o cwal_bench
//     ./cwal_bench --logs 10000 --size 100 --rounds 12
#include <seawall/cwal.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <sys/resource.h>
#include <unistd.h>

static const char *const usage =
    "usage: cwal_bench [--logs N] [--size N] [--rounds N] [--dir DIR]\n"
    "                  [--flush] [--fsync] [--sync-period N] [--batch N|sqrt|cbrt]\n"
    "  --logs         LOG_LENGTH: entries per run (10000)\n"
    "  --size         LOG_SIZE: bytes per entry (100)\n"
    "  --rounds       runs of each benchmark; results are medians (5)\n"
    "  --flush        RFLUSH: flush after each entry\n"
    "  --fsync        SYNC: fsync after each entry\n"
    "  --sync-period  SYNC_PERIOD: fsync after every N-th entry\n"
    "  --batch        BATCH_SIZE: fsync after each entry, restart the log every N entries\n"
    "Without the last four: every benchmark of CWal.\n";

// A benchmark of CWal; 0 means never.
struct Benchmark {
    bool flushes = false;
    int sync_period = 0;
    int batch = 0;
};

// CWal's method, with a missing flush added.
class StreamWriter {
public:
    bool open_file_truncated(const string &path) {
        fs.open(path, ios::in | ios::out | ios::trunc | ios::binary);
        file = open(path.c_str(), O_RDWR);
        return fs.good() && file >= 0;
    }
    bool append_log(const LogEntry &entry) {
        const uint32_t crc = crc32(entry.data);
        fs.write(reinterpret_cast<const char *>(&entry.byte_length), sizeof entry.byte_length);
        fs.write(entry.data.data(), static_cast<streamsize>(entry.data.size()));
        fs.write(reinterpret_cast<const char *>(&crc), sizeof crc);
        return fs.good();
    }
    void wal_flush() { fs.flush(); }
    void wal_fsync() {
        // CWal does not flush here: up to 8 KiB of entries stay in its stream.
        fs.flush();
        if (!fs.good() || fsync(file) != 0) throw runtime_error("fsync failed");
    }
    void rotate_log() { fs.seekp(0, ios::beg); }
    void close_file() {
        fs.close();
        close(file);
    }

private:
    // Uses a table with an entry per byte, as CWal does.
    static uint32_t crc32(const string &data) {
        static const auto table = [] {
            array<uint32_t, 256> table{};
            for (uint32_t byte = 0; byte < 256; ++byte) {
                uint32_t value = byte;
                for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xEDB88320 : 0);
                table[byte] = value;
            }
            return table;
        }();
        uint32_t crc = ~0U;
        for (const char c : data) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(c)) & 255];
        return ~crc;
    }

    fstream fs;
    int file = -1;
};

// Microseconds per entry.
struct Cost {
    double time, processor;
};

static double processor_us() {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    const auto us = [](const timeval &time) { return time.tv_sec * 1e6 + time.tv_usec; };
    return us(used.ru_utime) + us(used.ru_stime);
}

// One run. As in CWal, the time covers only the appends; the processor time covers all threads
// until the log is closed.
template <class Writer>
static Cost run(const string &path, const Benchmark &benchmark, int count, const vector<LogEntry> &entries) {
    Writer w;
    if (!w.open_file_truncated(path)) throw runtime_error("cannot open " + path);
    const auto used = processor_us();
    const auto start = chrono::steady_clock::now();
    for (int i = 0; i < count; i++) {
        if (benchmark.batch != 0 && i % benchmark.batch == 0) w.rotate_log();
        if (!w.append_log(entries[static_cast<size_t>(i) % entries.size()])) {
            throw runtime_error("an append failed");
        }
        if (benchmark.flushes) w.wal_flush();
        if (benchmark.sync_period != 0 && i % benchmark.sync_period == 0) w.wal_fsync();
    }
    const auto end = chrono::steady_clock::now();
    w.close_file();
    const double time = chrono::duration<double, micro>(end - start).count();
    filesystem::remove_all(path);
    return {time / count, (processor_us() - used) / count};
}

static double median(vector<double> values) {
    sort(values.begin(), values.end());
    return values[values.size() / 2];
}

static void print(const char *name, int count, const vector<Cost> &costs) {
    vector<double> times, processor;
    for (const auto &cost : costs) times.push_back(cost.time), processor.push_back(cost.processor);
    printf("==> %-8s %12.2f ms | %8.2f us/log | %8.2f us of CPU time\n", name,
           median(times) * count / 1000, median(times), median(processor));
}

static void compare(const string &dir, const Benchmark &benchmark, int rounds, int count,
                    const vector<LogEntry> &entries) {
    vector<Cost> stream, log;
    vector<double> times, processor;
    for (int round = 0; round < rounds; ++round) {
        stream.push_back(run<StreamWriter>(dir + "/cwal-bench.stream", benchmark, count, entries));
        log.push_back(run<WalWriter>(dir + "/cwal-bench.wal", benchmark, count, entries));
        times.push_back(log.back().time / stream.back().time);
        processor.push_back(log.back().processor / max(stream.back().processor, 1e-6));
    }
    printf("%s Benchmark: %d entries | data_length = %zu | ", benchmark.batch ? "Batched Sync" : "Regular",
           count, entries[0].data.size());
    if (benchmark.batch) {
        printf("BATCH_SIZE = %d", benchmark.batch);
    } else {
        printf("Flush? %s | Sync? %s", benchmark.flushes ? "Yes" : "No", benchmark.sync_period ? "Yes" : "No");
    }
    if (benchmark.sync_period) printf(" | SYNC_PERIOD = %d", benchmark.sync_period);
    printf("\n");
    print("stream", count, stream);
    print("seawall", count, log);
    printf("==> seawall / stream: %.2f of the time, %.2f of the CPU time\n\n", median(times),
           median(processor));
    fflush(stdout);
}

int main(int argc, char **argv) try {
    int count = 10000, size = 100, rounds = 5;
    string dir = ".", batch;
    Benchmark chosen;
    for (int at = 1; at < argc; ++at) {
        const string name = argv[at];
        const auto value = [&]() -> string {
            if (at + 1 < argc) return argv[++at];
            fputs(usage, stderr);
            exit(2);
        };
        if (name == "--logs") count = stoi(value());
        else if (name == "--size") size = stoi(value());
        else if (name == "--rounds") rounds = stoi(value());
        else if (name == "--dir") dir = value();
        else if (name == "--flush") chosen.flushes = true;
        else if (name == "--fsync") chosen.sync_period = max(chosen.sync_period, 1);
        else if (name == "--sync-period") chosen.sync_period = stoi(value());
        else if (name == "--batch") batch = value();
        else {
            fputs(usage, stderr);
            return 2;
        }
    }
    const int root = static_cast<int>(sqrt(count)), cube_root = static_cast<int>(cbrt(count));
    if (!batch.empty()) {
        chosen.batch = batch == "sqrt" ? root : batch == "cbrt" ? cube_root : stoi(batch);
        chosen.sync_period = max(chosen.sync_period, 1);
    }
    if (count < 1 || size < 0 || rounds < 1 || chosen.sync_period < 0 || chosen.batch < 0) {
        fputs(usage, stderr);
        return 2;
    }
    static const char alphanumeric[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    mt19937_64 rng(5489);
    vector<LogEntry> entries;
    for (int i = 0; i < min(count, 10000); i++) {
        string put(static_cast<size_t>(size), ' ');
        for (auto &c : put) c = alphanumeric[rng() % (sizeof alphanumeric - 1)];
        entries.push_back(LogEntry(put.size(), put));
    }
    vector<Benchmark> benchmarks{chosen};
    if (!chosen.flushes && chosen.sync_period == 0 && chosen.batch == 0) {
        benchmarks = {{},          {true, 0, 0},    {false, 1, 0},
                      {false, 10, 0}, {false, 1, root}, {false, 1, cube_root}};
    }
    for (const auto &benchmark : benchmarks) compare(dir, benchmark, rounds, count, entries);
    return 0;
} catch (const exception &error) {
    fprintf(stderr, "cwal_bench: %s\n", error.what());
    return 1;
}
