// Events that subscribers share, against the same events pushed one by one.
#include "cache/subscription_state.hpp"
#include "informer_fixture.hpp"
#include "pods.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <map>
#include <memory>
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

bool share(const state_ptr& s, const std::shared_ptr<const events>& some) {
    informer::detail::wake_list to_wake;
    return s->push_all(some, to_wake);
}

asio::awaitable<void> takes_batch(state_ptr s, std::size_t max, events* into) {
    std::vector<event> some = co_await s->next_batch(max);
    *into = std::move(some);
}

/// As a consumer gets them that waits for them.
events batch_of(const state_ptr& s, std::size_t max) {
    events some;
    asio::io_context io;
    asio::co_spawn(io, takes_batch(s, max, &some), asio::detached);
    io.poll();
    return some;
}

/// Changes of a few keys, in an order that a cache could have gone through.
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

TEST_CASE("fan-out: shared events are told as if each had been pushed by itself", "[subscription]") {
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
                const auto all = std::make_shared<const events>(some);
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

TEST_CASE("fan-out: what does not fit is refused whole and changes nothing", "[subscription]") {
    for (const auto policy : {overflow_policy::coalesce, overflow_policy::back_pressure}) {
        subscription_options options;
        options.capacity(3).policy(policy);
        const auto state = std::make_shared<subscription::state>(options);
        history from(1);
        const auto two = std::make_shared<const events>(events{from.next(), from.next()});
        const auto four = std::make_shared<const events>(events{from.next(), from.next(), from.next(), from.next()});
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

TEST_CASE("fan-out: shared events go when the last subscriber has taken or dropped them", "[subscription]") {
    std::vector<state_ptr> all;
    for (int i = 0; i < 4; ++i) all.push_back(std::make_shared<subscription::state>(subscription_options()));
    history from(1);
    auto some = std::make_shared<const events>(events{from.next(), from.next(), from.next()});
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

TEST_CASE("fan-out: closed and ended subscribers ignore what is shared", "[subscription]") {
    history from(1);
    const auto some = std::make_shared<const events>(events{from.next()});
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

TEST_CASE("fan-out: a handler that is removed by another one is not called again", "[informer]") {
    informer::testing::bench b;
    auto w = b.sync_with({informer::testing::pod("a", 1)}, 1);
    int first = 0, second = 0;
    std::vector<shared_informer::handler_handle> handles;
    const auto remove_second = [&](const object&, const object&) {
        if (++first == 2) handles.at(1).remove();
    };
    handles.push_back(b.pods.add_event_handler(nullptr, remove_second, nullptr));
    handles.push_back(b.pods.add_event_handler(
        nullptr, [&](const object&, const object&) { ++second; }, nullptr));
    b.settle();
    for (int v = 2; v <= 400; ++v) w->modified(informer::testing::pod("a", v, std::to_string(v)));
    b.settle();
    CHECK(first == 399);
    const int told = second;
    CHECK(told < 399);
    w->modified(informer::testing::pod("a", 500, "last"));
    b.settle();
    CHECK(first == 400);
    CHECK(second == told);
}

TEST_CASE("fan-out: a handler may remove itself in the middle of what is shared", "[informer]") {
    informer::testing::bench b;
    auto w = b.sync_with({informer::testing::pod("a", 1)}, 1);
    int calls = 0;
    std::vector<shared_informer::handler_handle> handles;
    handles.push_back(b.pods.add_event_handler(
        nullptr,
        [&](const object&, const object&) {
            if (++calls == 3) handles.front().remove();
        },
        nullptr));
    b.settle();
    for (int v = 2; v <= 100; ++v) w->modified(informer::testing::pod("a", v, std::to_string(v)));
    b.settle();
    CHECK(calls == 3);
}
