// What handlers, sources, sinks and clocks throw at an informer.
#include "informer_fixture.hpp"
#include "support/throwing_sink.hpp"

#include <boost/asio/detached.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <memory>
#include <new>
#include <optional>
#include <stdexcept>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("X10 a handler that throws is contained, counted, logged once, and syncs", "[informer]") {
    bench b;
    int calls = 0;
    const auto h = b.pods.add_event_handler(
        [&calls](const object&, bool) {
            ++calls;
            throw std::runtime_error("no luck");
        },
        nullptr, nullptr);
    CHECK_FALSE(h.has_synced());
    const auto w = b.sync_with({pod("a", 1), pod("b", 2), pod("c", 3)}, 5);
    CHECK(calls == 3);
    CHECK(h.has_synced());
    CHECK(h.exceptions() == 3);
    CHECK(b.log.count("no luck") == 1);
    w->added(pod("d", 6));
    b.settle();
    CHECK(h.exceptions() == 4);
    CHECK(b.log.count("no luck") == 1);
}

TEST_CASE("the last logged exception of a handler says that further ones are only counted", "[informer]") {
    bench b;
    int calls = 0;
    const auto h = b.pods.add_event_handler(
        [&calls](const object&, bool) { throw std::runtime_error("number " + std::to_string(++calls)); }, nullptr,
        nullptr);
    std::vector<std::string> all;
    for (int i = 0; i < 20; ++i) all.push_back(pod("p" + std::to_string(i), i + 1));
    b.sync_with(std::move(all), 50);
    CHECK(h.exceptions() == 20);
    CHECK(b.log.count("a handler threw") == 16);
    CHECK(b.log.count("only counted from now on") == 1);
    CHECK(b.log.count("number 16; other exceptions") == 1);
}

TEST_CASE("an exception of the source is a failed attempt", "[informer]") {
    struct throwing final : list_watch {
        api_resource r = api_resource("", "v1", "pods", "Pod");
        int calls = 0;
        bool odd = false, ours = false;
        const api_resource& resource() const override { return r; }
        std::string describe() const override { return "pods"; }
        asio::awaitable<list_result> list(list_options, object_sink&, failure&) override {
            ++calls;
            if (ours) throw error(errc::too_large, "the list");
            if (odd) throw 1;
            throw std::runtime_error("list broke");
            co_return list_result();
        }
        asio::awaitable<void> watch(watch_options, object_sink&, failure&) override {
            ++calls;
            throw std::runtime_error("watch broke");
            co_return;
        }
    };
    bench b;
    const auto source = std::make_shared<throwing>();
    shared_informer pods(b.rt, source);
    asio::co_spawn(b.context, pods.run(), [](std::exception_ptr) {});
    b.settle();
    CHECK(pods.status().phase == informer_phase::backing_off);
    CHECK_THAT(pods.status().last_error.what(), ContainsSubstring("list broke"));
    b.pass(10s);
    CHECK(source->calls > 2);
    source->odd = true; // not a std::exception
    for (int before = source->calls, i = 0; i < 3; ++i, before = source->calls) {
        b.pass(1min);
        CHECK(source->calls > before);
    }
    CHECK_THAT(pods.status().last_error.what(), ContainsSubstring("unknown type"));
    source->ours = true; // an error with a code is reported as what it is
    b.pass(1min);
    CHECK(pods.status().last_error == errc::too_large);
    CHECK_FALSE(pods.has_synced());
    pods.stop();
}

TEST_CASE("a list with too many pages in a row without anything new is a failed attempt", "[informer]") {
    bench b(informer_options().watch_list(false));
    for (int i = 0; i < 60; ++i)
        b.source->on_list(list_of({pod("p" + std::to_string(i), 1)}, "5", "new" + std::to_string(i)));
    for (int i = 0; i < 200; ++i) b.source->on_list(list_of({pod("a", 1)}, "5", "more" + std::to_string(i)));
    b.start();
    CHECK(b.pods.status().phase == informer_phase::backing_off);
    CHECK(b.pods.status().last_error == errc::bad_response);
    CHECK_THAT(b.pods.status().last_error.what(), ContainsSubstring("nothing new"));
    CHECK(b.source->lists() == 60 + 1 + 100);
}

TEST_CASE("pages without anything new are counted for each list by itself", "[informer]") {
    bench b(informer_options().watch_list(false).page_size(1));
    auto w = b.source->on_watch();
    const auto list_pages = [&b] { // a server that filters may send many that are empty
        for (int i = 0; i < 60; ++i) b.source->on_list(list_of({}, "5", "page" + std::to_string(i)));
        b.source->on_list(list_of({pod("a", 1)}, "5"));
    };
    list_pages();
    b.start();
    REQUIRE(b.pods.has_synced());
    for (int i = 0; i < 3; ++i) {
        list_pages();
        const auto next = b.source->on_watch();
        w->fail(status_failure(410, "Expired"));
        w = next;
        b.settle();
        b.pass(1min);
        CHECK(w->taken());
        CHECK(b.pods.status().phase == informer_phase::watching);
    }
    CHECK_FALSE(b.log.contains("nothing new"));
}

TEST_CASE("a request that the source cancels by itself is a failed attempt", "[informer]") {
    const failure cut(errc::cancelled, "a time-out of the source's own");
    SECTION("a list") {
        bench b(informer_options().watch_list(false));
        for (int i = 0; i < 5; ++i) b.source->on_list(list_script().fail(cut));
        b.start();
        CHECK(b.source->lists() == 1); // and not again at once
        CHECK(b.pods.status().phase == informer_phase::backing_off);
        b.pass(1min);
        CHECK(b.source->lists() == 2);
    }
    SECTION("a watch") {
        bench b;
        const auto w = b.sync_with({}, 5);
        for (int i = 0; i < 5; ++i) b.source->on_watch_fail(cut);
        w->end();
        b.settle();
        CHECK(b.source->watches() == 2);
        CHECK(b.pods.status().phase == informer_phase::backing_off);
    }
}

TEST_CASE("an exception that leaves one of an informer's coroutines ends the informer", "[informer]") {
    struct broken_clock final : informer::clock {
        explicit broken_clock(std::shared_ptr<manual_clock> c) : inner(std::move(c)) {}
        time_point now() const override { return inner->now(); }
        std::chrono::system_clock::time_point wall() const override { return inner->wall(); }
        asio::awaitable<bool> sleep_until(time_point when) override {
            if (broken) throw std::runtime_error("no more timers");
            return inner->sleep_until(when);
        }
        std::shared_ptr<manual_clock> inner;
        bool broken = false;
    };
    bench b;
    const auto clock = std::make_shared<broken_clock>(b.clock);
    const auto source = std::make_shared<scripted_list_watch>(b.context.get_executor());
    runtime rt = b.rt;
    rt.with_clock(clock);
    shared_informer pods(rt, source, informer_options().watch_list(false));
    auto events = pods.subscribe();
    std::string end;
    asio::co_spawn(b.context, pods.run(), [&end](std::exception_ptr e) {
        try {
            if (e) std::rethrow_exception(e);
            end = "by itself";
        } catch (const std::exception& x) {
            end = x.what();
        }
    });
    b.settle();
    clock->broken = true;
    source->on_list(list_script().fail(status_failure(503, "ServiceUnavailable"))); // to be tried again later
    b.settle();
    CHECK(end == "no more timers");
    CHECK(pods.status().phase == informer_phase::stopped);
    bool over = false;
    asio::co_spawn(b.context, events.next(), [&over](std::exception_ptr, std::optional<event> e) { over = !e; });
    b.settle();
    CHECK(over);
    pods.stop();
    b.settle();
}

TEST_CASE("an event that did not reach the cache because of an exception is fetched again", "[informer]") {
    struct no_sink final : metrics_sink {
        void add(std::string_view, double, labels) override {}
        void set(std::string_view, double, labels) override {}
        void observe(std::string_view, double, labels) override {}
    };
    struct failing_clock final : informer::clock {
        explicit failing_clock(std::shared_ptr<manual_clock> c) : inner(std::move(c)) {}
        time_point now() const override {
            if (calls != 0 && --calls == 0) throw std::bad_alloc();
            return inner->now();
        }
        std::chrono::system_clock::time_point wall() const override { return inner->wall(); }
        asio::awaitable<bool> sleep_until(time_point when) override { return inner->sleep_until(when); }
        std::shared_ptr<manual_clock> inner;
        mutable int calls = 0; ///< the last of this many calls throws; 0: none
    };
    const auto note_of = [](const shared_informer& pods) {
        const object o = pods.get("default/a");
        return o.at_pointer("/spec/note").string_or_empty().str();
    };
    int fetched = 0;
    for (int nth = 1; nth <= 12; ++nth) {
        bench b;
        const auto clock = std::make_shared<failing_clock>(b.clock);
        const auto source = std::make_shared<scripted_list_watch>(b.context.get_executor());
        runtime rt = b.rt;
        rt.with_clock(clock).with_metrics(std::make_shared<no_sink>());
        shared_informer pods(rt, source);
        const auto w = source->on_watch();
        w->added(pod("a", 1, "old")).bookmark("5", true);
        bool ended = false;
        asio::co_spawn(b.context, pods.run(), [&ended](std::exception_ptr) { ended = true; });
        b.settle();
        REQUIRE(pods.has_synced());
        clock->calls = nth;
        w->modified(pod("a", 6, "new"));
        b.settle();
        const bool arrived = note_of(pods) == "new";
        if (!arrived && !ended) { // a watch from version 6 does not send it again
            b.pass(2s);
            REQUIRE(source->watches() == 2);
            const auto again = source->on_watch();
            if (source->calls().back().query.send_initial_events_) again->added(pod("a", 6, "new"));
            again->bookmark("6", true);
            b.settle();
            ++fetched;
        }
        CAPTURE(nth);
        CHECK((ended || note_of(pods) == "new"));
        clock->calls = 0;
        pods.stop();
        b.settle();
    }
    CHECK(fetched > 0);
}

TEST_CASE("a metrics sink that throws does not stop an informer", "[informer]") {
    bench b;
    runtime rt = b.rt;
    rt.with_metrics(std::make_shared<informer::testing::throwing_sink>());
    const auto source = std::make_shared<scripted_list_watch>(b.context.get_executor());
    shared_informer pods(rt, source);
    const auto w = source->on_watch();
    w->added(pod("a", 1)).bookmark("1", true);
    boost::asio::co_spawn(b.context, pods.run(), [](std::exception_ptr e) { CHECK_FALSE(e); });
    b.settle();
    CHECK(pods.has_synced());
    w->modified(pod("a", 2));
    b.settle();
    CHECK(pods.get("default/a").resource_version().str() == "2");
    pods.stop();
    b.settle();
}

TEST_CASE("changes of an object whose version is above all that the server has reported are applied all the same",
          "[informer]") {
    bench b;
    const auto w = b.sync_with({pod("a", 99'999'999), pod("b", 99'999'999), pod("c", 7)}, 1000);
    w->modified(pod("a", 1001, "new")).deleted(pod("b", 1002)).modified(pod("c", 6, "a repetition"));
    b.settle();
    CHECK(b.note("a") == "new");
    CHECK(b.note("b") == "(absent)");
    CHECK(b.note("c").empty());
    w->modified(pod("a", 1000, "a repetition")).deleted(pod("a", 1004));
    b.settle();
    CHECK(b.note("a") == "(absent)");
}

TEST_CASE("what another informer has learnt about watch-list is kept while this one knows nothing", "[informer]") {
    bench b;
    auto w = b.source->on_watch();
    b.start();
    b.source->learnt(watch_list_support::no); // from an informer of another resource of the group
    w->fail(failure(errc::connection_refused, "test"));
    b.settle();
    CHECK(b.pods.status().attempts == 1);
    CHECK(b.source->watch_list() == watch_list_support::no);
}

TEST_CASE("the source is told that a server has no watch-list when that is found, not each time it is assumed",
          "[informer]") {
    bench b;
    b.source->learnt(watch_list_support::no);
    b.source->on_list(list_of({pod("a", 1)}, "5"));
    const auto w = b.source->on_watch();
    w->open();
    b.start();
    w->modified(pod("a", 6));
    b.settle();
    REQUIRE(b.pods.has_synced());
    b.source->learnt(watch_list_support::unknown); // the source no longer believes it
    b.source->on_watch()->open();
    w->fail(failure(errc::connection_lost, "test"));
    b.settle();
    CHECK(b.source->watches() == 2);
    CHECK(b.source->watch_list() == watch_list_support::unknown);
}

namespace {

/// Returns from a sleep a little too early, like a timer that counts differently from its clock.
class hasty_clock final : public informer::clock {
public:
    explicit hasty_clock(std::shared_ptr<manual_clock> c) : of_(std::move(c)) {}
    time_point now() const override { return of_->now(); }
    std::chrono::system_clock::time_point wall() const override { return of_->wall(); }
    boost::asio::awaitable<bool> sleep_until(time_point when) override {
        return of_->sleep_until(when - now() > 2ms ? when - 1ms : when);
    }

private:
    std::shared_ptr<manual_clock> of_;
};

} // namespace

TEST_CASE("a clock that wakes too early does not end the waits that use it", "[informer]") {
    bench b;
    runtime rt(b.context.get_executor());
    rt.with_clock(std::make_shared<hasty_clock>(b.clock)).with_seed(1);
    const auto source = std::make_shared<scripted_list_watch>(b.context.get_executor());
    shared_informer pods(rt, source);
    source->on_watch_fail(failure(errc::connection_refused, "watch pods"));
    boost::asio::co_spawn(b.context, pods.run(), boost::asio::detached);
    b.settle();
    REQUIRE(pods.status().phase == informer_phase::backing_off);
    source->on_watch()->added(pod("a", 1)).bookmark("1", true);
    for (clock::duration passed{}; passed < 5s; passed += 1ms) b.pass(1ms);
    CHECK(pods.status().synced);
    CHECK(pods.status().phase == informer_phase::watching);
    pods.stop();
    b.settle();
}
