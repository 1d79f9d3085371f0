// Subscriptions to one namespace of an informer that has several.
#include "pods.hpp"
#include "subscription_scene.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace informer;
using namespace informer::testing;

namespace {

using events = std::vector<event>;

/// A cache of three namespaces and the events of its random changes.
class history {
public:
    explicit history(std::uint32_t seed) : random_(seed) {}
    event next() {
        const std::string name_space(1, static_cast<char>('x' + random_() % 3));
        const std::string name(1, static_cast<char>('a' + random_() % 4));
        const object before = all.current(name_space + "/" + name);
        const bool goes = before && random_() % 4 == 0;
        const object o = make_pod(name_space, name, std::to_string(++version_));
        event e(goes     ? event_kind::deleted
                : before ? event_kind::updated
                         : event_kind::added,
                o, before, event_reason::watch);
        e.version = o.resource_version();
        for (indexer* cache : {&all, &of_x}) {
            if (cache == &of_x && name_space != "x") continue;
            if (goes)
                cache->erase(o.key());
            else
                cache->put(o);
            cache->publish();
        }
        return e;
    }
    indexer all, of_x;

private:
    std::mt19937 random_;
    int version_ = 0;
};

void share(const state_ptr& s, const events& some) {
    informer::detail::wake_list to_wake;
    if (some.empty() || s->push_all(std::make_shared<events>(some), to_wake)) return;
    for (const event& e : some) s->push(e);
}

events only_x(events some) {
    std::erase_if(some, [](const event& e) { return e.current.name_space() != "x"; });
    return some;
}

lines taken(subscription& from, std::size_t max = 1000) {
    lines all;
    for (; max > 0; --max) {
        const auto e = from.try_next();
        if (!e) break;
        all.push_back(line(*e));
    }
    return all;
}

lines sorted(lines all) {
    std::sort(all.begin(), all.end());
    return all;
}

asio::awaitable<void> takes_one(state_ptr from, std::optional<std::string>* into) {
    const std::optional<event> e = co_await from->next();
    *into = e ? line(*e) : "the end";
}

} // namespace

TEST_CASE("a subscription to one namespace is told what one of an informer of that namespace is told",
          "[subscription][promise]") {
    for (std::uint32_t seed = 1; seed <= 80; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        history from(seed);
        for (std::size_t n = random() % 20; n > 0; --n) from.next();
        subscription_options options;
        options.capacity(1 + random() % 12).sync_marks(random() % 2 == 0);
        const state_ptr narrow = make_state(subscription_options(options).in("x")), own = make_state(options);
        subscription of_all(narrow), of_x(own);
        narrow->start(from.all.snapshot(), resource_version("1"));
        own->start(from.of_x.snapshot(), resource_version("1"));
        if (random() % 2 == 0) REQUIRE(sorted(taken(of_all)) == sorted(taken(of_x))); // else it comes later: both walk
        bool walked = narrow->has_synced();
        for (int step = 0; step < 200; ++step) {
            events some;
            for (std::size_t n = random() % 5; n > 0; --n) some.push_back(from.next());
            switch (random() % 4) {
            case 0:
                for (const event& e : some) narrow->push(e);
                for (const event& e : only_x(some)) own->push(e);
                break;
            case 1:
                share(narrow, some);
                share(own, only_x(some));
                for (const state_ptr& s : {narrow, own}) s->relisted(resource_version(std::to_string(step)));
                break;
            default: share(narrow, some); share(own, only_x(some));
            }
            if (random() % 3 == 0) {
                if (walked) {
                    const std::size_t max = random() % 6;
                    REQUIRE(taken(of_all, max) == taken(of_x, max));
                } else {
                    REQUIRE(sorted(taken(of_all)) == sorted(taken(of_x)));
                    walked = true;
                }
            }
            const subscription_figures a = of_all.figures(), b = of_x.figures();
            REQUIRE(a.pending == b.pending);
            REQUIRE(a.delivered == b.delivered);
            REQUIRE(a.coalesced == b.coalesced);
            REQUIRE(of_all.has_synced() == of_x.has_synced());
        }
    }
}

TEST_CASE("a late subscription to one namespace gets its objects, wherever in the cache others lie", "[subscription]") {
    indexer cache;
    const int many = 3000; // more than there are sub-tries
    for (int i = 0; i < many; ++i) {
        const std::string name_space = "n" + std::to_string(i);
        for (int k = 0; k <= i % 3; ++k) cache.put(make_pod(name_space, "p" + std::to_string(k)));
    }
    cache.publish();
    for (int i = 0; i < many; ++i) {
        subscribed s(subscription_options().in("n" + std::to_string(i)));
        s.state->start(cache.snapshot(), resource_version("9"));
        std::size_t n = 0;
        while (const auto e = s.sub.try_next()) {
            REQUIRE(e->key().name_space == "n" + std::to_string(i));
            REQUIRE(e->initial);
            ++n;
        }
        REQUIRE(n == static_cast<std::size_t>(i % 3 + 1));
        REQUIRE(s.sub.has_synced());
    }
    subscribed nowhere(subscription_options().in("nowhere"));
    nowhere.state->start(cache.snapshot(), resource_version("9"));
    CHECK_FALSE(nowhere.sub.try_next());
    CHECK(nowhere.sub.has_synced());
}

TEST_CASE("a consumer that waits for events of one namespace is not woken by those of others", "[subscription]") {
    subscribed s(subscription_options().in("x"));
    s.state->start(cache_snapshot(), resource_version("1"));
    boost::asio::io_context io;
    std::optional<std::string> got;
    boost::asio::co_spawn(io, takes_one(s.state, &got), boost::asio::detached);
    const auto push = [&](const events& some) {
        informer::detail::wake_list to_wake;
        REQUIRE(s.state->push_all(std::make_shared<events>(some), to_wake));
        to_wake.wake_all();
        return io.poll();
    };
    io.poll();
    CHECK(push({added(make_pod("y", "a", "2")), added(make_pod("z", "b", "3"))}) == 0);
    CHECK_FALSE(got);
    CHECK(push({added(make_pod("y", "c", "4")), added(make_pod("x", "d", "5")), added(make_pod("z", "e", "6"))}) > 0);
    CHECK(got == "ADDED d@5");
    CHECK(s.sub.figures().pending == 0);
}
