// Changes of many objects at once, like the transactions of etcd: seen as a whole, whatever turns of the executor come
// between their parts.
#include "informer_fixture.hpp"

#include <algorithm>
#include <set>

using namespace informer;
using namespace informer::testing;
using namespace std::chrono_literals;

namespace {

std::string seen(const bench& b) {
    std::string s = b.pods.snapshot().resource_version().str();
    for (const char* name : {"a", "b", "c"}) s += " " + b.note(name);
    return s;
}

const std::vector<std::string> a_and_b{pod("a", 5, "a1"), pod("b", 6, "b1")};

} // namespace

TEST_CASE("a change is seen as a whole, and its version with it", "[informer][change]") {
    bench b;
    const auto w = b.sync_with(a_and_b, 7);
    auto events = b.pods.subscribe();
    read_all(events);
    bool there = false;
    asio::co_spawn(b.context, b.pods.wait_until(resource_version("8"), 1min),
                   [&](std::exception_ptr e) { there = !e; });
    w->begin_change()
        .modified(pod("a", 8, "a2"))
        .hold()
        .deleted(pod("b", 8))
        .added(pod("c", 8, "c1"))
        .hold()
        .end_change();
    for (int i = 0; i < 2; ++i) {
        b.settle();
        CHECK(seen(b) == "7 a1 b1 (absent)");
        CHECK(read_all(events) == words());
        CHECK_FALSE(there);
        w->release();
    }
    b.settle();
    CHECK(seen(b) == "8 a2 (absent) c1");
    CHECK(read_all(events) == words{"~a:8", "-b:8", "+c:8"});
    CHECK(there);
}

TEST_CASE("a change of more objects than are applied at once is seen as a whole", "[informer][change]") {
    constexpr std::size_t n = 2500; // 1,000 are applied at once
    bench b(informer_options().queue_capacity(10));
    const auto w = b.sync_with({pod("a", 5)}, 7);
    auto events = b.pods.subscribe();
    read_all(events);
    w->begin_change();
    for (std::size_t i = 0; i < n; ++i) w->added(pod("p" + std::to_string(i), 8));
    w->end_change();
    std::set<std::size_t> sizes;
    while (b.pods.snapshot().resource_version().str() == "7") {
        b.context.restart();
        REQUIRE(b.context.poll_one() == 1);
        sizes.insert(b.pods.snapshot().size());
    }
    CHECK(sizes == std::set<std::size_t>{1, n + 1});
    b.settle();
    CHECK(read_all(events).size() == n);
}

TEST_CASE("events before a change do not wait for it", "[informer][change]") {
    bench b;
    const auto w = b.sync_with(a_and_b, 7);
    auto events = b.pods.subscribe();
    read_all(events);
    w->modified(pod("a", 8, "a2")).begin_change().modified(pod("b", 9, "b2")).hold();
    b.settle();
    CHECK(seen(b) == "8 a2 b1 (absent)");
    CHECK(read_all(events) == words{"~a:8"});
    w->added(pod("c", 9, "c1")).end_change();
    w->release();
    b.settle();
    CHECK(seen(b) == "9 a2 b2 c1");
    CHECK(read_all(events) == words{"~b:9", "+c:9"});
}

TEST_CASE("a watch that ends within a change is resumed before it, and no event comes twice", "[informer][change]") {
    bench b;
    const auto w = b.sync_with(a_and_b, 7);
    auto events = b.pods.subscribe();
    read_all(events);
    w->begin_change().modified(pod("a", 8, "a2")).deleted(pod("b", 8)).end();
    const auto again = b.source->on_watch();
    b.settle();
    CHECK(seen(b) == "7 a1 b1 (absent)");
    REQUIRE(again->taken());
    CHECK(b.source->calls().back().query.resource_version_ == "7");
    again->begin_change().modified(pod("a", 8, "a2")).deleted(pod("b", 8)).added(pod("c", 8, "c1")).end_change();
    b.settle();
    CHECK(seen(b) == "8 a2 (absent) c1");
    CHECK(read_all(events) == words{"~a:8", "-b:8", "+c:8"});
    CHECK(b.pods.status().relists == 0);
}

TEST_CASE("a change whose rest never comes is not seen; the state that is fetched instead is", "[informer][change]") {
    bench b;
    const auto w = b.sync_with(a_and_b, 7);
    auto events = b.pods.subscribe();
    read_all(events);
    w->begin_change()
        .modified(pod("a", 8, "a2"))
        .deleted(pod("b", 8))
        .added(pod("d", 8))
        .hold()
        .fail(status_failure(410, "Expired"));
    b.settle();
    const auto state = b.source->on_watch();
    state->added(pod("a", 6, "a0")).added(pod("c", 7, "c1")).bookmark("7", true);
    w->release();
    b.settle();
    b.pass(5s);
    CHECK(seen(b) == "7 a0 (absent) c1"); // and not of version 8
    CHECK(b.pods.status().epoch == 1);
    auto told = read_all(events);
    std::sort(told.begin(), told.end());
    CHECK(told == words{"+c:7#", "-b:6?#", "~a:6#"});
    CHECK(b.pods.status().relists == 1);
    state->deleted(pod("c", 8));
    b.settle();
    CHECK(seen(b) == "8 a0 (absent) (absent)");
}

TEST_CASE("an index that is added within a change is there at once", "[informer][change]") {
    bench b;
    const auto w = b.sync_with(a_and_b, 7);
    w->begin_change().modified(pod("a", 8, "a2")).end();
    b.settle();
    b.pods.add_index("note", index_by_pointer("/spec/note"));
    b.settle();
    CHECK(b.pods.snapshot().by_index("note", "a1").size() == 1);
    const auto again = b.source->on_watch();
    again->begin_change().modified(pod("a", 8, "a2")).deleted(pod("b", 8)).end_change();
    b.settle();
    CHECK(b.pods.snapshot().by_index("note", "a2").size() == 1);
    CHECK(b.pods.snapshot().by_index("note", "b1").size() == 0);
}

TEST_CASE("a bookmark within a change has no effect", "[informer][change]") {
    bench b;
    const auto w = b.sync_with(a_and_b, 7);
    w->begin_change().modified(pod("a", 9, "a2")).bookmark("9").end();
    b.settle();
    CHECK(seen(b) == "7 a1 b1 (absent)");
    const auto again = b.source->on_watch();
    b.settle();
    CHECK(b.source->calls().back().query.resource_version_ == "7");
}

TEST_CASE("a resync within a change repeats what is seen", "[informer][change]") {
    bench b;
    const auto w = b.sync_with(a_and_b, 7);
    auto events = b.pods.subscribe(subscription_options().resync(10s));
    b.settle();
    read_all(events);
    w->begin_change().modified(pod("a", 8, "a2")).hold().deleted(pod("b", 8)).end_change();
    b.settle();
    b.pass(10s);
    CHECK(seen(b) == "7 a1 b1 (absent)");
    auto repeated = read_all(events);
    std::sort(repeated.begin(), repeated.end());
    CHECK(repeated == words{"~a:5@", "~b:6@"});
    w->release();
    b.settle();
    CHECK(seen(b) == "8 a2 (absent) (absent)");
    CHECK(read_all(events) == words{"~a:8", "-b:8"});
}

TEST_CASE("half a change does not prove that the cache is up to date", "[informer][change]") {
    bench b;
    const auto w = b.sync_with(a_and_b, 7);
    const auto synced = b.pods.status().confirmed;
    b.clock->advance(5s);
    w->begin_change().modified(pod("a", 8, "a2")).hold().end_change();
    b.settle();
    CHECK(b.pods.status().confirmed == synced);
    w->release();
    b.settle();
    CHECK(b.pods.status().confirmed == synced + 5s);
}

TEST_CASE("a change may have a part that cannot be read, or none that is ours", "[informer][change]") {
    bench b;
    const auto w = b.sync_with(a_and_b, 7);
    auto events = b.pods.subscribe();
    read_all(events);
    w->begin_change().end_change();
    w->begin_change()
        .modified(pod("a", 8, "a2"))
        .modified(R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"b"}})")
        .end_change();
    b.settle();
    CHECK(seen(b) == "8 a2 b1 (absent)");
    CHECK(read_all(events) == words{"~a:8"});
    CHECK(b.pods.status().quarantined == 1);
}
