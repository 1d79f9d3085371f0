#include <informer/object/resource_version.hpp>

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using informer::resource_version;

namespace {
std::partial_ordering compare(const char* a, const char* b) {
    return resource_version(a) <=> resource_version(b);
}
} // namespace

TEST_CASE("resource versions order as decimal numbers of any length", "[resource_version]") {
    CHECK(compare("9", "10") < 0);
    CHECK(compare("10", "9") > 0);
    CHECK(compare("123", "124") < 0);
    CHECK(compare("18446744073709551615", "18446744073709551616") < 0);
    CHECK(compare("99999999999999999999999999999999999998", "99999999999999999999999999999999999999") < 0);
    CHECK(compare("1", "99999999999999999999999999999999999999") < 0);
    CHECK(compare("0", "1") < 0);
}

TEST_CASE("leading zeros do not count", "[resource_version]") {
    CHECK(compare("007", "7") == 0);
    CHECK(compare("000", "0") == 0);
    CHECK(compare("0010", "9") > 0);
    CHECK(resource_version("007") == resource_version("7"));
}

TEST_CASE("a text that is no decimal number is unordered with everything but itself", "[resource_version]") {
    for (const char* odd : {"", "abc", "-1", "+1", "1.0", " 1", "1 ", "0x10", "\xff", "1a"}) {
        CAPTURE(odd);
        CHECK(compare(odd, "5") == std::partial_ordering::unordered);
        CHECK(compare("5", odd) == std::partial_ordering::unordered);
        CHECK(compare(odd, "other") == std::partial_ordering::unordered);
        CHECK(compare(odd, odd) == std::partial_ordering::equivalent);
        CHECK_FALSE(resource_version(odd).comparable());
        CHECK(resource_version(odd) != resource_version("5"));
        CHECK_FALSE(resource_version(odd) < resource_version("5"));
    }
    CHECK(resource_version("5").comparable());
    CHECK(resource_version().empty());
}

TEST_CASE("resource versions print as the server wrote them", "[resource_version]") {
    std::ostringstream o;
    o << resource_version("0042");
    CHECK(o.str() == "0042");
}

TEST_CASE("resource versions of any length are copied, moved and assigned as values", "[resource_version]") {
    std::vector<resource_version> all;
    for (std::size_t n = 0; n < 50; ++n) all.emplace_back(std::string(n, static_cast<char>('0' + n % 10)));
    for (std::size_t i = 0; i < all.size(); ++i) {
        const std::string text(i, static_cast<char>('0' + i % 10));
        CAPTURE(text);
        CHECK(all[i].view() == text);
        CHECK(all[i].str() == text);
        CHECK(all[i].empty() == (i == 0));
        for (const resource_version& other : all) {
            resource_version copy(all[i]), assigned(other);
            assigned = copy;
            CHECK(assigned.view() == text);
            CHECK(copy.view() == text);
            resource_version moved(std::move(copy)), moved_to(other);
            CHECK(copy.empty()); // NOLINT: a moved-from one is empty
            moved_to = std::move(moved);
            CHECK(moved_to.view() == text);
            const resource_version& itself = moved_to;
            moved_to = itself;
            CHECK(moved_to.view() == text);
        }
    }
}

TEST_CASE("a long resource version may be copied and dropped on many threads", "[resource_version]") {
    const resource_version one(std::string(100, '7'));
    std::atomic<int> wrong = 0;
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([copy = one, &wrong] {
            for (int i = 0; i < 10'000; ++i) {
                const resource_version mine(copy);
                wrong += mine.view().size() != 100;
            }
        });
    threads.clear();
    CHECK(wrong == 0);
    CHECK(one.view() == std::string(100, '7'));
}
