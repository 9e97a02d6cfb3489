// A writer that the test kills. Arguments: LOG ACKNOWLEDGED. Checks that the log has at least the
// records 1 to ACKNOWLEDGED, unchanged, then appends and prints each number once it is durable.
#include <seawall.hpp>

#include "check.h"

#include <cstdio>
#include <string>

static std::string text(seawall::lsn_t lsn) {
    return "record " + std::to_string(lsn) + std::string(lsn % 300, '.');
}

int main(int argc, char **argv) try {
    CHECK(argc == 3);
    const auto acknowledged = std::stoull(argv[2]);
    seawall::log log(argv[1], seawall::options().segment_size(1 << 20));
    seawall::lsn_t last = 0;
    for (const auto &record : log.records()) {
        CHECK(record.lsn == last + 1 && record.data == text(record.lsn));
        last = record.lsn;
    }
    CHECK(last == log.recovery().last);
    if (last < acknowledged) {
        std::fprintf(stderr, "%llu records remain of %llu\n", static_cast<unsigned long long>(last),
                     acknowledged);
        return 1;
    }
    for (;;) {
        const auto lsn = log.append(text(last + 1));
        CHECK(lsn == last + 1);
        last = lsn;
        std::printf("%llu\n", static_cast<unsigned long long>(lsn));
        std::fflush(stdout);
    }
} catch (const seawall::error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
