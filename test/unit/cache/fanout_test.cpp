// Events that subscribers share, compared with the same events pushed one by one.
#include "cache/subscription_state.hpp"
#include "informer_fixture.hpp"
#include "pods.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

using namespace informer;
using informer::testing::make_pod;

namespace {

using state_ptr = std::shared_ptr<subscription::state>;
using events = std::vector<event>;

std::string line(const event& e) {
    std::string s(to_string(e.kind));
    if (e.kind == event_kind::synced) return s + " " + e.version.str();
    return s + " " + e.key().name + " " + (e.previous ? e.previous.resource_version().str() : "-") + ">" +
           e.version.str();
}

bool share(const state_ptr& s, const std::shared_ptr<events>& some) {
    informer::detail::wake_list to_wake;
    return s->push_all(some, to_wake);
}

asio::awaitable<void> takes_batch(state_ptr s, std::size_t max, events* into) {
    std::vector<event> some = co_await s->next_batch(max);
    *into = std::move(some);
}

/// The next events, taken as by a consumer that waits for them.
events batch_of(const state_ptr& s, std::size_t max) {
    events some;
    asio::io_context io;
    asio::co_spawn(io, takes_batch(s, max, &some), asio::detached);
    io.poll();
    return some;
}

/// Changes of a few keys, in an order that is possible in a cache.
class history {
public:
    explicit history(std::uint32_t seed) : random_(seed) {}
    event next() {
        const std::string name(1, static_cast<char>('a' + random_() % 6));
        object& now = now_[name];
        const object before = now;
        const bool goes = before && random_() % 4 == 0;
        const object o = make_pod("ns", name, std::to_string(++version_), random_() % 8 ? "u" : "v");
        event e(goes     ? event_kind::deleted
                : before ? event_kind::updated
                         : event_kind::added,
                o, before, event_reason::watch);
        e.version = o.resource_version();
        now = goes ? object() : o;
        return e;
    }

private:
    std::mt19937 random_;
    std::map<std::string, object> now_;
    int version_ = 0;
};

} // namespace

TEST_CASE("fan-out: shared events are delivered as if each had been pushed by itself", "[subscription]") {
    for (std::uint32_t seed = 1; seed <= 60; ++seed) {
        std::mt19937 random(seed);
        history from(seed);
        subscription_options options;
        options.capacity(1 + random() % 12).sync_marks(random() % 2 == 0);
        const auto shared = std::make_shared<subscription::state>(options);
        const auto single = std::make_shared<subscription::state>(options);
        for (const state_ptr& s : {shared, single}) s->start(cache_snapshot(), resource_version("1"));
        unsigned together = 0;
        for (int step = 0; step < 300; ++step) {
            switch (random() % 7) {
            case 0:
            case 1:
            case 2: {
                events some;
                for (std::size_t n = random() % 5 + 1; n > 0; --n) some.push_back(from.next());
                const auto all = std::make_shared<events>(some);
                if (share(shared, all))
                    ++together;
                else
                    for (const event& e : some) shared->push(e);
                for (const event& e : some) single->push(e);
                break;
            }
            case 3: {
                const event e = from.next();
                for (const state_ptr& s : {shared, single}) s->push(e);
                break;
            }
            case 4:
                for (const state_ptr& s : {shared, single}) s->relisted(resource_version(std::to_string(step)));
                break;
            case 5: {
                const bool batch = random() % 2 == 0;
                events some;
                if (!batch) {
                    const subscription::state::portion all = shared->poll_portion();
                    some.assign(all.begin(), all.end());
                } else if (shared->figures().pending > 0) {
                    const std::size_t max = random() % 4 + 1, there = shared->figures().pending;
                    some = batch_of(shared, max);
                    REQUIRE_FALSE(some.empty());
                    REQUIRE(some.size() <= max);
                    if (!options.sync_marks_) REQUIRE(some.size() == std::min(max, there)); // a mark ends a batch
                }
                for (const event& e : some) {
                    const auto b = single->try_next();
                    REQUIRE(b.has_value());
                    REQUIRE(line(e) == line(*b));
                }
                break;
            }
            default:
                for (std::size_t n = random() % 8; n > 0; --n) {
                    const auto a = shared->try_next(), b = single->try_next();
                    REQUIRE(a.has_value() == b.has_value());
                    if (!a) break;
                    REQUIRE(line(*a) == line(*b));
                }
            }
            const auto a = shared->figures(), b = single->figures();
            REQUIRE(a.pending == b.pending);
            REQUIRE(a.delivered == b.delivered);
            REQUIRE(a.coalesced == b.coalesced);
            REQUIRE(a.peak_pending == b.peak_pending);
        }
        REQUIRE(together > 0);
        for (;;) {
            const auto a = shared->try_next(), b = single->try_next();
            REQUIRE(a.has_value() == b.has_value());
            if (!a) break;
            REQUIRE(line(*a) == line(*b));
        }
    }
}

TEST_CASE("fan-out: shared events that do not fit are refused as a whole and change nothing", "[subscription]") {
    for (const auto policy : {overflow_policy::coalesce, overflow_policy::back_pressure}) {
        subscription_options options;
        options.capacity(3).policy(policy);
        const auto state = std::make_shared<subscription::state>(options);
        history from(1);
        const auto two = std::make_shared<events>(events{from.next(), from.next()});
        const auto four = std::make_shared<events>(events{from.next(), from.next(), from.next(), from.next()});
        CHECK(share(state, two));
        CHECK_FALSE(share(state, two));
        CHECK_FALSE(share(state, four));
        CHECK(state->figures().pending == 2);
        CHECK(state->try_next());
        CHECK(share(state, two));
        CHECK(state->figures().pending == 3);
        CHECK(state->over() == (policy == overflow_policy::back_pressure));
    }
}

TEST_CASE("fan-out: shared events are freed when the last subscriber has taken or dropped them", "[subscription]") {
    std::vector<state_ptr> all;
    for (int i = 0; i < 4; ++i) all.push_back(std::make_shared<subscription::state>(subscription_options()));
    history from(1);
    auto some = std::make_shared<events>(events{from.next(), from.next(), from.next()});
    const std::weak_ptr<const events> alive = some;
    for (const state_ptr& s : all) CHECK(share(s, some));
    some.reset();
    all[3]->end();
    while (all[0]->try_next()) {
    }
    all[1]->close(subscription::pending_events::discard);
    CHECK_FALSE(all[1]->try_next());
    CHECK(all[2]->try_next());
    CHECK_FALSE(alive.expired());
    all[2].reset();
    CHECK_FALSE(alive.expired());
    while (all[3]->try_next()) { // ended, but drained
    }
    CHECK(alive.expired());
}

namespace {

asio::awaitable<void> takes_some(state_ptr s, std::size_t max, std::vector<std::string>* log) {
    if (max == 0) {
        const std::optional<event> one = co_await s->next();
        log->push_back(one ? line(*one) : "end");
        co_return;
    }
    const std::vector<event> some = co_await s->next_batch(max);
    for (const event& e : some) log->push_back(line(e));
    if (some.empty()) log->push_back("end");
}

/// A consumer that waits for events on a context of its own. `max` is the size of a batch; 0: it takes single events.
class waiting_one {
public:
    waiting_one(state_ptr s, std::size_t max, std::vector<std::string>* log) {
        asio::co_spawn(*io_, takes_some(std::move(s), max, log),
                       asio::bind_cancellation_slot(stop_.slot(), asio::detached));
        io_->poll();
    }
    void goes_on() { io_->poll(); }
    void is_cancelled() {
        stop_.emit(asio::cancellation_type::terminal);
        io_->poll();
    }

private:
    asio::cancellation_signal stop_;
    std::unique_ptr<asio::io_context> io_ = std::make_unique<asio::io_context>();
};

using log_lines = std::vector<std::string>;

/// A consumer that waited and was handed one event, but has not run since.
struct told_one {
    explicit told_one(std::size_t m) : max(m) { CHECK(share(state, std::make_shared<events>(events{e}))); }
    history from = history(7);
    state_ptr state = std::make_shared<subscription::state>(subscription_options());
    event e = from.next();
    std::size_t max;
    log_lines got;
    waiting_one consumer{state, max, &got};
};

} // namespace

TEST_CASE("fan-out: events handed to a waiting consumer that ends before it runs go to the next one, ahead of others",
          "[subscription]") {
    for (const bool cancelled : {true, false}) {
        for (const std::size_t max : std::initializer_list<std::size_t>{0, 1, 2, 5}) {
            for (const bool alone : {true, false}) {
                CAPTURE(cancelled, max, alone);
                history from(7);
                const auto state = std::make_shared<subscription::state>(subscription_options());
                events all;
                for (int i = 0; i < 6; ++i) all.push_back(from.next());
                log_lines lost, got, expected;
                for (const event& e : all) expected.push_back(line(e));
                {
                    waiting_one first(state, max, &lost);
                    CHECK(share(state, std::make_shared<events>(all.begin(), all.begin() + 2)));
                    if (alone)
                        CHECK(share(state, std::make_shared<events>(all.begin() + 2, all.end())));
                    else
                        for (auto e = all.begin() + 2; e != all.end(); ++e) state->push(*e);
                    if (cancelled) first.is_cancelled();
                }
                CHECK(lost.empty());
                CHECK(state->figures().pending == 6);
                CHECK(state->figures().delivered == 0);
                waiting_one second(state, 100, &got);
                CHECK(got == expected);
                CHECK(state->figures().pending == 0);
                CHECK(state->figures().delivered == 6);
            }
        }
    }
}

TEST_CASE("fan-out: the consumer after a cancelled one does not overtake the events that come back from that one",
          "[subscription]") {
    for (const bool alone : {true, false}) {
        history from(7);
        const auto state = std::make_shared<subscription::state>(subscription_options());
        const event a = from.next(), b = from.next();
        log_lines lost, got;
        asio::io_context io;
        asio::cancellation_signal stop;
        asio::co_spawn(io, takes_some(state, 0, &lost), asio::bind_cancellation_slot(stop.slot(), asio::detached));
        io.poll();
        // begins before the first consumer is resumed
        asio::post(io, [&] { asio::co_spawn(io, takes_some(state, 0, &got), asio::detached); });
        CHECK(share(state, std::make_shared<events>(events{a})));
        if (alone)
            CHECK(share(state, std::make_shared<events>(events{b})));
        else
            state->push(b);
        stop.emit(asio::cancellation_type::terminal);
        io.poll();
        io.restart();
        asio::co_spawn(io, takes_some(state, 0, &got), asio::detached);
        io.poll();
        CHECK(lost.empty());
        CHECK(got == log_lines{line(a), line(b)});
    }
}

namespace {

class at_the_end {
public:
    explicit at_the_end(std::function<void()> f) : then_(std::move(f)) {}
    at_the_end(const at_the_end&) = delete;
    at_the_end& operator=(const at_the_end&) = delete;
    ~at_the_end() { then_(); }

private:
    std::function<void()> then_;
};

asio::awaitable<void> keeps_and_waits(std::shared_ptr<at_the_end> kept, state_ptr s) {
    co_await s->next();
    kept.reset();
}

} // namespace

TEST_CASE("fan-out: an event that comes back wakes a consumer that already waits", "[subscription]") {
    history from(7);
    const auto state = std::make_shared<subscription::state>(subscription_options()),
               other = std::make_shared<subscription::state>(subscription_options());
    const event e = from.next();
    log_lines lost, got;
    std::optional<waiting_one> next;
    {
        asio::io_context io;
        // This frame is destroyed first, between the end of the other coroutine's wait and that of its frame.
        asio::co_spawn(io, keeps_and_waits(std::make_shared<at_the_end>([&] { next.emplace(state, 0, &got); }), other),
                       asio::detached);
        asio::co_spawn(io, takes_some(state, 0, &lost), asio::detached);
        io.poll();
        for (const state_ptr& s : {other, state}) CHECK(share(s, std::make_shared<events>(events{e})));
    }
    REQUIRE(next);
    next->goes_on();
    CHECK(lost.empty());
    CHECK(got == log_lines{line(e)});
}

TEST_CASE("fan-out: an event that came back from a consumer merges as if it had never left", "[subscription]") {
    const auto change = [](const char* name, int version, const object& before) {
        event e(before ? event_kind::updated : event_kind::added, make_pod("ns", name, std::to_string(version), "u"),
                before, event_reason::watch);
        e.version = e.current.resource_version();
        return e;
    };
    const auto state = std::make_shared<subscription::state>(subscription_options().capacity(2));
    log_lines lost, got;
    waiting_one consumer(state, 0, &lost);
    const event a = change("a", 1, object()), b = change("b", 2, object());
    CHECK(share(state, std::make_shared<events>(events{a})));
    state->push(b);
    state->push(change("c", 3, object()));
    state->push(change("b", 4, b.current)); // full
    consumer.is_cancelled();
    state->push(change("a", 5, a.current));
    waiting_one next(state, 10, &got);
    CHECK(got == log_lines{"ADDED a ->5", "ADDED b ->4", "ADDED c ->3"});
    CHECK(lost.empty());
}

TEST_CASE("fan-out: each of several events that came back keeps its place among the events of its key",
          "[subscription]") {
    const auto make = [](event_kind kind, const char* name, const char* version, const char* uid) {
        const object o = make_pod("ns", name, version, uid);
        event e(kind, o, kind == event_kind::deleted ? o : object(), event_reason::watch);
        e.version = o.resource_version();
        return e;
    };
    const auto state = std::make_shared<subscription::state>(subscription_options().capacity(3));
    log_lines lost, got;
    waiting_one consumer(state, 3, &lost);
    CHECK(share(state, std::make_shared<events>(events{make(event_kind::added, "x", "1", "x"),
                                                       make(event_kind::deleted, "k", "2", "u"),
                                                       make(event_kind::added, "y", "3", "y")})));
    state->push(make(event_kind::added, "k", "4", "w"));
    consumer.is_cancelled(); // four are pending now, more than fit
    // undoes the addition; the first deletion is then the last event of the key
    state->push(make(event_kind::deleted, "k", "5", "w"));
    state->push(make(event_kind::added, "k", "6", "u"));
    waiting_one next(state, 10, &got);
    CHECK(got == log_lines{"ADDED x ->1", "MODIFIED k 2>6", "ADDED y ->3"});
    CHECK(lost.empty());
}

TEST_CASE("fan-out: a batch that nobody else holds any more is not copied", "[subscription]") {
    history from(8);
    const auto first = std::make_shared<subscription::state>(subscription_options()),
               second = std::make_shared<subscription::state>(subscription_options());
    events of_first, of_second;
    asio::io_context io;
    asio::co_spawn(io, takes_batch(first, 5, &of_first), asio::detached);
    asio::co_spawn(io, takes_batch(second, 5, &of_second), asio::detached);
    io.poll();
    const events original{from.next(), from.next()};
    auto some = std::make_shared<events>(original);
    const event* const there = some->data();
    CHECK(share(first, some));
    CHECK(share(second, some));
    some.reset();
    io.poll();
    CHECK(of_first.data() != there); // the second still has it
    CHECK(of_second.data() == there);
    for (const events& got : {of_first, of_second}) {
        REQUIRE(got.size() == 2);
        for (std::size_t i = 0; i < 2; ++i) CHECK(line(got[i]) == line(original[i]));
    }
}

TEST_CASE(
    "fan-out: events handed to a waiting consumer are dropped or drained if the subscription closes before it runs",
    "[subscription]") {
    for (const std::size_t max : std::initializer_list<std::size_t>{0, 5}) {
        for (const auto how : {subscription::pending_events::discard, subscription::pending_events::drain}) {
            told_one s(max);
            s.state->close(how);
            s.consumer.goes_on();
            const bool drains = how == subscription::pending_events::drain;
            CHECK(s.got == log_lines{drains ? line(s.e) : "end"});
            waiting_one next(s.state, max, &s.got);
            CHECK(s.got.back() == "end");
            CHECK(s.got.size() == 2);
        }
    }
}

TEST_CASE("fan-out: a consumer counts as having seen an event when it comes back, not when it is woken",
          "[subscription]") {
    for (const bool cancelled : {false, true}) {
        told_one s(0);
        s.state->initial_complete(s.e.version);
        CHECK_FALSE(s.state->has_synced());
        if (cancelled)
            s.consumer.is_cancelled();
        else
            s.consumer.goes_on();
        CHECK_FALSE(s.state->has_synced());
        std::optional<waiting_one> next;
        if (cancelled) next.emplace(s.state, 0, &s.got);
        CHECK(s.got == log_lines{line(s.e)});
        CHECK_FALSE(s.state->has_synced());
        waiting_one last(s.state, 0, &s.got);
        CHECK(s.state->has_synced());
    }
}

TEST_CASE("fan-out: shared events beyond the capacity are refused even if the consumer waits for so many",
          "[subscription]") {
    const auto state = std::make_shared<subscription::state>(subscription_options().capacity(3));
    log_lines got;
    waiting_one consumer(state, 10, &got);
    history from(3);
    auto some = std::make_shared<events>(events{from.next(), from.next(), from.next(), from.next()});
    CHECK_FALSE(share(state, some));
    CHECK(state->figures().peak_pending == 0);
    some = std::make_shared<events>(some->begin(), some->end() - 1);
    CHECK(share(state, some));
    consumer.goes_on();
    log_lines expected;
    for (const event& e : *some) expected.push_back(line(e));
    CHECK(got == expected);
}

TEST_CASE("fan-out: an event handed to a waiting consumer is delivered even if the informer has ended since",
          "[subscription]") {
    told_one s(0);
    s.state->end();
    CHECK_FALSE(s.state->finished()); // the event may come back
    s.consumer.goes_on();
    waiting_one next(s.state, 0, &s.got);
    CHECK(s.got == log_lines{line(s.e), "end"});
}

TEST_CASE("fan-out: whatever happens to consumers, each key's events make sense, and none is lost unless merged",
          "[subscription]") {
    for (std::uint32_t seed = 1; seed <= 200; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        history from(seed);
        const bool merges = seed % 2 == 0;
        subscription_options options;
        options.capacity(merges ? 1 + random() % 6 : 100'000).sync_marks(random() % 2 == 0);
        const auto state = std::make_shared<subscription::state>(options);
        state->start(cache_snapshot(), resource_version("1"));
        log_lines expected, got;
        std::map<std::string, std::string> last; // of each key, as it was produced
        if (options.sync_marks_) expected.push_back("SYNCED 1");
        const auto produced = [&](const event& e) {
            expected.push_back(line(e));
            last[e.key().name] = e.kind == event_kind::deleted ? "-" : e.version.str();
        };
        std::optional<waiting_one> consumer;
        for (int step = 0; step < 300; ++step) {
            switch (random() % 6) {
            case 0:
            case 1: {
                events some;
                for (std::size_t n = random() % 4 + 1; n > 0; --n) {
                    some.push_back(from.next());
                    produced(some.back());
                }
                if (share(state, std::make_shared<events>(some))) break;
                for (const event& e : some) state->push(e);
                break;
            }
            case 2: {
                const event e = from.next();
                produced(e);
                state->push(e);
                break;
            }
            case 3:
                if (random() % 4 != 0) break;
                state->relisted(resource_version(std::to_string(step)));
                if (options.sync_marks_) expected.push_back("SYNCED " + std::to_string(step));
                break;
            default:
                if (consumer) {
                    if (const auto fate = random() % 3; fate == 0)
                        consumer->goes_on();
                    else if (fate == 1)
                        consumer->is_cancelled();
                    consumer.reset();
                }
                consumer.emplace(state, random() % 5, &got);
            }
        }
        consumer.reset();
        state->end();
        while (got.empty() || got.back() != "end") waiting_one(state, random() % 5, &got);
        got.pop_back();
        if (!merges) CHECK(got == expected);
        std::map<std::string, std::string> told;
        for (const std::string& l : got) {
            if (l.starts_with("SYNCED")) continue;
            const std::string name = l.substr(l.find(' ') + 1, 1), before = l.substr(l.find(name + ' ') + 2);
            std::string& now = told.try_emplace(name, "-").first->second;
            CHECK(before.substr(0, before.find('>')) == now);
            now = l.starts_with("DELETED") ? "-" : l.substr(l.find('>') + 1);
        }
        for (const auto& [name, version] : last) CHECK((told.contains(name) ? told[name] : "-") == version);
    }
}

TEST_CASE("fan-out: closed and ended subscribers ignore shared events", "[subscription]") {
    history from(1);
    const auto some = std::make_shared<events>(events{from.next()});
    subscription_options options;
    const auto closed = std::make_shared<subscription::state>(options),
               ended = std::make_shared<subscription::state>(options);
    closed->close(subscription::pending_events::drain);
    ended->end();
    for (const state_ptr& s : {closed, ended}) {
        CHECK(share(s, some));
        CHECK_FALSE(s->try_next());
    }
}
