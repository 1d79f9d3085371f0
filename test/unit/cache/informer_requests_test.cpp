// What an informer asks its source for, and what it logs when an answer is cut.
#include "informer_fixture.hpp"

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;

TEST_CASE("an informer's requests carry what its options say", "[informer]") {
    bench b(
        informer_options().watch_list(false).any_version().page_size(7).labels("app=web").fields("spec.nodeName=n1"));
    b.source->on_list(list_of({pod("a", 1)}, "5"));
    b.source->on_watch();
    b.start();
    REQUIRE(b.source->calls().size() == 2);
    const auto& list = b.source->calls()[0].list;
    CHECK(list.resource_version_ == "0");
    CHECK(list.limit_ == 7);
    CHECK(list.label_selector_ == "app=web");
    CHECK(list.field_selector_ == "spec.nodeName=n1");
    const auto& watch = b.source->calls()[1].query;
    CHECK(watch.resource_version_ == "5");
    CHECK(watch.label_selector_ == "app=web");
    CHECK(watch.field_selector_ == "spec.nodeName=n1");
}

TEST_CASE("a stream that is cut now and then and resumed at once is logged once, not each time", "[informer]") {
    bench b;
    auto w = b.sync_with({pod("a", 1)}, 5);
    const auto told = [&b] {
        std::size_t n = 0;
        for (const auto& line : b.log.lines())
            n += line.level != log_level::debug && line.text.find("stream: ") != std::string::npos;
        return n;
    };
    const auto cut = [&](errc why, int version) {
        b.pass(1min);
        w->modified(pod("a", version));
        b.settle();
        const auto next = b.source->on_watch();
        next->open();
        w->fail(failure(why, "watch pods"));
        b.settle();
        w = next;
        CHECK(b.pods.status().attempts == 0);
    };
    for (int i = 0; i < 5; ++i) cut(errc::connection_lost, 10 + i);
    CHECK(told() == 1);
    CHECK(b.pods.status().last_error == errc::connection_lost);
    cut(errc::body_idle_timeout, 20); // a different error
    CHECK(told() == 2);
    CHECK(b.note("a").empty());
    CHECK(b.source->watches() == 7);
}

TEST_CASE("if a watch-list and the list in its place are refused in turn, each is logged once, not each time",
          "[informer]") {
    const bool one_code = GENERATE(true, false);
    CAPTURE(one_code);
    bench b;
    for (int i = 0; i < 12; ++i) {
        b.source->on_watch_fail(one_code ? status_failure(403, "Forbidden", "cannot watch pods")
                                         : status_failure(422, "Invalid", "sendInitialEvents"));
        b.source->on_list(list_script().fail(status_failure(403, "Forbidden", "cannot list pods")));
    }
    b.start();
    for (int i = 0; i < 8; ++i) b.pass(2min);
    CHECK(b.source->lists() > 6);
    CHECK(b.source->watches() > 6);
    CHECK(b.log.count(log_level::warning) == 2);
}

TEST_CASE("a cut after two minutes of health is logged anew, and the error of the previous cut is forgotten",
          "[informer]") {
    bench b;
    auto w = b.sync_with({pod("a", 1)}, 5);
    for (int i = 0; i < 3; ++i) {
        const auto next = b.source->on_watch();
        next->open();
        w->fail(failure(errc::connection_lost, "watch pods"));
        b.settle();
        w = next;
        CHECK(b.pods.status().last_error == errc::connection_lost);
        CHECK(b.pods.status().last_error_at == b.clock->wall());
        for (int minutes = 0; minutes < 3; ++minutes) {
            b.pass(1min);
            w->bookmark(std::to_string(10 + 3 * i + minutes));
            b.settle();
        }
        CHECK_FALSE(b.pods.status().last_error);
        CHECK(b.pods.status().last_error_phase.empty());
        CHECK(b.pods.status().last_error_at == std::chrono::system_clock::time_point());
        const auto lines = b.log.lines();
        CHECK(std::count_if(lines.begin(), lines.end(), [](const auto& line) {
                  return line.level == log_level::info && line.text.find("stream: ") != std::string::npos;
              }) == i + 1);
    }
}

TEST_CASE(
    "an error of the same kind is logged again if its words differ, at most once a minute, but not for other numbers",
    "[informer]") {
    bench b;
    const auto w = b.sync_with({pod("a", 1)}, 5);
    const auto told = [&b](std::string_view words) {
        const auto lines = b.log.lines();
        return std::count_if(lines.begin(), lines.end(), [words](const auto& line) {
            return line.level == log_level::warning && line.text.find(words) != std::string::npos;
        });
    };
    int failures = 0;
    const auto fail_for = [&](clock::duration d, const std::string& words) {
        auto asked = b.source->watches();
        const auto next = [&] {
            b.source->on_watch_fail(status_failure(502, "BadGateway", words + std::to_string(++failures)));
        };
        next();
        for (clock::duration t{}; t < d; t += 1s) {
            b.pass(1s);
            if (std::exchange(asked, b.source->watches()) != b.source->watches()) next();
        }
    };
    w->fail(failure(errc::connection_lost, "watch pods"));
    fail_for(5min, "webhook is down, case ");
    CHECK(failures > 5);
    CHECK(told("webhook") == 1);
    fail_for(5min, "the database is full, case ");
    CHECK(told("the database is full") == 1);
    CHECK(told("webhook") == 1);
    CHECK(b.pods.status().last_contact == b.pods.status().last_error_at); // the server is there
    CHECK_THAT(b.pods.status().last_error.what(), Catch::Matchers::ContainsSubstring("the database is full"));
}

TEST_CASE("a watch whose bookmarks have stopped is given up, even if it is the first one with bookmarks",
          "[informer]") {
    bench b;
    const auto w = b.sync_with({pod("a", 1)}, 1);
    b.pass(1s);
    for (int minute = 0; minute < 3; ++minute) {
        b.pass(1min);
        w->bookmark("2");
        b.settle();
    }
    const auto again = b.source->on_watch();
    b.pass(149s);
    CHECK(b.source->watches() == 1);
    b.pass(1s);
    REQUIRE(b.source->watches() == 2);
    CHECK(w->finished());
    CHECK(b.source->calls().back().query.resource_version_ == "2");
    again->modified(pod("a", 3, "here"));
    b.settle();
    CHECK(b.note("a") == "here");
}
