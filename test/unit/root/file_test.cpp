// Files of configuration and credentials.
#include "root/file.hpp"
#include "support/signal_storm.hpp"
#include "support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <csignal>
#include <fstream>
#include <limits>
#include <string>
#include <thread>

#include <sys/stat.h>

using namespace informer;
using namespace std::chrono_literals;
using informer::testing::signal_storm;
using informer::testing::temporary_folder;

namespace {

/// Returns when the main thread, which waits, has had 20 more signals, or after 10 s.
void interrupt_often() {
    const unsigned before = signal_storm::seen;
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (signal_storm::seen - before < 20 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
}

} // namespace

TEST_CASE("a pipe is read to its end, even if signals come meanwhile") {
    const temporary_folder dir;
    const std::string pipe = dir.path("pipe");
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    const std::string half(100'000, 'x');
    const signal_storm signals;
    std::thread writer([&] {
        sigset_t all;
        sigfillset(&all);
        ::pthread_sigmask(SIG_BLOCK, &all, nullptr); // the signals are for the reader
        interrupt_often();
        std::ofstream out(pipe);
        out << half << std::flush;
        interrupt_often();
        out << half;
    });
    std::string why;
    const auto text = detail::read_file(pipe, why, detail::waiting::may);
    if (!text) { // otherwise the writer waits for ever
        std::signal(SIGALRM, SIG_IGN);
        std::ifstream rest(pipe);
        rest.ignore(std::numeric_limits<std::streamsize>::max());
    }
    writer.join();
    CHECK(why.empty());
    REQUIRE(text);
    CHECK(*text == half + half);
}

TEST_CASE("a path that cannot be read as a file is refused with the reason") {
    const temporary_folder dir;
    std::string why;
    CHECK_FALSE(detail::read_file(dir.path("none"), why, detail::waiting::may));
    CHECK(why == "no such file");
    CHECK_FALSE(detail::read_file(dir.path(""), why, detail::waiting::may));
    CHECK(why == "Is a directory");
    REQUIRE(::mkfifo(dir.path("pipe").c_str(), 0600) == 0);
    CHECK_FALSE(detail::read_file(dir.path("pipe"), why, detail::waiting::never));
    CHECK(why == "no regular file");
    CHECK_FALSE(detail::read_file("/dev/zero", why, detail::waiting::may));
    CHECK(why == "larger than 16 MiB");
}
