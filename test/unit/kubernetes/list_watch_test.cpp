#include "list_watch_scene.hpp"

#include "kubernetes/kubernetes_list_watch.hpp"

#include <informer/cache/shared_informer.hpp>
#include <informer/task_group.hpp>

#include <boost/json.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include <stdexcept>

using namespace kubernetes_test;
using namespace std::chrono_literals;

// ---- requests -------------------------------------------------------------------------------------------------------

TEST_CASE("list: the query is client-go's") {
    bench b;
    failure f;
    const auto sent = [&](const list_options& o) {
        b.answers->next.emplace_back(pod_list({}));
        recorder sink;
        list(b, sink, f, o);
        return b.answers->lines.back();
    };
    CHECK(sent(list_options()) == "GET /api/v1/pods");
    CHECK(sent(list_options().limit(500).resource_version("0")) == "GET /api/v1/pods?limit=500&resourceVersion=0");
    CHECK(sent(list_options().limit(500).continue_token("a=b&c").resource_version("7").resource_version_match(
              "Exact")) == "GET /api/v1/pods?continue=a%3Db%26c&limit=500"); // X18: never both
    CHECK(sent(list_options()
                   .resource_version("7")
                   .resource_version_match("NotOlderThan")
                   .labels("app in (a, b)")
                   .fields("spec.nodeName=n1")) == "GET "
                                                   "/api/v1/"
                                                   "pods?fieldSelector=spec.nodeName%3Dn1&labelSelector=app%20in%20%"
                                                   "28a%2C%20b%29&resourceVersion=7&resourceVersionMatch=NotOlderThan");
    CHECK(sent(list_options().resource_version_match("Exact")) == "GET /api/v1/pods");
    const shard_selector half = shard_selector::part(0, 2);
    const auto with_shard = sent(list_options().shard(half).limit(5).continue_token("t"));
    CHECK(with_shard.find("continue=t&limit=5&shardSelector=shardRange") != std::string::npos);
}

TEST_CASE("watch: the query is client-go's") {
    bench b;
    failure f;
    const auto sent = [&](const watch_options& o) {
        b.answers->next.push_back(reply().streamed({}));
        recorder sink;
        watch(b, sink, f, o);
        CHECK_FALSE(f);
        return b.answers->lines.back();
    };
    CHECK(sent(watch_options().resource_version("42").timeout(432s)) ==
          "GET /api/v1/pods?allowWatchBookmarks=true&resourceVersion=42&timeoutSeconds=432&watch=true");
    CHECK(sent(watch_options().send_initial_events().timeout(432s)) ==
          "GET "
          "/api/v1/"
          "pods?allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=432&"
          "watch=true");
    CHECK(sent(watch_options().bookmarks(false).labels("a=b").fields("c=d").timeout(0s)) ==
          "GET /api/v1/pods?fieldSelector=c%3Dd&labelSelector=a%3Db&watch=true");
    CHECK(sent(watch_options().bookmarks(false).send_initial_events().timeout(0s)) == // the end is a bookmark
          "GET /api/v1/pods?allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&"
          "watch=true");
    const auto with_shard = sent(watch_options().shard(shard_selector::part(0, 2)).timeout(0s));
    CHECK(with_shard.find("allowWatchBookmarks=true&shardSelector=shardRange") != std::string::npos);
}

TEST_CASE("list_watch: compressed answers are requested only if the configuration says so") {
    bench b;
    const auto encoding = [&](bool on) {
        client_config config = b.config;
        config.gzip = on;
        const client other(b.rt, config);
        b.answers->next.emplace_back(pod_list({}));
        recorder sink;
        failure f;
        b.run(other.make_list_watch(pods())->list(list_options(), sink, f));
        CHECK_FALSE(f);
        return std::string(b.answers->requests.back().header("Accept-Encoding"));
    };
    CHECK(encoding(false).empty());
    CHECK(encoding(true) == "gzip");
}

TEST_CASE("list_watch: it says what it reads") {
    bench b;
    CHECK(source(b)->describe() == "pods");
    CHECK(b.api->make_list_watch(deployments(), "ns1")->describe() == "deployments.apps in ns1");
    CHECK(b.api->make_list_watch(deployments())->resource() == deployments());
    const list_watch_factory of_each = b.api->list_watches();
    CHECK(of_each(deployments(), "ns1")->describe() == "deployments.apps in ns1");
    CHECK(of_each(pods(), "")->describe() == "pods");
    CHECK(b.api->make_list_watch(pods(), "ns1")->name_space() == "ns1");
    CHECK(of_each(api_resource("", "v1", "nodes", "Node", false), "ns1")->name_space().empty());
    shared_informer in_ns1(b.rt, b.api->make_list_watch(pods(), "ns1"));
    CHECK_THROWS_MATCHES(in_ns1.lister().in("ns2").list(), error,
                         Catch::Matchers::Message("list pods in ns1: namespace \"ns2\": not cached"));
    const std::function<bool(const object&)> gone = [](const object& o) { return !o; };
    CHECK_THROWS_MATCHES(b.run(in_ns1.until("ns2/a", gone, 1h)), error,
                         Catch::Matchers::Message("pods in ns1: wait for a state of ns2/a: not cached"));
    failure f;
    b.answers->next.emplace_back(pod_list({}));
    recorder sink;
    b.run(b.api->make_list_watch(deployments(), "ns1")->list(list_options(), sink, f));
    CHECK(b.answers->lines.back() == "GET /apis/apps/v1/namespaces/ns1/deployments");
    b.run(b.api->make_list_watch(pods(), "a/b")->list(list_options(), sink, f));
    CHECK(f == errc::bad_request);
}

TEST_CASE("list_watch: what was learnt about watch-list is shared by the resources of a group") {
    bench b;
    const auto first = source(b), second = source(b, "ns1");
    CHECK(first->watch_list() == watch_list_support::unknown);
    first->learnt(watch_list_support::no);
    CHECK(second->watch_list() == watch_list_support::no);
    CHECK(b.api->make_list_watch(deployments())->watch_list() == watch_list_support::unknown);
}

TEST_CASE("list_watch: that a server has no watch-list is believed for an hour, that it has it for good") {
    bench b;
    const auto pods = source(b), others = b.api->make_list_watch(deployments());
    pods->learnt(watch_list_support::no);
    others->learnt(watch_list_support::yes);
    b.clock->advance(59min);
    CHECK(pods->watch_list() == watch_list_support::no);
    b.clock->advance(1min);
    CHECK(pods->watch_list() == watch_list_support::unknown);
    CHECK(others->watch_list() == watch_list_support::yes);
}

// ---- list -----------------------------------------------------------------------------------------------------------

TEST_CASE("list: items, version, token and the number that remains") {
    bench b;
    b.answers->next.emplace_back(pod_list({pod("a", "1"), pod("b", "2")},
                                          R"({"resourceVersion":"100","continue":"next","remainingItemCount":3})"));
    recorder sink;
    failure f;
    const auto r = list(b, sink, f);
    CHECK_FALSE(f);
    CHECK(sink.lines == lines{"opened", "item default/a 1", "item default/b 2"});
    CHECK(r.resource_version.str() == "100");
    CHECK(r.continue_token == "next");
    CHECK(r.items == 2);
    CHECK(r.remaining == 3U);
    CHECK(sink.bytes > 100);
    const object o = sink.objects.at(object_key("default", "a"));
    CHECK(o.kind() == "Pod"); // the list omits it
    CHECK(o.api_version() == "v1");
}

TEST_CASE("list: the same object again is the same handle") {
    bench b;
    recorder sink;
    failure f;
    b.answers->next.emplace_back(pod_list({pod("a")}));
    list(b, sink, f);
    const object before = sink.objects.at(object_key("default", "a"));
    b.answers->next.emplace_back(pod_list({pod("a")}));
    list(b, sink, f);
    CHECK(before.same_as(sink.objects.at(object_key("default", "a"))));
}

TEST_CASE("list: an empty list and null items are fine") {
    bench b;
    recorder sink;
    failure f;
    b.answers->next.emplace_back(pod_list({}));
    CHECK(list(b, sink, f).items == 0);
    CHECK_FALSE(f);
    b.answers->next.emplace_back(
        R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":null})");
    CHECK(list(b, sink, f).resource_version.str() == "5");
    CHECK_FALSE(f);
    b.answers->next.emplace_back(R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"6"}})");
    CHECK(list(b, sink, f).resource_version.str() == "6");
    CHECK_FALSE(f);
}

TEST_CASE("list: wherever it is cut, the connection is lost and no item is delivered in part") {
    const std::string whole = pod_list({pod("a"), pod("b")}, R"({"resourceVersion":"100"})");
    for (std::size_t cut = 0; cut < whole.size(); cut += 7) {
        bench b;
        b.answers->next.push_back(reply().streamed({whole.substr(0, cut)}, reply::cut));
        recorder sink;
        failure f;
        list(b, sink, f);
        INFO(cut << " " << f.what());
        CHECK(f == errc::connection_lost);
        CHECK(sink.bad.empty());
        // The same holds if the message ends properly but too early.
        b.answers->next.push_back(reply().streamed({whole.substr(0, cut)}));
        list(b, sink, f);
        CHECK(f == errc::connection_lost);
    }
}

TEST_CASE("list: chunk boundaries mean nothing") {
    const std::string whole = pod_list({pod("a\\u00e9"), pod("b")});
    std::vector<std::string> bytes;
    for (const char c : whole) bytes.emplace_back(1, c);
    bench b;
    b.answers->next.push_back(reply().streamed(bytes));
    recorder sink;
    failure f;
    CHECK(list(b, sink, f).items == 2);
    CHECK_FALSE(f);
}

TEST_CASE("list and watch-list: an endless stream of blanks ends like silence") {
    const bool by_watch = GENERATE(true, false);
    CAPTURE(by_watch);
    bench b;
    const std::string list = pod_list({pod("a"), pod("b")});
    std::vector<std::string> drips =
        by_watch ? std::vector<std::string>{watch_event("ADDED", pod("a"))}
                 : std::vector<std::string>{list.substr(0, list.find(",{\"metadata\":{\"name\":\"b\""))};
    drips.insert(drips.end(), 1000, " \n");
    b.answers->next.push_back(reply().streamed(drips, reply::stall).every(5s));
    shared_informer here(b.rt, b.api->make_list_watch(pods()), informer_options().watch_list(by_watch));
    task_group tasks(b.io.get_executor());
    tasks.spawn(here.run());
    // or a list takes the place of the watch-list
    const auto given_up = [&] { return here.status().last_error || b.answers->lines.size() > 1; };
    for (std::size_t drop = 1; drop <= 40 && !given_up(); ++drop) {
        b.until([&] { return b.answers->asleep == drop; });
        b.clock->advance(5s);
        b.until([&] { return b.answers->written == drop; });
        while (b.io.poll() != 0) {
        }
    }
    CHECK(given_up());
    if (!by_watch) CHECK(here.status().last_error == errc::body_idle_timeout);
    here.stop();
    b.run(tasks.join());
}

TEST_CASE("list: bad items are quarantined by key or position, the others arrive") {
    bench b;
    const std::string big = R"({"metadata":{"name":"x","namespace":"default"},"v":)";
    b.answers->next.emplace_back(
        pod_list({pod("a"), R"({"metadata":{"name":"syntax","namespace":"default"},"v":tru})",
                  R"({"metadata":{"name":"utf8","namespace":"default"},"v":")"
                  "\xff"
                  R"("})",
                  R"({"spec":{}})", R"({"metadata":{"name":""}})", R"({"metadata":{"name":7,"resourceVersion":"3"}})",
                  R"({"metadata":"none"})", "7", "\"text\"", "[1]", "null", nested(2000), pod("z")}));
    recorder sink;
    failure f;
    const auto r = list(b, sink, f);
    INFO(f.what());
    CHECK_FALSE(f);
    CHECK(r.items == 2);
    CHECK(sink.lines.back() == "item default/z 1");
    REQUIRE(sink.bad.size() == 11);
    const std::vector<errc> expected{errc::syntax_error,  errc::bad_utf8,      errc::no_metadata,   errc::no_metadata,
                                     errc::no_metadata,   errc::no_metadata,   errc::not_an_object, errc::not_an_object,
                                     errc::not_an_object, errc::not_an_object, errc::too_deep};
    for (std::size_t i = 0; i < expected.size(); ++i) {
        INFO(i << " " << sink.bad[i].why.what());
        CHECK(sink.bad[i].why == expected[i]);
        CHECK(sink.bad[i].position == i + 1);
        CHECK(sink.bad[i].from_list);
    }
    CHECK(sink.bad[0].key == object_key("default", "syntax"));
    CHECK(sink.bad[1].key == object_key("default", "utf8"));
    CHECK(sink.bad[2].key.empty());
    CHECK(sink.bad[4].resource_version.str() == "3");
    CHECK(sink.bad[0].why.message() == "list pods: decode default/syntax: syntax error at byte 56");
    CHECK(sink.bad[2].why.message() == "list pods: decode object 3");
}

TEST_CASE("list and watch: a bad object tells its uid, however it is bad") {
    const std::string head = R"({"metadata":{"name":"a","namespace":"default","uid":"u-1"},"v":)";
    const std::string large = "\"" + std::string(300'000, 'x') + "\"";
    bench b;
    recorder sink;
    failure f;
    SECTION("in a list") {
        b.answers->next.emplace_back(
            pod_list({head + "tru}", head + "\"\xff\"}", head + std::string(2000, '[') + std::string(2000, ']') + "}",
                      head + "[" + large + ",nul]}"}));
        list(b, sink, f);
        CHECK(sink.bad.size() == 4);
    }
    SECTION("in a watch") {
        b.answers->next.push_back(
            reply().streamed({watch_event("MODIFIED", head + "tru}"), watch_event("STRANGE", head + "true}"),
                              watch_event("DELETED", head + "[" + large + ",nul]}")}));
        watch(b, sink, f);
        CHECK(sink.bad.size() == 3);
    }
    SECTION("too large") {
        b.config.max_object = 100'000;
        b.api.emplace(b.rt, b.config);
        b.answers->next.emplace_back(pod_list({head + large + "}"}));
        list(b, sink, f);
        b.answers->next.push_back(reply().streamed({watch_event("MODIFIED", head + large + "}")}));
        watch(b, sink, f);
        CHECK(sink.bad.size() == 2);
    }
    CHECK_FALSE(f);
    for (const auto& bad : sink.bad) {
        CAPTURE(bad.why.what());
        CHECK(bad.key == object_key("default", "a"));
        CHECK(bad.uid == "u-1");
    }
}

TEST_CASE("list: a sink without objects is not asked for older versions, and bad items still have their keys") {
    bench b;
    b.answers->next.emplace_back(
        pod_list({R"({"metadata":{"name":"one","namespace":"default"},"v":tru})",
                  R"({"metadata":{"name":"two","namespace":"default"},"v":fals})", pod("a"), pod("b"), pod("c")}));
    recorder sink;
    sink.asks_always = false;
    failure f;
    CHECK(list(b, sink, f).items == 3);
    CHECK_FALSE(f);
    CHECK(sink.asked == 2); // for "b" and "c": the sink holds "a" by then
    REQUIRE(sink.bad.size() == 2);
    CHECK(sink.bad[0].key == object_key("default", "one"));
    CHECK(sink.bad[1].key == object_key("default", "two"));
}

TEST_CASE("list: what is told of one bad item is not told of the next") {
    bench b;
    b.answers->next.emplace_back(
        pod_list({pod("a"), "7", R"({"metadata":{"name":7,"uid":"u-1","resourceVersion":"3"}})", "[8]", pod("b")}));
    struct : testing::object_recorder {
        using testing::object_recorder::object_recorder;
        bool has_previous() const override { return asked == 0; } // only for the first item
    } sink(document_pool::make(decode_options().type("v1", "Pod")));
    failure f;
    const auto from = source(b);
    CHECK(b.run(from->list(list_options(), sink, f)).items == 2);
    CHECK_FALSE(f);
    CHECK(sink.asked == 1);
    REQUIRE(sink.bad.size() == 3);
    CHECK(sink.bad[0].key.empty());
    CHECK(sink.bad[0].position == 1);
    CHECK(sink.bad[1].uid == "u-1");
    CHECK(sink.bad[1].resource_version.str() == "3");
    CHECK(sink.bad[2].key.empty());
    CHECK(sink.bad[2].uid.empty());
    CHECK(sink.bad[2].resource_version.empty());
    CHECK(sink.bad[2].why == errc::not_an_object);
    CHECK(sink.bad[2].from_list);
    CHECK(sink.bad[2].position == 3);
}

TEST_CASE("list and watch: a transform that fails sees each object once all the same") {
    const std::vector<std::pair<errc, transform>> all = {
        {errc::bad_configuration, [](boost::json::value&) { throw std::runtime_error("no such luck"); }},
        {errc::not_an_object, [](boost::json::value& v) { v = boost::json::array(); }},
        {errc::no_metadata, [](boost::json::value& v) { v.as_object().erase("metadata"); }},
        {errc::bad_configuration, [](boost::json::value& v) {
             for (int i = 0; i < 1100; ++i) v = boost::json::object{{"deeper", std::move(v)}};
         }}};
    for (const auto& [code, fails] : all) {
        CAPTURE(code);
        int calls = 0;
        bench b;
        b.answers->next.emplace_back(pod_list({pod("a"), pod("b"), pod("c"), pod("d"), pod("e")}));
        b.answers->next.push_back(reply().streamed({watch_event("ADDED", pod("f"))}));
        recorder sink(document_pool::make(decode_options().transform_with([&, act = fails](boost::json::value& v) {
            ++calls;
            act(v);
        })));
        failure f;
        CHECK(list(b, sink, f).items == 0);
        CHECK_FALSE(f);
        watch(b, sink, f);
        CHECK_FALSE(f);
        CHECK(calls == 6);
        REQUIRE(sink.bad.size() == 6);
        for (std::size_t i = 0; i < 6; ++i) {
            CHECK(sink.bad[i].why == code);
            CHECK(sink.bad[i].key == object_key("default", std::string(1, static_cast<char>('a' + i))));
        }
    }
}

TEST_CASE("list: items that hold objects like themselves arrive whole") {
    bench b;
    std::vector<std::string> items;
    for (int i = 0; i < 40; ++i) {
        items.push_back(pod("plain" + std::to_string(i)));
        items.push_back(
            R"({"metadata":{"name":"set)" + std::to_string(i) + R"(","namespace":"default","resourceVersion":"1"},)" +
            R"("templates":[{"metadata":{"name":"x"}},{"metadata":{"name":"y"}},{"metadata":{"name":"z"}}]})");
    }
    b.answers->next.emplace_back(pod_list(items));
    recorder sink;
    failure f;
    const auto r = list(b, sink, f);
    CHECK_FALSE(f);
    CHECK(r.items == 80);
    CHECK(sink.bad.empty());
    CHECK(sink.lines.back() == "item default/set39 1");
}

TEST_CASE("list: an item over 64 MiB is quarantined, the others arrive") {
    bench b;
    std::vector<std::string> pieces{
        R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[)" + pod("a") +
        R"(,{"metadata":{"name":"big","namespace":"default"},"v":")"};
    for (int i = 0; i < 65; ++i) pieces.emplace_back(1 << 20, 'x');
    pieces.push_back("\"}," + pod("z") + "]}");
    b.answers->next.push_back(reply().streamed(pieces));
    recorder sink;
    failure f;
    CHECK(list(b, sink, f).items == 2);
    CHECK_FALSE(f);
    REQUIRE(sink.bad.size() == 1);
    CHECK(sink.bad[0].why == errc::too_large);
    CHECK(sink.bad[0].key == object_key("default", "big"));
}

TEST_CASE("list and watch: a full pool fails the request, and no object is blamed") {
    informer::detail::pool_limits limits;
    limits.max_bytes = 64 * 1024;
    limits.first_chunk = 1024;
    const std::string large =
        R"({"metadata":{"name":"large","namespace":"default"},"v":")" + std::string(100'000, 'x') + "\"}";
    bench b;
    recorder sink(informer::detail::make_pool(decode_options(), limits));
    failure f;
    b.answers->next.emplace_back(pod_list({pod("a"), large}));
    list(b, sink, f);
    INFO(f.what());
    CHECK(f == errc::pool_full);
    CHECK(sink.bad.empty());
    b.answers->next.push_back(reply().streamed({watch_event("ADDED", large)}, reply::stall));
    watch(b, sink, f);
    CHECK(f == errc::pool_full);
    CHECK(f.message().starts_with("watch pods: decode"));
}

TEST_CASE("list: an answer with items is a list, whatever its kind is called") {
    bench b;
    recorder sink;
    failure f;
    const std::string head =
        R"({"kind":"FooCollection","apiVersion":"example.com/v1","metadata":{"resourceVersion":"7"})";
    for (const std::string items : {"null", "[]"}) {
        b.answers->next.emplace_back(head + R"(,"items":)" + items + "}");
        const auto result = list(b, sink, f);
        CHECK_FALSE(f);
        CHECK(result.items == 0);
        CHECK(result.resource_version.str() == "7");
    }
    b.answers->next.emplace_back(head + R"(,"items":[)" + pod("a") + "]}");
    CHECK(list(b, sink, f).items == 1);
    CHECK_FALSE(f);
    b.answers->next.emplace_back(head + "}");
    list(b, sink, f);
    CHECK(f.message() == "list pods: the answer is no list but a FooCollection");
}

TEST_CASE("list: an answer that is no list is refused") {
    bench b;
    recorder sink;
    failure f;
    for (const auto* text :
         {R"({"kind":"Table","metadata":{"resourceVersion":"1"},"rows":[]})", "{}", R"({"kind":"PodList"})",
          R"({"kind":"PodList","metadata":[],"items":[]})", R"({"metadata":{"resourceVersion":"1"},"items":[]})",
          R"({"kind":"PodList","metadata":{"resourceVersion":"1"},"items":{}})",
          R"({"kind":"PodList","metadata":{"resourceVersion":1 2},"items":[]})"}) {
        b.answers->next.emplace_back(text);
        list(b, sink, f);
        INFO(text << " " << f.what());
        CHECK(f == errc::bad_response);
    }
    b.answers->next.push_back(reply("<html><body>please log in</body></html>").type("text/html; charset=utf-8"));
    list(b, sink, f);
    CHECK(f == condition::protocol);
    CHECK(f.message().find("an answer of type text/html") != std::string::npos);
    b.answers->next.emplace_back(status(500, "InternalError", "inside 200"));
    list(b, sink, f);
    CHECK(f == errc::server_error);
    CHECK(f.what().find("inside 200") != std::string::npos);
}

TEST_CASE("list: a list without metadata has no version, and no further page") {
    bench b;
    for (const std::string metadata : {"", R"(,"metadata":{})", R"(,"metadata":null)"}) {
        b.answers->next.emplace_back(R"({"kind":"PodList","apiVersion":"v1")" + metadata + R"(,"items":[)" + pod("a") +
                                     "]}");
        recorder sink;
        failure f;
        const auto r = list(b, sink, f);
        INFO(metadata << " " << f.what());
        CHECK_FALSE(f);
        CHECK(r.items == 1);
        CHECK(r.resource_version.empty());
        CHECK(r.continue_token.empty());
    }
}

TEST_CASE("list: refusals keep the server's words and are not retried here") {
    bench b;
    recorder sink;
    failure f;
    b.answers->next.emplace_back(403, status(403, "Forbidden", "User cannot list pods"));
    list(b, sink, f);
    CHECK(f == errc::forbidden);
    CHECK(f.what() == "list pods: forbidden: User cannot list pods");
    b.answers->next.push_back(
        reply(429, "Too many requests, please try again later.").type("text/plain").header("Retry-After", "1"));
    list(b, sink, f);
    CHECK(f == errc::too_many_requests);
    REQUIRE(f.status());
    CHECK(f.status()->retry_after == 1s);
    CHECK(f.status()->message == "Too many requests, please try again later.");
    CHECK(b.answers->lines.size() == 2);
    CHECK(sink.lines.empty()); // never opened
}

TEST_CASE("list: a sink that has seen enough ends it without failure") {
    bench b;
    b.answers->next.push_back(reply().streamed({pod_list({pod("a")}).substr(0, 90)}, reply::stall));
    recorder sink;
    sink.enough = 0;
    failure f;
    list(b, sink, f);
    CHECK_FALSE(f);
}

// ---- 410 in all four places -----------------------------------------------------------------------------------------

TEST_CASE("410: it means gone for a list, for continue, for opening a watch and as an ERROR event") {
    bench b;
    recorder sink;
    failure f;
    const std::string expired = status(410, "Expired", "too old resource version: 1 (2)");
    b.answers->next.emplace_back(410, expired);
    list(b, sink, f, list_options().resource_version("1"));
    CHECK(f == errc::gone);
    b.answers->next.emplace_back(
        410, R"({"kind":"Status","apiVersion":"v1","metadata":{"continue":"fresh"},"status":"Failure",
        "message":"The provided continue parameter is too old","reason":"Expired","code":410})");
    list(b, sink, f, list_options().continue_token("old"));
    CHECK(f == errc::gone);
    REQUIRE(f.status());
    CHECK(f.status()->continue_token == "fresh");
    b.answers->next.emplace_back(410, expired);
    watch(b, sink, f);
    CHECK(f == errc::gone);
    CHECK(sink.lines.empty());
    b.answers->next.push_back(reply().streamed({watch_event("ERROR", expired)}));
    watch(b, sink, f);
    CHECK(f == errc::gone);
    CHECK(f.what() == "watch pods: gone: too old resource version: 1 (2)");
    CHECK(sink.lines == lines{"opened"});
}
