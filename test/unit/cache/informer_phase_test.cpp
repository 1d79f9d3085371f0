// What an informer reports as its phase, and when.
#include "informer_fixture.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <memory>
#include <utility>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;

TEST_CASE("watching is reported once the first state can be read, not as soon as it has arrived", "[informer]") {
    const bool by_watch_list = GENERATE(true, false), fails_before = GENERATE(true, false),
               cut_at_once = GENERATE(true, false);
    bench b(informer_options().watch_list(by_watch_list));
    words told;
    const auto mine = b.pods.observe(informer_observer().on_state_change([&](const informer_status& s) {
        std::string word(to_string(s.phase));
        if (s.synced) word += "+";
        if (s.phase == informer_phase::watching) CHECK(b.pods.lister().list().size() == 2000);
        if (told.empty() || told.back() != word) told.push_back(std::move(word));
    }));
    std::vector<std::string> all;
    for (int i = 0; i < 2000; ++i) all.push_back(pod("p" + std::to_string(i), 1));
    std::shared_ptr<watch_script> w;
    if (by_watch_list) {
        if (fails_before) b.source->on_watch_fail(status_failure(500, "InternalError"));
        if (fails_before) b.source->on_list(list_script().fail(status_failure(500, "InternalError")));
        w = b.source->on_watch();
        for (auto& one : all) w->added(std::move(one));
        w->bookmark("5", true);
    } else {
        if (fails_before) b.source->on_list(list_script().fail(status_failure(500, "InternalError")));
        b.source->on_list(list_of(std::move(all), "5"));
        w = b.source->on_watch();
    }
    if (cut_at_once) {
        w->fail(failure(errc::connection_lost, "test"));
        b.source->on_watch()->open();
    }
    b.start();
    for (int i = 0; i < 5; ++i) b.pass(2s);
    CAPTURE(by_watch_list, fails_before, cut_at_once, told);
    CHECK(b.pods.status().phase == informer_phase::watching);
    CHECK(std::find(told.begin(), told.end(), "watching") == told.end());
    CHECK(told.front() == "listing");
    CHECK(told.back() == "watching+");
    CHECK((std::find(told.begin(), told.end(), "backing off") != told.end()) == fails_before); // before the sync
    CHECK(b.pods.status().attempts == 0);
    if (fails_before && !cut_at_once) CHECK(b.log.contains("watching again after 1 failed attempt"));
    CHECK_FALSE(b.log.contains("1 failed attempts"));
}

TEST_CASE("an informer that is stopped while it fails does not say that it works again", "[informer]") {
    bench b;
    b.source->on_watch_fail(status_failure(404, "NotFound"));
    b.start();
    REQUIRE(b.pods.status().phase == informer_phase::parked);
    CHECK(b.pods.status().next_attempt > b.clock->wall());
    b.pods.stop();
    b.settle();
    CHECK(b.pods.status().phase == informer_phase::stopped);
    CHECK(b.log.count("again after") == 0);
    CHECK(b.pods.status().next_attempt == std::chrono::system_clock::time_point());
}

TEST_CASE("retry_now() ends the wait for the next attempt", "[informer]") {
    bench b;
    b.pods.retry_now(); // it does not wait for an attempt
    for (int i = 0; i < 4; ++i) b.source->on_watch_fail(failure(errc::connection_refused, "watch"));
    const auto w = b.source->on_watch();
    const auto waits_for = [&b] { return b.pods.status().next_attempt - b.clock->wall(); };
    // Also from the observer of the failure; and repeated calls in one turn make one attempt.
    bool at_once = false;
    const auto mine = b.pods.observe(informer_observer().on_error([&](std::string_view, const failure&) {
        if (std::exchange(at_once, false)) b.pods.retry_now();
    }));
    b.start();
    CHECK(b.pods.status().attempts == 1);
    CHECK(waits_for() >= 800ms);
    b.pods.retry_now();
    b.pods.retry_now();
    b.settle();
    CHECK(b.pods.status().attempts == 2);
    CHECK(waits_for() >= 1600ms);
    at_once = true;
    b.pods.retry_now();
    b.settle();
    CHECK(b.pods.status().attempts == 4);
    CHECK(waits_for() >= 6400ms); // as if each wait had been over
    b.pods.retry_now();
    w->bookmark("5", true);
    b.settle();
    CHECK(b.pods.has_synced());
    CHECK(b.pods.status().phase == informer_phase::watching);
    b.pods.retry_now();
    b.settle();
    CHECK(b.source->watches() == 5);
    b.pods.stop();
    b.settle();
    b.pods.retry_now();
}

TEST_CASE("an observer of a back-off is told until when it lasts, even if that is for ever", "[informer]") {
    const bool for_ever = GENERATE(false, true);
    informer_options options;
    if (for_ever)
        options.backoff(
            backoff_options().initial(std::chrono::nanoseconds::max()).cap(std::chrono::nanoseconds::max()));
    bench b(options);
    std::chrono::system_clock::time_point next;
    const auto mine = b.pods.observe(informer_observer().on_state_change([&](const informer_status& s) {
        if (s.phase == informer_phase::backing_off) next = s.next_attempt;
    }));
    b.source->on_watch_fail(failure(errc::connection_refused, "watch"));
    b.start();
    CHECK(next > b.clock->wall());
    CHECK((next > b.clock->wall() + std::chrono::hours(24 * 365)) == for_ever);
}
