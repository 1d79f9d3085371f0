// Observers of an informer.
#include "informer_fixture.hpp"

#include <malloc.h>

#include <string>
#include <utility>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;

TEST_CASE("an observer gets the status after the first list, and after each relist", "[informer]") {
    bench b(informer_options().watch_list(false));
    informer_status last;
    const auto mine =
        b.pods.observe(informer_observer().on_state_change([&last](const informer_status& s) { last = s; }));
    const auto w = b.list_with({pod("a", 1), pod("b", 2)}, 2);
    CHECK(last.phase == informer_phase::watching);
    CHECK(last.synced);
    CHECK(last.objects == 2);
    b.source->on_list(list_of({pod("a", 1)}, "9"));
    b.source->on_watch();
    w->fail(status_failure(410, "Expired"));
    b.settle();
    b.pass(2s);
    CHECK(last.phase == informer_phase::watching);
    CHECK(last.relists == 1);
    CHECK(last.objects == 1);
    CHECK_FALSE(last.last_error);
}

TEST_CASE("any number of observers can observe an informer, each until its handle is dropped", "[informer]") {
    bench b;
    words told;
    const auto errors_of = [&told](std::string who) {
        return informer_observer().on_error([&told, who = std::move(who)](std::string_view phase, const failure&) {
            told.push_back(who + " " + std::string(phase));
        });
    };
    const auto refuse = [&b] {
        b.source->on_watch_fail(status_failure(403, "Forbidden"));
        b.source->on_list(list_script().fail(status_failure(403, "Forbidden")));
    };
    b.pods.on_error([&told](std::string_view phase, const failure&) { told.push_back("one " + std::string(phase)); });
    std::size_t changes = 0, bad = 0;
    const auto all = b.pods.observe(informer_observer()
                                        .on_state_change([&changes](const informer_status&) { ++changes; })
                                        .on_bad_object([&bad](const bad_object&) { ++bad; }));
    auto second = b.pods.observe(errors_of("two"));
    const auto broken = b.pods.observe(informer_observer().on_error([](std::string_view, const failure&) { throw 1; }));
    const auto third =
        b.pods.observe(informer_observer().on_error([&](std::string_view, const failure&) { second.reset(); }));
    refuse();
    b.start();
    CHECK(told == words{"one watch-list", "two watch-list", "one list"}); // the third removed the second
    told.clear();
    const auto late = b.pods.observe(errors_of("late"));
    b.source->on_watch()->added("{}").added(pod("a", 1)).bookmark("2", true);
    b.pass(1min);
    CHECK(b.pods.has_synced());
    CHECK(told.empty());
    CHECK(changes >= 3);
    CHECK(bad == 1);
    b.pods.stop();
    b.settle();
    static_cast<void>(b.pods.observe(errors_of("after the end")));
}

TEST_CASE("observers that are gone leave nothing behind", "[informer]") {
    bench b;
    const auto w = b.sync_with({pod("a", 1)}, 1);
    const auto rounds = [&b](int n) {
        for (int i = 0; i < n; ++i) static_cast<void>(b.pods.observe(informer_observer()));
        return mallinfo2().uordblks; // 0 under the sanitizers
    };
    const std::size_t before = rounds(100);
    CHECK(rounds(10'000) < before + 50'000);
}
