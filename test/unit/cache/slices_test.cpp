// However much there is to do, other work on the executor has its turns: the longest step does not grow.
#include "cache/subscription_state.hpp"
#include "informer_fixture.hpp"
#include "support/cpu_time.hpp"
#include "support/sanitizer.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;

namespace {

/// The longest step until nothing is ready, by this thread's own time.
std::chrono::nanoseconds longest_step(bench& b) {
    std::chrono::nanoseconds longest{};
    b.context.restart();
    for (;;) {
        const auto start = cpu_time();
        if (b.context.poll_one() == 0) return longest;
        longest = std::max(longest, cpu_time() - start);
    }
}

/// The longest step of `work` for `n` and for eight times as many, each the shorter of two runs, as the machine may be
/// busy.
template <class Work>
void check_steps(std::size_t n, const Work& work) {
    if (sanitized) SKIP("the sanitizer has long steps of its own, when it frees what it kept");
    const auto least = [&](std::size_t size) {
        auto best = std::chrono::nanoseconds::max();
        for (int i = 0; i < 2; ++i) best = std::min<std::chrono::nanoseconds>(best, work(size));
        return best;
    };
    const auto few = least(n), many = least(8 * n);
    CAPTURE(few, many);
    CHECK(many < 2 * few + 3ms);
}

std::vector<std::string> pods_of(std::size_t n, int version) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < n; ++i) all.push_back(pod("p" + std::to_string(i), version));
    return all;
}

enum class listeners { none, one_behind };

std::chrono::nanoseconds relist(std::size_t n, int version, listeners who) {
    bench b(informer_options().watch_list(false).page_size(0).index("note", index_by_pointer("/spec/note")));
    std::optional<subscription> behind;
    if (who == listeners::one_behind) behind = b.pods.subscribe(subscription_options().capacity(1));
    b.source->on_list(list_of(pods_of(n, 5), "10"));
    const auto w = b.source->on_watch();
    b.start();
    REQUIRE(b.pods.snapshot().size() == n);
    if (behind) // takes its initial state, so that none of it is pending
        while (behind->try_next()) {
        }
    b.source->on_list(list_of(pods_of(n, version), "20"));
    b.source->on_watch();
    w->fail(status_failure(410, "Expired"));
    b.settle();
    b.clock->advance(2s);
    const auto longest = longest_step(b);
    REQUIRE(b.pods.snapshot().resource_version().str() == "20");
    return longest;
}

} // namespace

TEST_CASE("a relist gives turns to other work, whether all has changed or nothing", "[informer][slices]") {
    for (const int version : {5, 15}) {
        CAPTURE(version);
        check_steps(5000, [&](std::size_t n) { return relist(n, version, listeners::none); });
    }
}

TEST_CASE("a relist gives turns to other work, even if a subscriber is far behind", "[informer][slices]") {
    check_steps(5000, [](std::size_t n) { return relist(n, 15, listeners::one_behind); });
}

TEST_CASE("a change of many objects gives turns to other work", "[informer][slices][change]") {
    check_steps(5000, [](std::size_t n) {
        bench b(informer_options().queue_capacity(100'000).index("note", index_by_pointer("/spec/note")));
        const auto w = b.sync_with(pods_of(n, 5), 10);
        w->begin_change();
        for (std::string& p : pods_of(n, 15)) w->modified(std::move(p));
        w->end_change();
        const auto longest = longest_step(b);
        REQUIRE(b.pods.snapshot().resource_version().str() == "15");
        return longest;
    });
}

TEST_CASE("subscribers that are behind get their events with turns in between, however many they are",
          "[informer][slices]") {
    check_steps(25, [](std::size_t n) {
        bench b(informer_options().queue_capacity(100'000));
        const auto w = b.sync_with(pods_of(300, 5), 10);
        std::vector<subscription> all;
        for (std::size_t i = 0; i < n; ++i) {
            all.push_back(b.pods.subscribe(subscription_options().capacity(64)));
            while (all.back().try_next()) {
            }
        }
        for (int version : {15, 25})
            for (std::string& p : pods_of(300, version)) w->modified(std::move(p));
        return longest_step(b);
    });
}

TEST_CASE("an event for a subscriber that is behind takes no longer if many are already pending",
          "[subscription][slices]") {
    const auto pool = document_pool::make();
    failure f;
    std::vector<object> objects;
    for (const std::string& text : pods_of(100'000, 5)) objects.push_back(pool->decode(text, object(), f));
    const auto longest_push = [&] {
        subscription::state s(subscription_options().capacity(1));
        std::chrono::nanoseconds longest{}, all{};
        for (const object& o : objects) {
            event e(event_kind::added, o, object(), event_reason::watch);
            const auto start = cpu_time();
            s.push(std::move(e));
            const auto took = cpu_time() - start;
            longest = std::max(longest, took);
            all += took;
        }
        return static_cast<double>(longest.count()) / static_cast<double>(all.count());
    };
    double share = 1;
    for (int i = 0; i < 3; ++i) share = std::min(share, longest_push());
    CHECK(share < 0.1); // a table that grows moves its entries without reading their keys
}
