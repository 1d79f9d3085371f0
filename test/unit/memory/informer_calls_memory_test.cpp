// What is called on a running informer when the system refuses memory: a call that throws leaves nothing behind, and an
// informer that ends for lack of memory says so.
#include "refusal.hpp"
#include "unit/cache/factory_fixture.hpp"

#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>

#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;
namespace asio = boost::asio;

namespace {

/// If Asio's heap of timers cannot grow, Asio does not recover.
void warm_up(asio::io_context& io) {
    std::vector<std::unique_ptr<asio::steady_timer>> timers;
    for (int i = 0; i < 16; ++i) {
        timers.push_back(std::make_unique<asio::steady_timer>(io, 1h));
        timers.back()->async_wait([](const boost::system::error_code&) {});
    }
    io.poll();
    timers.clear();
    io.restart();
    io.poll();
}

/// An informer with `n` objects, in sync.
struct in_sync {
    explicit in_sync(int n) {
        warm_up(b.context);
        std::vector<std::string> all;
        for (int i = 0; i < n; ++i) all.push_back(pod("p" + std::to_string(i), i + 1, "n" + std::to_string(i % 7)));
        watch = b.sync_with(std::move(all), 5000);
    }
    /// New versions of one object.
    void change(int times) {
        for (int i = 0; i < times; ++i) {
            watch->modified(pod("p0", ++version, "z" + std::to_string(i)));
            b.settle();
        }
    }

    bench b;
    std::shared_ptr<watch_script> watch;
    int version = 6000;
};

/// Asio's handlers, too.
refusal of_all(refusal r) {
    r.handlers = true;
    return r;
}

template <class F>
bool refused(const refusal& r, F f) {
    try {
        const lack l(of_all(r));
        f();
    } catch (const std::bad_alloc&) {
        return true;
    }
    return false;
}

} // namespace

TEST_CASE("an index that could not be added for lack of memory can be added again, and keeps no object", "[memory]") {
    for (const int objects : {5, 600}) {
        CAPTURE(objects);
        for_every_request([objects](const refusal& r) {
            in_sync s(objects);
            shared_informer& shared = s.b.pods;
            const std::string name = "an index whose name is no short text";
            const auto add = [&] { shared.add_index(name, index_by_pointer("/spec/note")); };
            const bool threw = refused(r, add);
            if (threw) CHECK_NOTHROW(add());
            s.b.settle();
            s.change(100);
            CHECK_FALSE(s.b.finished);
            CHECK(shared.snapshot().has_index(name));
            CHECK(shared.snapshot().by_index(name, "z99").size() == 1);
            CHECK(shared.snapshot().by_index(name, "z98").empty());
            if (threw)
                CHECK(shared.snapshot().by_index(name, "n1").size() == static_cast<std::size_t>(objects + 5) / 7);
            s.b.pass(61s);
            CHECK(shared.status().pool.objects == static_cast<std::size_t>(objects));
        });
    }
}

TEST_CASE("an index that a factory could not add for lack of memory is not taken for one that is there", "[memory]") {
    for (const int more : {0, 600}) {
        CAPTURE(more);
        for_every_request([more](const refusal& r) {
            workshop w;
            warm_up(w.context);
            w.more = more;
            const informer_handle first = w.factory.get(pods);
            w.settle();
            const auto get = [&w] {
                return w.factory.get(pods, "", informer_options().index("note", index_by_pointer("/spec/note")));
            };
            std::optional<informer_handle> second;
            if (refused(r, [&] { second.emplace(get()); })) CHECK_NOTHROW(second.emplace(get()));
            w.settle();
            CHECK((*second)->snapshot().has_index("note"));
        });
    }
}

TEST_CASE("a subscription that could not be made for lack of memory holds up nobody", "[memory]") {
    for_every_request([](const refusal& r) {
        in_sync s(1);
        std::optional<subscription> made;
        const bool threw = refused(r, [&] {
            made.emplace(s.b.pods.subscribe(
                subscription_options().resync(1h).policy(overflow_policy::back_pressure).capacity(1)));
        });
        CHECK(threw != made.has_value());
        if (made) made->close();
        s.change(5);
        CHECK(s.b.note("p0") == "z4");
        CHECK(s.b.pods.status().held_up_by.empty());
        CHECK_FALSE(s.b.finished);
    });
}

TEST_CASE("a handler that could not be added for lack of memory is released, and others can be added", "[memory]") {
    for_every_request([](const refusal& r) {
        in_sync s(1);
        int called = 0, others = 0;
        auto kept = std::make_shared<int>();
        const std::weak_ptr<int> there = kept;
        const auto options = subscription_options().resync(1h).policy(overflow_policy::back_pressure).capacity(1);
        const bool threw = refused(r, [&] {
            s.b.pods.add_event_handler([kept, &called](const object&, bool) { ++called; },
                                       [&called](const object&, const object&) { ++called; }, nullptr, options);
        });
        kept.reset();
        CHECK(there.expired() == threw);
        const auto other = s.b.pods.add_event_handler([&others](const object&, bool) { ++others; }, nullptr, nullptr);
        s.b.settle();
        s.change(5);
        CHECK((called == 0) == threw);
        CHECK(others == 1);
        CHECK(other.has_synced());
        CHECK(s.b.note("p0") == "z4");
        CHECK(s.b.pods.status().held_up_by.empty());
        CHECK_FALSE(s.b.finished);
    });
}

namespace {

asio::awaitable<void> await_version(shared_informer from, bool* told) {
    try {
        co_await from.wait_until(resource_version("99999"), clock::duration::max());
    } catch (...) { // NOLINT(bugprone-empty-catch) that it ended counts
    }
    *told = true;
}

} // namespace

TEST_CASE("an informer that ends for lack of memory says so to all that wait, and in its status", "[memory]") {
    std::size_t ends = 0;
    for (const bool stop : {false, true}) {
        CAPTURE(stop);
        for_every_request([&ends, stop](const refusal& r) {
            in_sync s(3);
            shared_informer& shared = s.b.pods;
            shared.add_index("note", index_by_pointer("/spec/note"));
            const auto events = shared.subscribe();
            bool told = false;
            asio::co_spawn(s.b.context, await_version(shared, &told), asio::detached);
            s.b.settle();
            for (int i = 0; i < 3; ++i)
                s.watch->modified(pod("p1", 6000 + i, "a note of some length, number " + std::to_string(i)));
            s.watch->added(pod("q", 6100));
            if (stop) shared.stop();
            {
                const lack l(r);
                s.b.settle();
            }
            s.b.settle();
            for (int i = 0; i < 100 && !s.b.finished; ++i) s.b.pass(1s);
            if (!s.b.finished) {
                CHECK(s.b.note("q").empty()); // it is there
                shared.stop();
                s.b.settle();
            } else if (!stop) {
                ++ends;
            }
            CHECK(s.b.finished);
            CHECK(told);
            CHECK(shared.status().phase == informer_phase::stopped);
            CHECK_NOTHROW(shared.add_index("late", index_by_pointer("/spec/note"))); // of what can still be read
            CHECK(shared.snapshot().by_index("late", "n0").size() == 1);
        });
    }
    CHECK(ends > 0);
}

TEST_CASE("the last handle of an informer can be released without memory: it is stopped", "[memory]") {
    for (const bool handlers : {false, true}) {
        CAPTURE(handlers);
        workshop w;
        informer_handle here = w.factory.get(pods);
        w.settle();
        REQUIRE(w.source(0));
        refusal r;
        r.handlers = handlers;
        {
            refusal_now = refusal();
            const lack l(r);
            here.release();
        }
        CHECK((refusal_now.refused != 0) == handlers);
        w.settle();
        if (handlers) { // nothing could be posted: the factory stops it when it is used next
            CHECK(w.source(0));
            CHECK(w.factory.status().empty());
            w.settle();
        }
        CHECK_FALSE(w.source(0));
    }
    SECTION("or at the latest when the factory shuts down") {
        workshop w;
        informer_handle here = w.factory.get(pods);
        w.settle();
        refusal r;
        r.handlers = true;
        {
            const lack l(r);
            here.release();
        }
        asio::co_spawn(w.context, w.factory.shutdown(), asio::detached);
        w.settle();
        CHECK_FALSE(w.source(0));
    }
}
