// Appends a record, and reads all records back. Build and run it after installing the library:
//
//     c++ -std=c++17 orders.cpp $(pkg-config --cflags --libs seawall) -o orders && ./orders orders.wal
#include <seawall.hpp>

#include <iostream>

int main(int argc, char **argv) try {
    seawall::log log(argc > 1 ? argv[1] : "orders.wal"); // creates or opens, recovers

    for (const auto &record : log.records()) // in order, verified
        std::cout << "redo " << record.lsn << ": " << record.data << '\n';

    std::cout << "logged " << log.append("order: 3 apples") << '\n'; // durable: now act on it

    log.close(); // the destructor would report no error
    return 0;
} catch (const seawall::error &error) {
    std::cerr << error.what() << '\n';
    if (error.status() == SEAWALL_STATUS_RETRY) std::cerr << "try again later\n";
    return 1;
}
