// Stopping and destroying an informer at every point of its life.
#include "informer_fixture.hpp"

#include <informer/task_group.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/strand.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <memory>
#include <optional>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;

namespace {

failure gone() {
    api_status s;
    s.code = 410;
    s.reason = "Expired";
    return failure(std::move(s), "test");
}

/// A life with everything in it: a watch-list that breaks, a back-off, paging, following, a slow subscriber, a handler,
/// a resync, a relist; and coroutines that wait for the informer.
struct life {
    life()
        : clock(std::make_shared<manual_clock>()),
          source(std::make_shared<scripted_list_watch>(context->get_executor())), rt(make_runtime()) {
        informer.emplace(rt, source, informer_options().queue_capacity(2));
        source->on_watch()->added(pod("a", 1)).fail(failure(errc::connection_lost, "test"));
        source->on_watch()->open();
        source->on_list(list_script().item(pod("a", 1)).version("5").continue_token("t"));
        source->on_list(list_script().item(pod("b", 2)).version("5"));
        auto w = source->on_watch();
        for (int i = 0; i < 12; ++i) w->modified(pod("a", 10 + i, std::to_string(i)));
        w->bookmark("40").fail(gone());
        source->on_list(list_script().item(pod("c", 50)).version("60"));
        source->on_watch()->added(pod("d", 61));
        slow.emplace(informer->subscribe(subscription_options().capacity(2).policy(overflow_policy::back_pressure)));
        resyncing.emplace(informer->subscribe(subscription_options().resync(1s)));
        const auto token = std::make_shared<int>();
        owned = token;
        informer->add_event_handler([mine = *informer, token](const object&, bool) {}, nullptr, nullptr);
        informer->on_state_change([mine = *informer, token](const informer_status&) {});
        asio::co_spawn(*context, informer->run(),
                       asio::bind_cancellation_slot(stop.slot(), [this](std::exception_ptr) { ended = true; }));
        asio::co_spawn(*context, informer->synced(1h), [](std::exception_ptr) {});
        asio::co_spawn(*context, informer->wait_until(resource_version("60"), 1h), [](std::exception_ptr) {});
    }

    runtime make_runtime() {
        runtime r(context->get_executor());
        r.with_clock(clock).with_seed(7);
        return r;
    }

    /// Runs one handler; if none is ready, the subscriber reads, or else time passes. False at the end of the story.
    bool step() {
        context->restart();
        if (context->poll_one() != 0) return true;
        if (slow->try_next()) return true;
        if (++hours > 40) return false;
        resyncing->try_next();
        clock->advance(1s);
        return true;
    }

    std::unique_ptr<asio::io_context> context = std::make_unique<asio::io_context>(1);
    std::shared_ptr<manual_clock> clock;
    std::shared_ptr<scripted_list_watch> source;
    runtime rt;
    std::optional<shared_informer> informer;
    std::optional<subscription> slow, resyncing;
    std::weak_ptr<int> owned; // by handlers and observers that own the informer, too
    asio::cancellation_signal stop;
    bool ended = false;
    int hours = 0;
};

int length_of_life() {
    life l;
    int k = 0;
    while (l.step()) ++k;
    CHECK(l.informer->get("default/d"));
    CHECK_FALSE(l.informer->get("default/a"));
    l.informer->stop();
    l.context->restart();
    l.context->run_for(5s);
    CHECK(l.context->stopped());
    CHECK(l.ended);
    return k;
}

} // namespace

TEST_CASE("handlers and observers are released when the informer has stopped, even those that own it",
          "[informer][stop]") {
    for (const bool runs : {true, false}) {
        bench b;
        b.source->on_watch()->added(pod("a", 1)).bookmark("2", true);
        auto kept = std::make_shared<int>();
        const std::weak_ptr<int> there = kept;
        // As in a component that keeps the handle of its handler, while the handler owns the component.
        const auto handle = b.pods.add_event_handler([mine = b.pods, kept](const object&, bool) {}, nullptr,
                                                     [kept](const object&, bool) {});
        b.pods.on_state_change([mine = b.pods, kept](const informer_status&) {});
        b.pods.on_error([mine = b.pods, kept](std::string_view, const failure&) {});
        b.pods.on_bad_object([mine = b.pods, kept](const bad_object&) {});
        const auto observing =
            b.pods.observe(informer_observer().on_state_change([mine = b.pods, kept](const informer_status&) {}));
        kept.reset();
        if (runs) {
            b.start();
            CHECK(b.pods.has_synced());
            CHECK_FALSE(there.expired());
        }
        b.pods.stop();
        b.settle();
        CAPTURE(runs);
        CHECK(there.expired());
    }
}

TEST_CASE("handlers and observers added to an informer that has stopped are not kept", "[informer][stop]") {
    for (const bool runs : {true, false}) {
        bench b;
        b.source->on_watch()->bookmark("2", true);
        if (runs) b.start();
        b.pods.stop();
        b.settle();
        auto kept = std::make_shared<int>();
        const std::weak_ptr<int> there = kept;
        const auto handle = b.pods.add_event_handler([mine = b.pods, kept](const object&, bool) {}, nullptr, nullptr);
        b.pods.on_state_change([mine = b.pods, kept](const informer_status&) {});
        const auto observing =
            b.pods.observe(informer_observer().on_state_change([mine = b.pods, kept](const informer_status&) {}));
        kept.reset();
        CAPTURE(runs);
        CHECK(there.expired());
    }
}

TEST_CASE("a removed handler is released, and may add another one as it is destroyed", "[informer]") {
    bench b;
    std::shared_ptr<const std::string> seen;
    auto kept = std::shared_ptr<int>(new int(0), [&b, &seen](const int* i) { // NOLINT(modernize-make-shared)
        delete i;
        if (!b.pods.status().synced) return;
        b.pods.add_event_handler(
            [&seen](const object& o, bool) { seen = std::make_shared<const std::string>(o.name().str()); }, nullptr,
            nullptr);
    });
    const std::weak_ptr<int> there = kept;
    auto one = b.pods.add_event_handler([kept](const object&, bool) {}, nullptr, nullptr);
    auto other = b.pods.add_event_handler([](const object&, bool) {}, nullptr, nullptr);
    kept.reset();
    const auto w = b.sync_with({pod("a", 1)}, 2);
    one.remove();
    CHECK_FALSE(there.expired()); // it may be running at this moment
    w->added(pod("b", 3));
    b.settle();
    CHECK(there.expired());
    REQUIRE(seen);
    CHECK(other.has_synced());
}

TEST_CASE("an observer may drop the last handle of an informer that is stopped before it ran", "[informer][stop]") {
    asio::io_context context(1);
    auto source = std::make_shared<scripted_list_watch>(context.get_executor());
    std::optional<shared_informer> pods(std::in_place, runtime(context.get_executor()), source);
    bool told = false;
    pods->on_state_change([&pods, &told](const informer_status& s) {
        told = s.phase == informer_phase::stopped;
        pods.reset();
    });
    auto events = pods->subscribe();
    pods->stop();
    CHECK(told);
    CHECK_FALSE(pods);
    bool ended = false;
    asio::co_spawn(context, events.next(),
                   [&ended](std::exception_ptr e, std::optional<event> one) { ended = !e && !one; });
    context.run();
    CHECK(ended);
}

TEST_CASE("stopped amid the events of a relist: no sync mark says that they are complete", "[informer][stop]") {
    for (const auto policy : {overflow_policy::back_pressure, overflow_policy::coalesce}) {
        bench b(informer_options().watch_list(false));
        auto events = b.pods.subscribe(subscription_options().capacity(1).policy(policy).sync_marks());
        // A subscriber without room holds up the others, too.
        auto slow = b.pods.subscribe(subscription_options().capacity(1).policy(overflow_policy::back_pressure));
        b.source->on_list(list_of({pod("a", 1)}, "5"));
        const auto w = b.source->on_watch();
        b.start();
        CHECK(read_all(events) == words{"+a:1!", "*5"});
        CHECK(read_all(slow) == words{"+a:1!"});
        std::vector<std::string> ten;
        for (int i = 0; i < 10; ++i) ten.push_back(pod("p" + std::to_string(i), 10 + i));
        b.source->on_list(list_of(std::move(ten), "30"));
        w->fail(status_failure(410, "Expired"));
        b.settle();
        b.pass(2s);
        b.pods.stop();
        b.settle();
        CHECK(b.finished);
        const words read = read_all(events);
        CAPTURE(policy == overflow_policy::coalesce, read);
        CHECK(read.size() < 11);
        CHECK(std::find(read.begin(), read.end(), "*30") == read.end());
    }
}

TEST_CASE("an informer whose run() was dropped before it began has stopped", "[informer][stop]") {
    bench b;
    auto kept = std::make_shared<int>();
    const std::weak_ptr<int> there = kept;
    b.pods.add_event_handler([mine = b.pods, kept = std::move(kept)](const object&, bool) {}, nullptr, nullptr);
    auto events = b.pods.subscribe();
    std::string told;
    asio::co_spawn(b.context, events.next(),
                   [&told](std::exception_ptr e, std::optional<event> one) { told += e || one ? "?" : "end "; });
    asio::co_spawn(b.context, b.pods.synced(1h), [&told](std::exception_ptr e) { told += e ? "not synced " : "?"; });
    b.settle();
    CHECK(told.empty());
    {
        task_group group(b.context.get_executor());
        group.spawn(b.pods.run());
    } // the group stops it
    b.settle();
    CHECK(told == "end not synced ");
    CHECK(b.pods.status().phase == informer_phase::stopped);
    CHECK(there.expired());
    CHECK_FALSE(b.pods.subscribe().try_next());
}

TEST_CASE("an informer that is destroyed without having stopped ends its subscriptions", "[informer][stop]") {
    for (const bool ran : {false, true}) {
        asio::io_context elsewhere(1);
        std::optional<asio::io_context> context(1);
        auto source = std::make_shared<scripted_list_watch>(context->get_executor());
        std::optional<shared_informer> pods(std::in_place, runtime(context->get_executor()), source);
        auto events = pods->subscribe();
        bool ended = false;
        asio::co_spawn(elsewhere, events.next(),
                       [&ended](std::exception_ptr e, std::optional<event> one) { ended = !e && !one; });
        elsewhere.poll();
        if (ran) asio::co_spawn(*context, pods->run(), [](std::exception_ptr) {});
        context->poll();
        source.reset();
        if (!ran) pods.reset(); // the informer still has its source, which lives in the context
        context.reset();
        pods.reset();
        elsewhere.restart();
        elsewhere.poll();
        CAPTURE(ran);
        CHECK(ended);
    }
}

TEST_CASE("a stopped informer on a strand may outlive its context", "[informer][stop]") {
    std::optional<asio::io_context> context(1);
    auto source = std::make_shared<scripted_list_watch>(context->get_executor());
    source->on_watch()->added(pod("a", 1)).bookmark("2", true);
    shared_informer pods(runtime(asio::make_strand(*context)), source);
    asio::co_spawn(*context, pods.run(), [](std::exception_ptr) {});
    context->poll();
    CHECK(pods.get("default/a"));
    pods.stop();
    context->restart();
    context->run();
    source.reset();
    context.reset();
    CHECK(pods.get("default/a"));
    CHECK_FALSE(pods.subscribe().try_next());
    pods.stop();
}

TEST_CASE("an informer whose context is destroyed has stopped, whoever holds it", "[informer][stop]") {
    const bool on_strand = GENERATE(false, true);
    asio::io_context elsewhere(1);
    std::optional<asio::io_context> context(1);
    const auto executor = [&]() -> asio::any_io_executor {
        if (on_strand) return asio::make_strand(*context);
        return context->get_executor();
    };
    auto source = std::make_shared<scripted_list_watch>(context->get_executor());
    source->on_watch()->added(pod("a", 1)).bookmark("2", true);
    shared_informer pods(runtime(executor()), source);
    auto events = pods.subscribe();
    auto events_there = pods.subscribe();
    asio::co_spawn(*context, events_there.next_batch(1), [](std::exception_ptr, std::vector<event>) {});
    asio::co_spawn(*context, pods.wait_until(resource_version("9"), 1h), [](std::exception_ptr) {});
    asio::co_spawn(*context, pods.run(), [](std::exception_ptr) {});
    context->poll();
    CHECK(read_all(events) == words{"+a:1!"});
    bool ended = false;
    asio::co_spawn(elsewhere, events.next(),
                   [&ended](std::exception_ptr e, std::optional<event> one) { ended = !e && !one; });
    asio::co_spawn(*context, events_there.next(), [](std::exception_ptr, std::optional<event>) {});
    elsewhere.poll();
    context->poll();
    source.reset();
    context.reset();
    elsewhere.poll();
    CHECK(ended);
    CHECK(pods.status().phase == informer_phase::stopped);
    CHECK(pods.get("default/a"));
    CHECK_FALSE(pods.subscribe().try_next());
}

TEST_CASE("G5 stopped after k handlers, for every k, run() ends and leaves no work", "[informer][stop]") {
    const int all = length_of_life();
    REQUIRE(all > 100);
    for (int k = 0; k < all; ++k) {
        life l;
        for (int i = 0; i < k; ++i) l.step();
        if (k % 2 == 0) {
            l.informer->stop();
        } else {
            l.stop.emit(asio::cancellation_type::terminal);
        }
        l.context->restart();
        // The clock stands still and nobody reads any more.
        l.context->run_for(5s);
        if (!l.context->stopped() || !l.ended) {
            FAIL("stopped after " << k << " of " << all
                                  << " handlers: " << (l.ended ? "work is left" : "run() goes on"));
        }
        if (l.source->under_way() != 0) FAIL("after " << k << " handlers a request is left");
    }
}

TEST_CASE("G5 the io_context destroyed after k handlers, for every k, is safe", "[informer][stop]") {
    const int all = length_of_life();
    for (int k = 0; k < all; ++k) {
        life l;
        for (int i = 0; i < k; ++i) l.step();
        if (k % 2 == 0) l.informer.reset(); // with the handle gone before, or after
        if (k % 3 == 0) l.slow.reset();
        l.source.reset();
        l.context.reset();
        l.informer.reset();
        if (!l.owned.expired()) FAIL("after " << k << " handlers its observers own the informer for ever");
    }
}
