#include "config_maps.hpp"
#include "server_fixture.hpp"

#include <informer/http/url.hpp>
#include <informer/source/shard_selector.hpp>

#include <catch2/catch_test_macros.hpp>

using namespace server_tests;
using namespace std::chrono_literals;

namespace {

const std::string streaming = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

std::string since(const server_fixture& s, const std::string& more = {}) {
    return maps + "?watch=true&resourceVersion=" + s.server.current_resource_version() + more;
}

void expect(const watch_event& e, const std::string& type, const std::string& name) {
    CHECK(e.type == type);
    CHECK(e.name() == name);
}

} // namespace

TEST_CASE("a watch from a version reports what came after it, in order", "[api_server][watch]") {
    server_fixture s;
    s.put("a", "1");
    const auto target = since(s);
    s.put("b", "1");
    auto w = s.watch(target);
    CHECK(w.status() == 200);
    expect(w.next(), "ADDED", "b");
    s.put("a", "2");
    const auto modified = w.next();
    expect(modified, "MODIFIED", "a");
    CHECK(modified.version() == s.server.current_resource_version());
    CHECK(text_at(modified.object, "/kind") == "ConfigMap");
    CHECK(text_at(modified.object, "/data/v") == "2");
    s.server.remove("configmaps", "default", "a");
    const auto deleted = w.next();
    expect(deleted, "DELETED", "a");
    CHECK(deleted.version() == s.server.current_resource_version());
    CHECK(text_at(deleted.object, "/data/v") == "2");
    CHECK(w.quiet());
    w.close();
}

TEST_CASE("a watch without a version begins with the present objects", "[api_server][watch]") {
    server_fixture s;
    s.put("a", "1");
    s.put("b", "1");
    for (const std::string version : {"", "&resourceVersion=0"}) {
        auto w = s.watch(maps + "?watch=1" + version);
        expect(w.next(), "ADDED", "a");
        expect(w.next(), "ADDED", "b");
        CHECK(w.quiet());
        s.put("b", version + "x");
        expect(w.next(), "MODIFIED", "b");
        w.close();
    }
}

TEST_CASE("a streamed list is the state, the bookmark at its end, and the changes that follow", "[api_server][watch]") {
    server_fixture s;
    s.put("a", "1");
    s.put("b", "1");
    auto w = s.watch(maps + "?watch=1" + streaming);
    expect(w.next(), "ADDED", "a");
    expect(w.next(), "ADDED", "b");
    const auto end = w.next();
    CHECK(end.type == "BOOKMARK");
    CHECK(text_at(end.object, "/metadata/annotations/k8s.io~1initial-events-end") == "true");
    CHECK(text_at(end.object, "/kind") == "ConfigMap");
    CHECK(end.version() == s.server.current_resource_version());
    s.put("c", "1");
    expect(w.next(), "ADDED", "c");
    w.close();
    auto none = s.watch("/api/v1/namespaces/kube-public/configmaps?watch=1" + streaming);
    CHECK(none.next().type == "BOOKMARK");
    none.close();
}

TEST_CASE("streamed lists are refused if they are invalid or not supported", "[api_server][watch]") {
    server_fixture s;
    CHECK(s.ask("GET", maps + "?watch=1&sendInitialEvents=true").status == 422);
    CHECK(s.ask("GET", maps + "?watch=1&resourceVersionMatch=NotOlderThan").status == 422);
    auto future = s.watch(maps + "?watch=1&resourceVersion=99999999" + streaming);
    const auto e = future.next();
    CHECK(e.type == "ERROR");
    CHECK(text_at(e.object, "/code") == "504");
    CHECK(text_at(e.object, "/details/causes/0/reason") == "ResourceVersionTooLarge");
    CHECK(future.next().type.empty());

    server_fixture old(api_server_options().watch_list(false));
    const auto a = old.ask("GET", maps + "?watch=1" + streaming);
    CHECK(a.status == 422);
    CHECK(a.at("/details/causes/0/field") == "sendInitialEvents");
}

TEST_CASE("a watch from a forgotten version gets an error in the stream", "[api_server][watch]") {
    server_fixture s;
    const auto target = since(s);
    s.put("a", "1");
    s.server.compact();
    auto w = s.watch(target);
    CHECK(w.status() == 200);
    const auto e = w.next();
    CHECK(e.type == "ERROR");
    CHECK(text_at(e.object, "/code") == "410");
    CHECK(text_at(e.object, "/reason") == "Expired");
    CHECK(w.next().type.empty());
    CHECK_FALSE(w.failure());
    CHECK(s.watch(maps + "?watch=1&resourceVersion=1").next().type == "ERROR");
}

TEST_CASE("a server that begins above the versions of another one refuses those", "[api_server][watch]") {
    constexpr std::uint64_t first = 1'764'000'000'000'000; // as large as the microseconds since 1970
    server_fixture s(api_server_options().first_version(first));
    CHECK(s.server.current_resource_version() == std::to_string(first + 4));
    const auto e = s.watch(maps + "?watch=1&resourceVersion=1004").next();
    CHECK(e.type == "ERROR");
    CHECK(text_at(e.object, "/reason") == "Expired");
    auto w = s.watch(since(s));
    s.put("a", "1");
    expect(w.next(), "ADDED", "a");
    w.close();
}

TEST_CASE("a full history forgets its oldest changes", "[api_server][watch]") {
    server_fixture s(api_server_options().history(3));
    const auto first = since(s);
    for (int i = 0; i < 4; ++i) s.put("a", std::to_string(i));
    CHECK(s.watch(first).next().type == "ERROR");
    const auto late = since(s);
    s.put("a", "x");
    auto w = s.watch(late);
    expect(w.next(), "MODIFIED", "a");
    w.close();
}

TEST_CASE("open watches follow even a server that is to keep no history", "[api_server][watch]") {
    server_fixture s(api_server_options().history(0));
    auto w = s.watch(since(s));
    for (const char* value : {"1", "2", "3"}) {
        s.put("a", value);
        const auto e = w.next();
        CHECK(e.name() == "a");
        CHECK(text_at(e.object, "/data/v") == value);
    }
    w.close();
}

TEST_CASE("the newest version can still be read and watched after a compaction, as in etcd", "[api_server][watch]") {
    server_fixture s;
    s.put("a", "1");
    s.put("b", "1");
    const auto token = [&s] { return s.ask("GET", maps + "?limit=1").at("/metadata/continue"); };
    const auto early = token();
    s.put("c", "1");
    const auto newest = token();
    s.server.compact();
    CHECK(s.ask("GET", maps + "?limit=1&continue=" + early).status == 410);
    CHECK(s.ask("GET", maps + "?limit=1&continue=" + newest).status == 200);
    auto w = s.watch(since(s));
    s.put("d", "1");
    expect(w.next(), "ADDED", "d");
    w.close();
}

TEST_CASE("compaction leaves open watches alone", "[api_server][watch]") {
    server_fixture s;
    auto w = s.watch(since(s));
    s.put("a", "1");
    s.server.compact();
    expect(w.next(), "ADDED", "a");
    s.put("b", "1");
    expect(w.next(), "ADDED", "b");
    w.close();
}

TEST_CASE("a watch from a future version is silent until that version", "[api_server][watch]") {
    server_fixture s;
    const auto future = std::to_string(std::stoull(s.server.current_resource_version()) + 2);
    auto w = s.watch(maps + "?watch=1&resourceVersion=" + future);
    s.put("a", "1");
    s.put("b", "1");
    CHECK(w.quiet());
    s.put("c", "1");
    expect(w.next(), "ADDED", "c");
    w.close();
    CHECK(s.ask("GET", maps + "?watch=1&resourceVersion=abc").status == 500);
}

TEST_CASE("a watch with selectors shows objects entering and leaving", "[api_server][watch]") {
    server_fixture s;
    s.put("a", "1", {{"app", "x"}});
    s.put("b", "1", {{"app", "y"}});
    auto w = s.watch(since(s, "&labelSelector=app%3Dx"));
    s.put("b", "2", {{"app", "x"}});
    expect(w.next(), "ADDED", "b");
    s.put("b", "3", {{"app", "x"}});
    expect(w.next(), "MODIFIED", "b");
    s.put("b", "4", {{"app", "z"}});
    const auto left = w.next();
    expect(left, "DELETED", "b");
    CHECK(text_at(left.object, "/data/v") == "3");                // the last state that was selected …
    CHECK(left.version() == s.server.current_resource_version()); // … at the version of the change
    s.put("b", "5", {{"app", "z"}});
    s.server.remove("configmaps", "default", "b");
    CHECK(w.quiet());
    s.server.remove("configmaps", "default", "a");
    expect(w.next(), "DELETED", "a");
    w.close();
}

TEST_CASE("a watch with a shard selector shows only its part", "[api_server][watch]") {
    server_fixture s(api_server_options().sharding(true));
    std::vector<stream> parts;
    for (std::uint64_t i = 0; i < 2; ++i)
        parts.push_back(s.watch(
            since(s, "&shardSelector=" + informer::http::percent_encode(informer::shard_selector::part(i, 2).str()))));
    for (int i = 0; i < 10; ++i) {
        const std::string name = "c" + std::to_string(i);
        s.put(name, "1");
        const auto made = s.ask("GET", maps + "/" + name);
        const bool upper = informer::shard_selector::part(1, 2).contains(made.at("/metadata/uid"));
        expect(parts[upper].next(), "ADDED", name);
        CHECK(parts[!upper].quiet());
    }
    for (stream& w : parts) w.close();
}

TEST_CASE("a watch of one name or one namespace shows no other", "[api_server][watch]") {
    server_fixture s;
    auto one = s.watch(since(s, "&fieldSelector=metadata.name%3Da"));
    auto elsewhere = s.watch("/api/v1/namespaces/kube-system/configmaps?watch=1&resourceVersion=" +
                             s.server.current_resource_version());
    auto all = s.watch("/api/v1/configmaps?watch=1&resourceVersion=" + s.server.current_resource_version());
    s.put("b", "1");
    s.put("a", "1");
    expect(one.next(), "ADDED", "a");
    expect(all.next(), "ADDED", "b");
    expect(all.next(), "ADDED", "a");
    CHECK(elsewhere.quiet());
    one.close();
    all.close();
    elsewhere.close();
}

TEST_CASE("a watch ends cleanly at its time-out", "[api_server][watch]") {
    server_fixture s(api_server_options().default_watch_timeout(60s), true);
    auto timed = s.watch(since(s, "&timeoutSeconds=5"));
    auto untimed = s.watch(since(s));
    s.put("a", "1");
    expect(timed.next(), "ADDED", "a");
    s.advance(4900ms);
    CHECK(timed.quiet());
    s.advance(100ms);
    CHECK(timed.next().type.empty());
    CHECK_FALSE(timed.failure());
    s.advance(54s);
    expect(untimed.next(), "ADDED", "a");
    CHECK(untimed.quiet());
    s.advance(1s);
    CHECK(untimed.next().type.empty());
}

TEST_CASE("bookmarks come at their interval, to the watches that asked for them", "[api_server][watch]") {
    server_fixture s(api_server_options().bookmark_every(10s), true);
    auto asked = s.watch(since(s, "&allowWatchBookmarks=true"));
    auto silent = s.watch(since(s));
    s.server.create(json::parse(R"({"apiVersion":"v1","kind":"Secret","metadata":{"name":"other"}})"));
    s.advance(9900ms);
    CHECK(asked.quiet());
    s.advance(100ms);
    const auto b = asked.next();
    CHECK(b.type == "BOOKMARK");
    CHECK(b.version() == s.server.current_resource_version());
    CHECK(b.name().empty());
    s.advance(10s);
    CHECK(asked.next().type == "BOOKMARK");
    CHECK(silent.quiet());
    asked.close();
    silent.close();
}

TEST_CASE("with infinite times bookmarks never come and watches never end", "[api_server][watch]") {
    const auto for_ever = std::chrono::milliseconds::max();
    server_fixture s(api_server_options().bookmark_every(for_ever).default_watch_timeout(for_ever), true);
    auto w = s.watch(since(s, "&allowWatchBookmarks=true"));
    s.advance(std::chrono::hours(1000));
    CHECK(w.quiet());
    s.put("a", "1");
    expect(w.next(), "ADDED", "a");
    w.close();
}

TEST_CASE("a last bookmark comes before the time-out if something changed", "[api_server][watch]") {
    server_fixture s(api_server_options(), true);
    auto w = s.watch(since(s, "&allowWatchBookmarks=true&timeoutSeconds=5"));
    auto unchanged =
        s.watch(maps + "?watch=1&allowWatchBookmarks=true&timeoutSeconds=5&labelSelector=none&resourceVersion=" +
                std::to_string(std::stoull(s.server.current_resource_version()) + 1));
    s.server.create(
        json::parse(R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"kube-system"}})"));
    s.advance(2900ms);
    CHECK(w.quiet());
    s.advance(100ms);
    CHECK(w.next().type == "BOOKMARK");
    CHECK(unchanged.quiet());
    s.advance(2s);
    CHECK(w.next().type.empty());
    CHECK(unchanged.next().type.empty());
}

TEST_CASE("bookmarks, ends and expiry come on demand", "[api_server][watch]") {
    server_fixture s;
    auto w = s.watch(since(s, "&allowWatchBookmarks=true"));
    auto plain = s.watch(since(s));
    REQUIRE(s.run_until([&] { return s.server.open_watches() == 2; }));
    s.server.send_bookmarks();
    CHECK(w.next().type == "BOOKMARK");
    CHECK(plain.quiet());
    s.put("a", "1");
    s.server.end_watches();
    expect(w.next(), "ADDED", "a"); // pending events are sent
    CHECK(w.next().type.empty());
    CHECK_FALSE(w.failure());
    expect(plain.next(), "ADDED", "a");
    CHECK(plain.next().type.empty());
    CHECK(s.server.open_watches() == 0);
    auto third = s.watch(since(s));
    s.server.expire_watches();
    const auto e = third.next();
    CHECK(e.type == "ERROR");
    CHECK(text_at(e.object, "/code") == "410");
    CHECK(third.next().type.empty());
}

TEST_CASE("a closed watch is noticed", "[api_server][watch]") {
    server_fixture s;
    auto w = s.watch(since(s));
    REQUIRE(s.server.open_watches() == 1);
    w.close();
    CHECK(s.run_until([&] { return s.server.open_watches() == 0; }));
}

TEST_CASE("watchers that read slowly get everything, in order", "[api_server][watch]") {
    server_fixture s;
    const std::string big(20'000, 'x');
    std::vector<stream> watchers;
    for (int i = 0; i < 4; ++i) watchers.push_back(s.watch(since(s)));
    constexpr int changes = 400; // 8 MB to each: more than the sockets hold
    for (int i = 0; i < changes; ++i) {
        s.put("m", std::to_string(i) + big);
        if (i % 50 == 0) s.settle();
    }
    for (auto& w : watchers) {
        std::uint64_t last = 0;
        for (int i = 0; i < changes; ++i) {
            const auto e = w.next();
            REQUIRE(e.type == (i == 0 ? "ADDED" : "MODIFIED"));
            REQUIRE(text_at(e.object, "/data/v") == std::to_string(i) + big);
            const auto version = std::stoull(e.version());
            REQUIRE(version > last);
            last = version;
        }
        w.close();
    }
}

TEST_CASE("a watcher that falls behind the history is dropped, not fed with gaps", "[api_server][watch]") {
    server_fixture s(api_server_options().history(50));
    const std::string big(100'000, 'x');
    auto w = s.watch(since(s));
    for (int i = 0; i < 300; ++i) {
        s.put("m", std::to_string(i) + big);
        if (i % 10 == 0) s.settle();
    }
    const auto seen = w.rest();
    CHECK(seen.size() < 300);
    std::uint64_t last = 0;
    for (const auto& e : seen) { // no version of this object is left out before the end
        const auto version = std::stoull(e.version());
        if (last != 0) REQUIRE(version == last + 1);
        last = version;
    }
}

TEST_CASE("listening can stop and begin again on the same port with all state", "[api_server]") {
    server_fixture s;
    s.put("a", "1");
    auto w = s.watch(since(s));
    const auto port = s.server.port();
    s.server.stop_listening();
    CHECK(w.next().type.empty());
    CHECK(w.failure() == informer::condition::transport);
    CHECK(s.ask("GET", maps).f == informer::errc::connection_refused);
    s.put("b", "1");
    s.server.start_listening();
    CHECK(s.server.port() == port);
    CHECK(s.ask("GET", maps + "/a").status == 200);
    CHECK(s.ask("GET", maps + "/b").status == 200);
}

TEST_CASE("connections can be dropped, and clients can connect again", "[api_server]") {
    server_fixture s;
    auto w = s.watch(since(s));
    s.server.drop_connections();
    CHECK(w.next().type.empty());
    CHECK(w.failure() == informer::condition::transport);
    CHECK(s.ask("GET", maps).status == 200);
}

TEST_CASE("a restored checkpoint goes back in time", "[api_server]") {
    server_fixture s;
    s.put("a", "1");
    const auto then = s.server.current_resource_version();
    const auto point = s.server.checkpoint();
    auto w = s.watch(since(s));
    s.put("a", "2");
    s.put("b", "1");
    const auto later = s.server.current_resource_version();
    expect(w.next(), "MODIFIED", "a");
    s.server.restore(point);
    CHECK(s.server.current_resource_version() == then);
    CHECK(s.ask("GET", maps + "/a").at("/data/v") == "1");
    CHECK(s.ask("GET", maps + "/b").status == 404);
    w.rest();
    CHECK(w.failure() == informer::condition::transport);
    auto again = s.watch(maps + "?watch=1&resourceVersion=" + later);
    s.put("c", "1");
    CHECK(again.quiet()); // its version lies in a future that may never come
    again.close();
    CHECK_THROWS_AS(s.server.restore(99), informer::error);
}

TEST_CASE("a flag is true unless it is absent, 0 or false", "[api_server][watch]") {
    server_fixture s;
    s.put("a", "1");
    for (const std::string query : {"?watch=True", "?watch=yes", "?watch=", "?watch"}) {
        auto w = s.watch(maps + query);
        INFO(query);
        CHECK(w.next().type == "ADDED");
        w.close();
    }
    for (const std::string query : {"", "?watch=0", "?watch=false", "?watch=False"})
        CHECK(s.ask("GET", maps + query).at("/kind") == "ConfigMapList");
    auto w = s.watch(maps + "?watch=1&sendInitialEvents=yes&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=yes");
    CHECK(w.next().type == "ADDED");
    CHECK(w.next().type == "BOOKMARK");
    w.close();
}
