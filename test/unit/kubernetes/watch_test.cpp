#include "list_watch_scene.hpp"

#include "kubernetes/kubernetes_list_watch.hpp"

#include <informer/task_group.hpp>

#include <boost/json.hpp>

#include <catch2/catch_test_macros.hpp>

#include <stdexcept>

using namespace kubernetes_test;
using namespace std::chrono_literals;

TEST_CASE("watch: events and bookmarks arrive in order, a clean end is no failure") {
    bench b;
    b.answers->next.push_back(reply().streamed(
        {watch_event("ADDED", pod("a", "1")) + watch_event("MODIFIED", pod("a", "2")), bookmark("5"),
         watch_event("DELETED", pod("a", "6")), bookmark("7", R"({"k8s.io/initial-events-end":"true"})"),
         bookmark("8", R"({"k8s.io/initial-events-end":"false"})")}));
    recorder sink;
    failure f;
    watch(b, sink, f);
    CHECK_FALSE(f);
    CHECK(sink.lines == lines{"opened", "added default/a 1", "modified default/a 2", "bookmark 5",
                              "deleted default/a 6", "bookmark 7 end", "bookmark 8"});
}

TEST_CASE("watch: wherever the stream is split, the result is the same") {
    const std::string all = watch_event("ADDED", pod("a", "1")) + bookmark("5") + watch_event("DELETED", pod("a", "6"));
    for (std::size_t cut = 1; cut < all.size(); cut += 3) {
        bench b;
        b.answers->next.push_back(reply().streamed({all.substr(0, cut), all.substr(cut)}));
        recorder sink;
        failure f;
        watch(b, sink, f);
        CHECK_FALSE(f);
        CHECK(sink.lines == lines{"opened", "added default/a 1", "bookmark 5", "deleted default/a 6"});
    }
    std::vector<std::string> bytes;
    for (const char c : all) bytes.emplace_back(1, c);
    bench b;
    b.answers->next.push_back(reply().streamed(bytes));
    recorder sink;
    failure f;
    watch(b, sink, f);
    CHECK(sink.lines.size() == 4);
}

TEST_CASE("watch: members in the other order and no line ends are fine") {
    bench b;
    b.answers->next.push_back(reply().streamed({R"({"object":)" + pod("a", "1") + R"(,"type":"ADDED"})" +
                                                R"({"object":)" + pod("b", "2") + R"(,"type":"ADDED"})"}));
    recorder sink;
    failure f;
    watch(b, sink, f);
    CHECK(sink.lines == lines{"opened", "added default/a 1", "added default/b 2"});
}

TEST_CASE("watch: wherever the stream is cut, no event is delivered in part, and the connection is lost") {
    const std::string first = watch_event("ADDED", pod("a", "1")), all = first + watch_event("ADDED", pod("b", "2"));
    for (std::size_t cut = 0; cut < all.size(); cut += 5) {
        bench b;
        b.answers->next.push_back(reply().streamed({all.substr(0, cut)}, reply::cut));
        recorder sink;
        failure f;
        watch(b, sink, f);
        INFO(cut << " " << f.what());
        CHECK(f == errc::connection_lost);
        CHECK(sink.bad.empty());
        CHECK(sink.lines.size() == (cut >= first.size() - 1 ? 2U : 1U));
    }
}

TEST_CASE("watch: an end in the middle of an event is a lost connection, though the message is complete") {
    bench b;
    b.answers->next.push_back(reply().streamed({watch_event("ADDED", pod("a", "1")) + R"({"type":"ADDED","obj)"}));
    recorder sink;
    failure f;
    watch(b, sink, f);
    CHECK(f == errc::connection_lost);
    CHECK(sink.lines.size() == 2);
}

TEST_CASE("watch: bad events are quarantined and the stream goes on") {
    bench b;
    b.answers->next.push_back(reply().streamed(
        {watch_event("MODIFIED", R"({"metadata":{"name":"x","namespace":"default"},"v":tru})"),
         watch_event("DELETED", R"({"metadata":{"name":"u","namespace":"default"},"v":")"
                                "\xff"
                                R"("})"),
         watch_event("ADDED", R"({"metadata":{}})"), watch_event("ADDED", "7"), watch_event("ADDED", nested(2000)),
         watch_event("MOVED", pod("m")), R"({"object":)" + pod("n") + "}\n",
         watch_event("BOOKMARK", R"({"metadata":nul})"), R"({"type":"ADDED"})", watch_event("ADDED", pod("z", "9"))}));
    recorder sink;
    failure f;
    watch(b, sink, f);
    INFO(f.what());
    CHECK_FALSE(f);
    CHECK(sink.lines.back() == "added default/z 9");
    const std::vector<errc> expected{errc::syntax_error, errc::bad_utf8,     errc::no_metadata,  errc::not_an_object,
                                     errc::too_deep,     errc::bad_response, errc::bad_response, errc::bad_response};
    REQUIRE(sink.bad.size() == expected.size() + 1);
    for (std::size_t i = 0; i < expected.size(); ++i) {
        INFO(i << " " << sink.bad[i].why.what());
        CHECK(sink.bad[i].why == expected[i]);
        CHECK_FALSE(sink.bad[i].from_list);
    }
    CHECK(sink.bad[0].type == watch_event_type::modified);
    CHECK(sink.bad[0].key == object_key("default", "x"));
    CHECK(sink.bad[1].type == watch_event_type::deleted);
    CHECK(sink.bad[5].key == object_key("default", "m"));
    CHECK(sink.bad[5].why.message() == "watch pods: event 5 has the unknown type 'MOVED'");
}

TEST_CASE("watch: what is parsed in one step is refused if it is large") {
    bench b;
    const std::string filler(300'000, 'x'), status = R"({"kind":"Status","code":410,"reason":"Expired","message":")";
    b.answers->next.push_back(
        reply().streamed({watch_event("BOOKMARK", R"({"metadata":{"resourceVersion":"5","a":")" + filler + R"("}})"),
                          watch_event("MOVED", R"({"filler":")" + filler + R"(","metadata":{"name":"m"}})"),
                          bookmark("7"), watch_event("ERROR", status + filler + R"("})")}));
    recorder sink;
    failure f;
    watch(b, sink, f);
    CHECK(sink.lines == lines{"opened", "bad 0", "bad 1", "bookmark 7"});
    REQUIRE(sink.bad.size() == 2);
    CHECK(sink.bad[0].why.message() == "watch pods: event 0 is a bookmark that cannot be read");
    CHECK(sink.bad[1].key.empty());
    CHECK(f == errc::bad_response);
    CHECK(f.message() ==
          "watch pods: an error that is no Status: " + status + std::string(256 - status.size(), 'x') + "…");
}

TEST_CASE("watch: a bookmark without a version is no bad object, and ends the initial events if it says so") {
    bench b;
    const std::string end = R"("annotations":{"k8s.io/initial-events-end":"true"})";
    b.answers->next.push_back(reply().streamed(
        {watch_event("BOOKMARK", "{}"), watch_event("BOOKMARK", R"({"metadata":{}})"),
         watch_event("BOOKMARK", R"({"metadata":{"resourceVersion":5}})"),
         watch_event("BOOKMARK", R"({"metadata":{"annotations":{"k8s.io/initial-events-end":"false"}}})"),
         watch_event("BOOKMARK", R"({"metadata":{)" + end + "}}"), bookmark("7")}));
    recorder sink;
    failure f;
    watch(b, sink, f);
    CHECK_FALSE(f);
    CHECK(sink.bad.empty());
    CHECK(sink.lines == lines{"opened", "bookmark  end", "bookmark 7"});
}

TEST_CASE("watch: an answer that is no watch event ends it as a bad response") {
    for (const std::string answer : {R"({"error":"login"})", R"({"kind":"PodList","apiVersion":"v1","items":[]})"}) {
        bench b;
        b.answers->next.push_back(reply().streamed({answer}));
        recorder sink;
        failure f;
        watch(b, sink, f);
        INFO(f.what());
        CHECK(f == errc::bad_response);
        CHECK(sink.bad.empty());
    }
}

TEST_CASE("watch: a stream that cannot be framed ends it") {
    for (const auto* garbage : {"<html>", "]]]]", "HTTP/1.1 200 OK\r\n\r\n"}) {
        bench b;
        b.answers->next.push_back(
            reply().streamed({watch_event("ADDED", pod("a", "1")), garbage, watch_event("ADDED", pod("b", "2"))}));
        recorder sink;
        failure f;
        watch(b, sink, f);
        INFO(f.what());
        CHECK(f == condition::protocol);
        CHECK(f.message().starts_with("watch pods: decode"));
        CHECK(sink.lines == lines{"opened", "added default/a 1"});
    }
}

TEST_CASE("watch: ERROR events are typed and end it") {
    struct row {
        std::string object;
        errc expected;
    };
    const std::vector<row> rows{
        {status(410, "Expired", "x"), errc::gone},
        {status(410, "Gone", "x"), errc::gone},
        {status(504, "Timeout", "x",
                R"(,"details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"y"}],"retryAfterSeconds":1})"),
         errc::resource_version_too_large},
        {status(500, "InternalError", "x"), errc::server_error},
        {status(429, "TooManyRequests", "x", R"(,"details":{"retryAfterSeconds":4})"), errc::too_many_requests},
        {status(403, "Forbidden", "x"), errc::forbidden},
        {R"({"kind":"Pod"})", errc::bad_response},
        {"7", errc::bad_response},
        {"null", errc::bad_response},
    };
    for (const auto& r : rows) {
        bench b;
        b.answers->next.push_back(
            reply().streamed({watch_event("ERROR", r.object) + watch_event("ADDED", pod("a"))}, reply::stall));
        recorder sink;
        failure f;
        watch(b, sink, f);
        INFO(r.object << " " << f.what());
        CHECK(f == r.expected);
        CHECK(sink.lines == lines{"opened"});
        if (r.expected == errc::too_many_requests) CHECK(f.status()->retry_after == 4s);
    }
}

TEST_CASE("watch: a refusal to open keeps the server's words") {
    bench b;
    recorder sink;
    failure f;
    b.answers->next.push_back(reply(429, "slow").type("text/plain").header("Retry-After", "1"));
    watch(b, sink, f);
    CHECK(f == errc::too_many_requests);
    CHECK(f.status()->retry_after == 1s);
    b.answers->next.emplace_back(422, status(422, "Invalid", "sendInitialEvents is forbidden"));
    watch(b, sink, f, watch_options().send_initial_events());
    CHECK(f == errc::invalid);
    CHECK(f.what().find("sendInitialEvents is forbidden") != std::string::npos);
    CHECK(sink.lines.empty());
}

TEST_CASE("list and watch: a refusal whose text never ends is reported all the same, and soon") {
    bench b;
    b.config.time.body_idle(100ms);
    b.api.emplace(b.rt, b.config);
    recorder sink;
    failure f;
    const auto endless = [&](int code) {
        b.answers->next.push_back(reply().streamed({status(code, "Any", "the words")}, reply::stall));
        b.answers->next.back().status = code;
    };
    endless(410);
    watch(b, sink, f, watch_options().timeout(300s));
    CHECK(f == errc::gone);
    CHECK(f.what().find("the words") != std::string::npos);
    endless(500);
    list(b, sink, f);
    CHECK(f == errc::server_error);
    CHECK(f.what().find("the words") != std::string::npos);
    CHECK(sink.lines.empty());
}

TEST_CASE("watch: the sink ends it, and cancellation ends it at once") {
    bench b;
    b.answers->next.push_back(reply().streamed({watch_event("ADDED", pod("a", "1"))}, reply::stall));
    recorder sink;
    sink.enough = 2;
    failure f;
    watch(b, sink, f);
    CHECK_FALSE(f);

    b.answers->next.push_back(reply().streamed({watch_event("ADDED", pod("a", "1"))}, reply::stall));
    recorder other;
    bool done = false;
    struct work {
        static asio::awaitable<void> go(std::shared_ptr<list_watch> from, recorder* to, failure* f, bool* done) {
            const watch_options o;
            co_await from->watch(o, *to, *f);
            *done = true;
        }
    };
    task_group group(b.io.get_executor());
    group.spawn(work::go(source(b), &other, &f, &done));
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (other.lines.size() < 2 && std::chrono::steady_clock::now() < until) {
        b.io.restart();
        b.io.run_one_for(10ms);
    }
    REQUIRE(other.lines.size() == 2);
    group.stop();
    b.run(group.join());
    CHECK(done);
    CHECK(f == errc::cancelled);
}

TEST_CASE("watch: a bearer token is sent, and never shown") {
    kubernetes::credentials who;
    who.token = "s3cret-token-of-some-length";
    bench b(who);
    recorder sink;
    failure f;
    b.answers->next.push_back(reply(401, status(401, "Unauthorized", "Unauthorized")));
    watch(b, sink, f);
    CHECK(f == errc::unauthorized);
    CHECK(b.answers->requests.back().header("Authorization") == "Bearer s3cret-token-of-some-length");
    CHECK(f.what() == "watch pods: unauthorized: Unauthorized");
    CHECK_FALSE(b.log.contains("s3cret"));
}

TEST_CASE("watch: it may outlast its time-out by 15 s, however little it sends; without a time-out it has no end") {
    const auto t = kubernetes::detail::watch_times(http::timeouts(), 300s);
    CHECK(t.request_ == 315s);
    CHECK(t.body_idle_ == 0s);
    CHECK(t.header_ == 30s);
    CHECK(kubernetes::detail::watch_times(http::timeouts(), 0s).request_ == 0s);
    CHECK(kubernetes::detail::watch_times(http::timeouts(), 300s, true).header_ == 315s);
    CHECK(kubernetes::detail::watch_times(http::timeouts(), 0s, true).header_ == 30s);
    CHECK(kubernetes::detail::watch_times(http::timeouts(), std::chrono::seconds::max()).request_ > 24h * 365 * 1000);
}

TEST_CASE("watch: one that outlasts its time-out by 15 s is given up", "[.slow]") {
    bench b;
    b.answers->next.push_back(reply().streamed({watch_event("ADDED", pod("a", "1"))}, reply::stall));
    recorder sink;
    failure f;
    const auto start = std::chrono::steady_clock::now();
    watch(b, sink, f, watch_options().timeout(1s));
    CHECK(f == errc::request_timeout);
    CHECK(std::chrono::steady_clock::now() - start < 18s);
    CHECK(sink.lines.size() == 2);
}
