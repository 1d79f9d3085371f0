#include <informer/detail/shared_count.hpp>

#include <catch2/catch_test_macros.hpp>

#include <exception>
#include <thread>
#include <vector>

using namespace informer::detail;

TEST_CASE("a count is exact, whether the process has one thread or several", "[shared_count]") {
    constexpr unsigned rounds = 100'000, threads = 4;
    shared_count c{1};
    const auto work = [&c] {
        for (unsigned i = 0; i < rounds; ++i) count_up(c);
        for (unsigned i = 0; i < rounds; ++i) {
            if (count_down(c)) std::terminate(); // the first one is still there
        }
    };
    work();
    CHECK(c == 1);
    {
        std::vector<std::jthread> all;
        for (unsigned i = 0; i < threads; ++i) all.emplace_back(work);
    }
    CHECK(c == 1);
    CHECK(count_down(c));
    CHECK(c == 0);
}
