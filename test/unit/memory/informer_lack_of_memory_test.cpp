// Informers and their subscriptions when the system refuses memory, at each place that asks for some: no reported event
// is lost, and every coroutine that waits learns of the end.
#include "cache/subscription_state.hpp"
#include "refusal.hpp"

#include <informer/cache/shared_informer.hpp>
#include <informer/detail/async.hpp>
#include <informer/http/url.hpp>
#include <informer/object/json.hpp>
#include <informer/testing/manual_clock.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <catch2/catch_test_macros.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace informer;
using informer::testing::for_every_request;
using informer::testing::lack;
using informer::testing::manual_clock;
using informer::testing::refusal;
using namespace std::chrono_literals;
namespace asio = boost::asio;

namespace {

object made(char name, int version) {
    return parse_object(std::string(R"({"metadata":{"namespace":"n","name":")") + name +
                        R"(","uid":"u","resourceVersion":")" + std::to_string(version) + "\"}}");
}

/// What a listener knows from all the events that it got. Asks for no memory.
struct view {
    std::array<bool, 26> there{};
    int hollow = 0, synced = 0, refusals = 0;
    bool ended = false;

    void note(const event& e) noexcept {
        if (e.kind == event_kind::synced) {
            ++synced;
        } else if (!e.current) {
            ++hollow;
        } else {
            const text name = e.current.name();
            there[static_cast<std::size_t>(name.view()[0] - 'a')] = e.kind != event_kind::deleted;
        }
    }
    std::string names() const {
        std::string s;
        for (std::size_t i = 0; i < there.size(); ++i)
            if (there[i]) s += static_cast<char>('a' + i);
        return s;
    }
};

constexpr int most_refusals = 30;

asio::awaitable<void> take_batches(subscription* from, view* to) {
    while (to->refusals < most_refusals) {
        std::vector<event> some;
        bool refused = false;
        try {
            some = co_await from->next_batch(8);
        } catch (const std::bad_alloc&) {
            refused = true;
        }
        if (refused) {
            ++to->refusals;
            continue;
        }
        if (some.empty()) break;
        for (const event& e : some) to->note(e);
    }
    to->ended = true;
}

asio::awaitable<void> take_one(subscription* from, view* to) {
    const std::optional<event> e = co_await from->next();
    if (e) to->note(*e);
    to->ended = true;
}

struct line {
    explicit line(subscription_options o = subscription_options())
        : state(std::make_shared<subscription::state>(std::move(o))), sub(state) {}
    /// Pushes one event for each letter: added, or deleted for a capital letter.
    void push_all(const std::string& names) {
        auto all = std::make_shared<std::vector<event>>();
        for (const char name : names) {
            const bool gone = name < 'a';
            const object o = made(gone ? static_cast<char>(name - 'A' + 'a') : name, 1);
            all->emplace_back(gone ? event_kind::deleted : event_kind::added, o, gone ? o : object(),
                              event_reason::watch);
        }
        kept.push_back(all);
        detail::wake_list woken;
        state->push_all(all, woken);
    }
    void push(char name, event_kind kind, int version) {
        const object o = made(name, version);
        state->push(
            event(kind, o, kind == event_kind::added ? object() : made(name, version - 1), event_reason::watch));
    }

    std::vector<subscription::state::shared_events> kept; ///< others hold them, too
    std::shared_ptr<subscription::state> state;
    subscription sub;
};

} // namespace

TEST_CASE("taking an event needs no memory, whether it is merged, a mark or shared", "[memory]") {
    line s(subscription_options().capacity(2).sync_marks());
    for (const char name : {'a', 'b', 'c', 'd'}) s.push(name, event_kind::added, 1);
    s.state->initial_complete(resource_version("1"));
    view v;
    for (int i = 0; i < 2; ++i)
        if (const auto e = s.sub.try_next()) v.note(*e);
    s.push('a', event_kind::updated, 2);
    s.push('b', event_kind::deleted, 2);
    s.push('c', event_kind::deleted, 2);
    s.state->relisted(resource_version("2"));
    bool told = false;
    asio::io_context io(1);
    asio::co_spawn(io, s.sub.synced(), [&told](std::exception_ptr) { told = true; });
    io.poll();
    {
        const lack l{refusal()};
        while (const auto e = s.sub.try_next()) v.note(*e);
    }
    CHECK(v.names() == "ad");
    CHECK(v.hollow == 0);
    CHECK(v.synced == 2);
    CHECK(s.sub.has_synced());
    s.state->end(); // what could not be woken for lack of memory is resumed with the next waiter that is woken
    io.restart();
    io.run();
    CHECK(told);
}

TEST_CASE("without memory a subscription loses no batch, whether handed to a waiting consumer or not", "[memory]") {
    using texts = std::vector<const char*>;
    for (const texts& more : {texts{"abA", "cdC"}, texts{"a", "bA", "cdC"}}) {
        CAPTURE(more);
        for_every_request([&more](const refusal& r) {
            asio::io_context io(1);
            line s;
            view v;
            s.push_all("x");
            asio::co_spawn(io, take_batches(&s.sub, &v), asio::detached);
            io.poll();                                      // the consumer waits
            for (const char* some : more) s.push_all(some); // the first is handed over, the consumer finds the others
            {
                const lack l(r);
                io.poll();
            }
            if (v.ended) {
                v.refusals = 0;
                v.ended = false;
                asio::co_spawn(io, take_batches(&s.sub, &v), asio::detached);
            }
            io.restart();
            io.poll();
            CHECK(v.names() == "bdx");
            CHECK(v.hollow == 0);
            s.state->end();
            io.restart();
            io.run();
            CHECK(v.ended);
        });
    }
}

TEST_CASE("an event handed to a cancelled listener goes back without memory, ahead of those that came later",
          "[memory]") {
    for (const bool others : {true, false}) {
        CAPTURE(others);
        asio::io_context io(1);
        line s;
        view v;
        asio::cancellation_signal cancel;
        std::exception_ptr failed;
        asio::co_spawn(
            io, take_one(&s.sub, &v),
            asio::bind_cancellation_slot(cancel.slot(), [&failed](std::exception_ptr e) { failed = std::move(e); }));
        io.poll();
        s.push_all("a");
        if (others) s.push('a', event_kind::deleted, 2);
        cancel.emit(asio::cancellation_type::terminal);
        io.restart();
        refusal r;
        r.handlers = false;
        {
            const lack l(r);
            io.poll();
        }
        CHECK(failed);
        CHECK_FALSE(v.ended);
        CHECK(s.sub.figures().pending == (others ? 2U : 1U));
        if (others) { // try_next() is called once without memory, then with it
            const lack l(r);
            try {
                s.sub.try_next();
            } catch (const std::bad_alloc&) { // NOLINT(bugprone-empty-catch) whether it throws, nothing is lost
            }
        }
        const auto first = s.sub.try_next();
        REQUIRE(first);
        CHECK(first->kind == event_kind::added);
        if (others) {
            const auto second = s.sub.try_next();
            REQUIRE(second);
            CHECK(second->kind == event_kind::deleted);
        }
        CHECK_FALSE(s.sub.try_next());
    }
}

namespace {

/// A source of three objects, whose watch sends nothing.
class quiet_source final : public list_watch {
public:
    explicit quiet_source(asio::any_io_executor executor) : never_(executor) {}
    const api_resource& resource() const override { return resource_; }
    std::string describe() const override { return "pods"; }
    asio::awaitable<list_result> list(list_options, object_sink& sink, failure&) override { return give(&sink); }
    asio::awaitable<void> watch(watch_options, object_sink& sink, failure&) override { return wait(this, &sink); }

private:
    static asio::awaitable<list_result> give(object_sink* sink) {
        sink->opened();
        for (const char name : {'a', 'b', 'c'}) {
            failure f;
            object o = sink->pool().decode(
                std::string(R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"n","name":")") + name +
                    R"(","uid":"u","resourceVersion":"1"}})",
                object(), f);
            if (f) throw std::bad_alloc();
            sink->item(std::move(o));
        }
        list_result all;
        all.resource_version = resource_version("5");
        all.items = 3;
        co_return all;
    }
    static asio::awaitable<void> wait(quiet_source* s, object_sink* sink) {
        sink->opened();
        co_await s->never_.wait();
    }

    api_resource resource_{"", "v1", "pods", "Pod"};
    detail::async_event never_;
};

struct scene {
    scene() : clock(std::make_shared<manual_clock>()), rt(io.get_executor()) {
        rt.with_clock(clock);
        // If Asio's heap of timers cannot grow, or a context's first wait finds no memory, Asio does not recover. So
        // both are done here.
        std::vector<std::unique_ptr<asio::steady_timer>> timers;
        for (int i = 0; i < 16; ++i) {
            timers.push_back(std::make_unique<asio::steady_timer>(io, 1h));
            timers.back()->async_wait([](const boost::system::error_code&) {});
        }
        detail::async_event first(io.get_executor());
        asio::co_spawn(io, first.wait(), asio::detached);
        io.poll();
        first.notify();
        timers.clear();
        turn();
    }
    shared_informer make() {
        return shared_informer(rt, std::make_shared<quiet_source>(io.get_executor()),
                               informer_options().watch_list(false));
    }
    void turn() {
        io.restart();
        io.poll();
    }

    asio::io_context io{1};
    std::shared_ptr<manual_clock> clock;
    runtime rt;
};

} // namespace

TEST_CASE("an informer without memory to run says so, and can then be run again or stopped", "[memory]") {
    for (const bool again : {true, false}) {
        CAPTURE(again);
        for_every_request([again](const refusal& r) {
            scene s;
            shared_informer here = s.make();
            subscription sub = here.subscribe();
            view v;
            asio::co_spawn(s.io, take_batches(&sub, &v), asio::detached);
            s.turn();
            std::optional<asio::awaitable<void>> run;
            try {
                const lack l(r);
                run.emplace(here.run());
            } catch (const std::bad_alloc&) { // NOLINT(bugprone-empty-catch) it is said
            }
            if (!run && again) run.emplace(here.run());
            if (run) {
                asio::co_spawn(s.io, *std::move(run), [](std::exception_ptr) {});
                s.turn();
                CHECK(v.names() == "abc");
            }
            here.stop();
            s.turn();
            CHECK(v.ended);
            CHECK(s.io.stopped());
        });
    }
}

TEST_CASE("without memory for its first state an informer gets it later, or ends; every subscriber is told",
          "[memory]") {
    for_every_request([](const refusal& r) {
        scene s;
        shared_informer here = s.make();
        std::array<view, 3> views;
        std::vector<subscription> all;
        all.reserve(views.size());
        for (view& v : views) {
            all.push_back(here.subscribe());
            asio::co_spawn(s.io, take_batches(&all.back(), &v), asio::detached);
        }
        bool ended = false;
        asio::co_spawn(s.io, here.run(), [&ended](std::exception_ptr) { ended = true; });
        {
            const lack l(r);
            s.turn();
        }
        s.turn();
        for (int i = 0; i < 300 && !ended && !here.has_synced(); ++i) {
            s.clock->advance(1s);
            s.turn();
        }
        CHECK((ended || here.has_synced()));
        here.stop();
        s.turn();
        CHECK(ended);
        for (const view& v : views) CHECK(v.ended);
        CHECK(s.io.stopped());
    });
}

TEST_CASE("without memory, escaping a text for a URL throws", "[memory]") {
    const std::string text = "app=a text of some length, with blanks/and more";
    bool refused = false;
    try {
        const lack l{refusal()};
        static_cast<void>(http::percent_encode(text));
    } catch (const std::bad_alloc&) {
        refused = true;
    }
    CHECK(refused);
}
