// What an informer holds: across relists, under churn, and when readers let go.
#include "informer_fixture.hpp"
#include "support/pod_generator.hpp"

#include <informer/object/framer.hpp>

#include <boost/asio/co_spawn.hpp>

#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;

namespace {

std::string generated(unsigned index, unsigned revision) {
    pod_options o(index);
    o.revision = revision;
    o.managed_fields = false; // skipped anyway
    o.type = true;
    return make_pod_json(o);
}

/// Lists generated pods, one text at a time; watches are scripted.
class pod_source final : public list_watch {
public:
    pod_source(asio::any_io_executor executor, unsigned count)
        : scripted(std::make_shared<scripted_list_watch>(std::move(executor))), count_(count) {}

    const api_resource& resource() const override { return scripted->resource(); }
    std::string describe() const override { return scripted->describe(); }
    asio::awaitable<void> watch(watch_options options, object_sink& sink, failure& f) override {
        return scripted->watch(std::move(options), sink, f);
    }
    asio::awaitable<list_result> list(list_options options, object_sink& sink, failure& f) override {
        static_cast<void>(options);
        return list_into(this, &sink, &f);
    }

    std::shared_ptr<scripted_list_watch> scripted;
    unsigned changed = 0; ///< every n-th pod has changed since the last list; 0: none
    unsigned revision = 0;
    document_pool* pool = nullptr;

private:
    static asio::awaitable<list_result> list_into(pod_source* self, object_sink* sink, failure* f) {
        list_result result;
        self->pool = &sink->pool();
        sink->opened();
        for (unsigned i = 0; i < self->count_; ++i) {
            const unsigned revision = self->changed != 0 && i % self->changed == 0 ? self->revision : 0;
            const std::string text = generated(i, revision);
            sink->received(text.size());
            const object_key key = peek_key(text);
            const object previous = sink->previous(key, i);
            object o = sink->pool().decode(text, previous, *f);
            if (*f) co_return result;
            sink->item(std::move(o));
            if (i % 100 != 99) continue;
            const bool wanted = co_await sink->ready();
            if (!wanted) break;
        }
        result.items = self->count_;
        result.resource_version = resource_version(std::to_string(100 + self->revision));
        co_return result;
    }

    unsigned count_;
};

/// An informer on generated pods, listed in one piece; its first watch is open.
struct scene {
    explicit scene(unsigned n, std::size_t queue_capacity = 1000)
        : source(std::make_shared<pod_source>(context.get_executor(), n)),
          pods(rt, source, informer_options().watch_list(false).page_size(0).queue_capacity(queue_capacity)),
          watch(source->scripted->on_watch()) {
        asio::co_spawn(context, pods.run(), [](std::exception_ptr) {});
        settle();
        REQUIRE(pods.snapshot().size() == n);
    }
    ~scene() {
        pods.stop();
        settle();
        CHECK(context.stopped());
    }
    void delete_every_second() {
        unsigned gone = 0;
        pods.snapshot().for_each([&](const object& o) {
            if (gone % 2 == 0) watch->deleted(o.to_json());
            ++gone;
            return true;
        });
    }
    void settle() {
        settle([] {});
    }
    /// Runs what is ready; calls `f` after each turn of the executor.
    template <class F>
    void settle(F f) {
        context.restart();
        while (context.poll_one() != 0) f();
    }

    boost::asio::io_context context{1};
    std::shared_ptr<manual_clock> clock = std::make_shared<manual_clock>();
    std::shared_ptr<pod_source> source;
    runtime rt = runtime(context.get_executor()).with_clock(clock).with_seed(1);
    shared_informer pods;
    std::shared_ptr<watch_script> watch;
};

/// 0 under the sanitizers.
std::uint64_t on_the_heap() {
    const auto all = mallinfo2();
    return all.uordblks + all.hblkhd;
}

/// Peak and end of relists without a change and with every tenth object changed.
void relists_of(unsigned n) {
    scene s(n);
    const auto steady = s.pods.status();
    const std::uint64_t index = steady.bytes - steady.pool.bytes;
    CHECK(steady.bytes / n <= 3000);

    for (const unsigned changed : {0U, 10U}) {
        s.source->changed = changed;
        ++s.source->revision;
        auto next = s.source->scripted->on_watch();
        s.watch->fail(failure(errc::gone, "test"));
        s.settle();
        s.clock->advance(5s);
        const std::uint64_t heap = on_the_heap();
        std::uint64_t peak = 0;
        s.settle([&] { peak = std::max(peak, s.source->pool->statistics().bytes + on_the_heap()); });
        const auto after = s.pods.status();
        REQUIRE(after.relists == s.source->revision);
        REQUIRE(next->taken());
        CHECK(s.pods.snapshot().size() == n);
        CHECK(s.pods.snapshot().resource_version().str() == std::to_string(100 + s.source->revision));
        // Documents, and the maps of the list and of the new state beside that of the old one.
        const double ratio = static_cast<double>(peak - heap + index) / static_cast<double>(steady.bytes);
        CAPTURE(n, changed, steady.bytes, index, peak, heap, after.bytes);
        CHECK(ratio <= 1.2);
        CHECK(after.bytes <= steady.bytes * 11 / 10);
        s.watch = next;
    }
}

/// Rounds of changes to every object. Checks what is held after each.
void churn(unsigned n, unsigned events) {
    constexpr unsigned rounds = 5;
    bench b(informer_options().watch_list(false).page_size(0));
    {
        list_script all;
        for (unsigned i = 0; i < n; ++i) all.item(generated(i, 0));
        all.version("1");
        b.source->on_list(std::move(all));
    }
    const auto w = b.source->on_watch();
    b.start();
    REQUIRE(b.pods.snapshot().size() == n);
    const std::uint64_t synced = b.pods.status().bytes;
    std::vector<std::uint64_t> after;
    unsigned sent = 0;
    for (unsigned round = 0; round < rounds; ++round) {
        for (unsigned i = 0; i < events; ++i, ++sent) {
            w->modified(generated(sent % n, 1 + sent / n));
            if (i % 1000 == 999) b.pass(1s);
        }
        after.push_back(b.pods.status().bytes);
    }
    CAPTURE(n, synced, after);
    CHECK(b.pods.status().events_modified == rounds * events);
    CHECK(b.pods.snapshot().size() == n);
    CHECK(after.back() <= after.front() * 11 / 10);
    CHECK(*std::max_element(after.begin(), after.end()) <= synced * 3 / 2);
}

} // namespace

TEST_CASE("completeness: peak during relist is at most 1.2 times steady", "[informer][promise][memory]") {
    relists_of(5'000);
}

TEST_CASE("completeness: peak during relist is at most 1.2 times steady, 20,000 pods", "[.slow][memory]") {
    relists_of(20'000);
}

TEST_CASE("memory under churn does not grow from round to round", "[informer][memory]") {
    churn(1'000, 4'000);
}

TEST_CASE("memory under churn does not grow from round to round, 5,000 pods", "[.slow][memory]") {
    churn(5'000, 20'000);
}

TEST_CASE("what readers drop is freed within a minute, even if no event comes", "[informer][memory]") {
    bench b;
    const auto w = b.sync_with({}, 5);
    for (int i = 0; i < 2000; ++i)
        w->added(pod("p" + std::to_string(i), 10, std::string(500, 'x') + std::to_string(i)));
    b.settle();
    const std::uint64_t before = b.pods.status().pool.node_bytes;
    REQUIRE(before > 1'000'000);
    {
        const auto held = b.pods.snapshot();
        for (int i = 0; i < 2000; ++i) w->deleted(pod("p" + std::to_string(i), 20 + i));
        b.settle();
        CHECK(held.size() == 2000);
        CHECK(b.pods.snapshot().size() == 0);
        CHECK(b.pods.status().pool.node_bytes > before / 2);
    }
    b.settle();
    CHECK(b.pods.status().pool.node_bytes > before / 2); // not looked for yet
    b.pass(1min);
    CHECK(b.pods.status().pool.node_bytes < before / 10);
    CHECK(b.pods.status().bookmarks == 0); // what the informer itself sent through the queue does not count
}

TEST_CASE("a closed subscription is released within a minute, even if no event comes", "[informer][memory]") {
    bench b;
    bool synced = true;
    subscription_options options;
    std::optional<subscription> slow;
    SECTION("of an informer in sync") {
        b.sync_with({pod("a", 1)}, 5);
    }
    SECTION("while all subscribers wait for another one") {
        slow = b.pods.subscribe(subscription_options().capacity(4).policy(overflow_policy::back_pressure).name("slow"));
        const auto w = b.sync_with({}, 5);
        for (int i = 0; i < 100; ++i) w->modified(pod("a", 10 + i));
        b.settle();
        REQUIRE(b.pods.status().held_up_by == "subscription slow");
    }
    SECTION("with a resync due hours later") {
        b.sync_with({pod("a", 1)}, 5);
        options.resync(10h);
    }
    SECTION("of an informer that never was in sync") {
        synced = false;
        b.start();
    }
    REQUIRE(b.pods.has_synced() == synced);
    const std::uint64_t before = on_the_heap();
    for (int i = 0; i < 2000; ++i) {
        auto events = b.pods.subscribe(options.name(std::string(2000, 'x')));
        events.close();
    }
    b.settle();
    b.pass(1min);
    CHECK(on_the_heap() < before + 1'000'000);
}

TEST_CASE("a removed handler is released within a minute, even if no event comes", "[informer][memory]") {
    bench b;
    b.sync_with({pod("a", 1)}, 5);
    auto held = std::make_shared<int>(0);
    const std::weak_ptr<int> left = held;
    std::optional<shared_informer::handler_handle> handle =
        b.pods.add_event_handler([held = std::move(held)](const object&, bool) { ++*held; }, nullptr, nullptr);
    b.settle();
    REQUIRE(*left.lock() == 1);
    handle->remove();
    handle.reset();
    b.pass(1min);
    CHECK(left.expired());
}

TEST_CASE("a handler's handle keeps nothing of the cache of an informer that has stopped", "[informer][memory]") {
    asio::io_context context(1);
    runtime rt(context.get_executor());
    const std::uint64_t before = on_the_heap();
    std::optional<shared_informer::handler_handle> handle;
    int told = 0;
    {
        const auto source = std::make_shared<scripted_list_watch>(context.get_executor());
        shared_informer pods(rt, source);
        const auto w = source->on_watch();
        for (int i = 0; i < 20'000; ++i) w->added(pod("p" + std::to_string(i), 1));
        w->bookmark("2", true);
        asio::co_spawn(context, pods.run(), [](std::exception_ptr) {});
        while (!pods.has_synced()) context.poll();
        const auto stops = [&](const object&, bool) {
            ++told;
            pods.stop();
        };
        handle = pods.add_event_handler(stops, nullptr, nullptr);
        context.run();
        CHECK(told < 20'000);
    }
    CHECK(on_the_heap() < before + 200'000);
    handle->remove(); // it may still be called
    handle->remove();
}

TEST_CASE("after many deletions live objects are moved together, while other work has turns of the executor",
          "[informer][memory]") {
    constexpr unsigned n = 8000;
    scene s(n);
    const std::uint64_t before = s.pods.status().pool.bytes;
    std::uint64_t held = before, most = 0; // most: bytes that one turn added
    std::uint64_t peak = before;           // old and new together
    const auto settle = [&] {
        s.settle([&] {
            const pool_statistics all = s.source->pool->statistics();
            const std::uint64_t now = all.node_bytes;
            most = std::max(most, now - std::min(now, held));
            held = now;
            peak = std::max(peak, all.bytes);
        });
    };
    s.delete_every_second();
    settle();
    s.clock->advance(1min); // what was moved before the last deletions is moved again
    settle();
    CHECK(s.pods.snapshot().size() == n / 2);
    CHECK(s.source->pool->statistics().generations == 1);
    CHECK(s.source->pool->statistics().bytes < before * 2 / 3);
    CHECK(most < before / 6); // a third of what is moved
    CAPTURE(before, peak);
    CHECK(peak < before * 9 / 5); // three quarters of it are moved, and the last of the old is freed at the end
}

TEST_CASE("live objects are moved together once a minute at most", "[informer][memory]") {
    scene s(8000);
    const auto bytes_after_deletions = [&] {
        s.delete_every_second();
        s.settle();
        return s.source->pool->statistics().bytes;
    };
    const std::uint64_t before = s.source->pool->statistics().bytes;
    const std::uint64_t moved = bytes_after_deletions();
    REQUIRE(moved < before * 9 / 10);
    CHECK(bytes_after_deletions() >= moved);
    s.clock->advance(59s);
    CHECK(bytes_after_deletions() >= moved);
    s.clock->advance(1s);
    CHECK(bytes_after_deletions() < moved * 4 / 5);
}

TEST_CASE("live objects that others keep, too, are not moved", "[informer][memory]") {
    constexpr unsigned n = 6000;
    scene s(n);
    // Like a controller that compares each state with the last one.
    std::map<object_key, object> last;
    const auto keep = [&](const object& o) { last.insert_or_assign(o.key(), o); };
    s.pods.add_event_handler([&](const object& o, bool) { keep(o); }, [&](const object&, const object& o) { keep(o); },
                             [&](const object& o, bool) { last.erase(o.key()); });
    s.settle();
    REQUIRE(last.size() == n);
    const std::uint64_t before = s.pods.status().pool.bytes;
    s.delete_every_second();
    s.settle();
    for (int i = 0; i < 5; ++i) {
        s.clock->advance(1min);
        s.settle();
    }
    REQUIRE(last.size() == n / 2);
    CHECK(s.source->pool->statistics().generations == 1);
    CHECK(s.source->pool->statistics().bytes <= before * 21 / 20);
    last.clear();
    s.clock->advance(1min);
    s.settle();
    CHECK(s.source->pool->statistics().generations == 1);
    CHECK(s.source->pool->statistics().bytes < before * 2 / 3);
}

TEST_CASE("a large object that waits while others are moved is moved after them, in slices too", "[informer][memory]") {
    scene s(26'000, 20'000);
    const object_key large_one = s.pods.snapshot().list().front().key();
    // All events are decoded while the first one is stuck. The large object comes behind a batch that starts the move,
    // when few others wait.
    subscription stuck = s.pods.subscribe(subscription_options().policy(overflow_policy::back_pressure).capacity(1));
    unsigned gone = 0;
    s.pods.snapshot().for_each([&](const object& o) {
        if (o.key() != large_one && ++gone < 13'000) s.watch->deleted(o.to_json());
        return true;
    });
    std::string large = R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + large_one.name +
                        R"(","namespace":")" + large_one.name_space + R"(","resourceVersion":"9000000000"},"parts":[)";
    for (int i = 0; i < 500'000; ++i) large += "{\"part\":" + std::to_string(i) + "},";
    s.watch->modified(large + "{}]}");
    s.settle();
    REQUIRE(s.pods.snapshot().size() > 25'900);
    stuck.close();
    std::uint64_t held = s.source->pool->statistics().node_bytes, most = 0; // most: bytes that one turn added
    bool moves = false;
    s.settle([&] {
        const auto now = s.source->pool->statistics();
        most = std::max(most, now.node_bytes - std::min(now.node_bytes, held));
        moves = moves || now.generations > 1;
        held = now.node_bytes;
    });
    REQUIRE(moves);
    CHECK(s.source->pool->statistics().generations == 1);
    const object there = s.pods.snapshot().get(large_one);
    CHECK(there.value()["parts"].size() == 500'001);
    CHECK(most < 6'000'000); // of eight million
}
