// Lists: pages of one revision, what a version asks for, and what may go wrong.
#include "bench.hpp"

#include <catch2/generators/catch_generators.hpp>

using namespace etcd_test;

namespace {

/// A store of `keys` keys: "/s/k0", "/s/k1", … in order, at this revision.
reply serve_range(const http::server_request& q, int keys, int revision) {
    const auto body = boost::json::parse(q.body);
    const auto decoded = [&](const char* name) {
        std::string out;
        informer::detail::base64_decoder d;
        REQUIRE(d.feed(std::string_view(body.at(name).as_string()), out));
        return out;
    };
    const std::string from = decoded("key"), end = decoded("range_end");
    const int limit = number_in(q.body, "limit");
    std::vector<std::string> kvs;
    int left = 0;
    for (int i = 0; i < keys; ++i) {
        const std::string key = "/s/k" + std::to_string(100000 + i);
        if (key < from || key >= end) continue;
        if (static_cast<int>(kvs.size()) < limit)
            kvs.push_back(pair(key, R"({"i":)" + std::to_string(i) + "}", 2, 2 + i));
        else
            ++left;
    }
    const std::string count = R"(,"count":")" + std::to_string(static_cast<int>(kvs.size()) + left) + '"';
    return reply(range(revision, kvs, (left != 0 ? R"(,"more":true)" : "") + count));
}

} // namespace

TEST_CASE("etcd list: objects with their versions; the list's version is the store's revision") {
    bench b;
    recorder sink;
    failure f;
    b.etcd().next.emplace_back(
        range(9, {pair("/s/a", R"({"x":1})", 2, 3, 2), pair("/s/b", "{}", 5, 5)}, R"(,"count":"2")"));
    const auto r = list(b, sink, f);
    CHECK(!f);
    CHECK(sink.lines == lines{"opened", "item a 3", "item b 5"});
    CHECK(r.resource_version.str() == "9");
    CHECK(r.items == 2);
    CHECK(r.continue_token.empty());
    CHECK(sink.bytes ==
          0 + range(9, {pair("/s/a", R"({"x":1})", 2, 3, 2), pair("/s/b", "{}", 5, 5)}, R"(,"count":"2")").size());
    const object a = sink.objects.at(object_key("", "a"));
    CHECK(a["x"].int64_or(0) == 1);
    CHECK(a.has_type("etcd/v3", "KeyValue"));
    CHECK(a.meta().generation() == 2);
    CHECK(b.from->describe() == "keyvalues.etcd below /s/");
    CHECK(b.etcd().lines() == lines{"/v3/kv/range {\"key\":\"" + b64("/s/") + "\",\"range_end\":\"" + b64("/s0") +
                                    "\",\"limit\":\"500\"}"});
}

TEST_CASE("etcd list: a list of one namespace asks for no other") {
    bench b;
    recorder sink;
    failure f;
    b.etcd().next.emplace_back(range(9, {pair("/s/n/a", "{}", 2, 3)}));
    b.source(mapping("/s/").namespaced().in("n"));
    list(b, sink, f);
    CHECK(sink.lines == lines{"opened", "item n/a 3"});
    CHECK(b.from->describe() == "keyvalues.etcd below /s/n/");
    CHECK(b.from->name_space() == "n");
    CHECK(b.etcd().requests.back().body.find(R"("key":")" + b64("/s/n/") + R"(","range_end":")" + b64("/s/n0") + '"') ==
          1);
}

TEST_CASE("etcd list: no keys") {
    bench b;
    recorder sink;
    failure f;
    b.etcd().next.emplace_back(range(9, {}));
    CHECK(list(b, sink, f).resource_version.str() == "9");
    CHECK(!f);
    CHECK(sink.lines == lines{"opened"});
    CHECK(b.log.count(log_level::warning) == 0);
}

TEST_CASE("etcd list: all pages are of the first one's revision, whatever is written meanwhile") {
    bench b;
    recorder sink;
    failure f;
    int revision = 50000;
    b.etcd().answer = [&](const http::server_request& q) {
        const int pinned = number_in(q.body, "revision");
        CHECK((pinned == 0 || pinned == 50000));
        return serve_range(q, 2500, revision++);
    };
    SECTION("asked for in pages") {
        std::string token;
        int left = 2500;
        for (const int n : {300, 1200, 1000}) { // further pages are as large as their values allow
            const auto r = list(b, sink, f, list_options().limit(300).continue_token(token));
            REQUIRE(!f);
            CHECK(r.items == static_cast<std::uint64_t>(n));
            CHECK(r.resource_version.str() == "50000");
            token = r.continue_token;
            left -= n;
            CHECK(token.empty() == (left == 0));
            CHECK(r.remaining.value_or(0) == static_cast<std::uint64_t>(left));
        }
        CHECK(sink.lines.size() == 2503);
    }
    SECTION("asked for in one piece") {
        const auto r = list(b, sink, f);
        REQUIRE(!f);
        CHECK(r.items == 2500);
        CHECK(r.resource_version.str() == "50000");
        CHECK(r.continue_token.empty());
        CHECK(sink.lines.size() == 2501);
        CHECK(b.etcd().requests.size() == 2);
    }
    CHECK(sink.objects.size() == 2500);
}

TEST_CASE("etcd list: pages are as large as their values allow") {
    bench b;
    recorder sink;
    failure f;
    const auto answer = [](std::size_t bytes) {
        return [bytes](const http::server_request& q) {
            const bool more = number_in(q.body, "revision") == 0;
            const std::string value = R"({"x":")" + std::string(bytes, 'x') + "\"}";
            std::vector<std::string> kvs;
            for (char c = 'a'; c < 'u'; ++c)
                kvs.push_back(pair((more ? "/s/1" : "/s/2") + std::string(1, c), value, 2, 3));
            return reply(range(9, kvs, more ? R"(,"more":true)" : ""));
        };
    };
    const auto second_page = [&](std::size_t bytes) {
        b.etcd().answer = answer(bytes);
        list(b, sink, f);
        CHECK(!f);
        return number_in(b.etcd().requests.back().body, "limit");
    };
    CHECK(second_page(10) == 2'000); // only four times as many: the next values may be larger
    CHECK(second_page(100'000) == 31);
    CHECK(second_page(1'000'000) == 16);
}

TEST_CASE("etcd list: a page that is too large for one answer is requested again, smaller") {
    bench b;
    recorder sink;
    failure f;
    std::vector<int> limits;
    b.etcd().answer = [&](const http::server_request& q) {
        limits.push_back(number_in(q.body, "limit"));
        if (limits.back() > 400)
            return reply(
                429, R"j({"code":8,"message":"grpc: received message larger than max (3000000000 vs. 2147483647)"})j");
        return serve_range(q, 100, 200);
    };
    CHECK(list(b, sink, f).items == 100);
    CHECK(!f);
    CHECK(limits == std::vector<int>{500, 16, 64, 256});
    CHECK(sink.objects.size() == 100);
}

TEST_CASE("etcd list: a page that is too large even if it is small is an error, and is not requested for ever") {
    bench b;
    recorder sink;
    failure f;
    std::vector<int> limits;
    b.etcd().answer = [&](const http::server_request& q) {
        limits.push_back(number_in(q.body, "limit"));
        const bool enough = limits.size() > 10;
        return reply(enough ? 400 : 429,
                     R"j({"code":8,"message":"grpc: received message larger than max (3 vs. 2)"})j");
    };
    list(b, sink, f);
    CHECK(f == errc::too_many_requests);
    CHECK(limits == std::vector<int>{500, 16});
}

TEST_CASE("etcd list: pages that do not continue one another are refused instead of being read for ever") {
    bench b;
    recorder sink;
    failure f;
    int answers = 0;
    b.etcd().answer = [&](const http::server_request&) {
        const char* const more = ++answers < 10 ? R"(,"more":true)" : "";
        return reply(range(9, {pair("/s/a", "{}", 3, 3)}, more));
    };
    list(b, sink, f);
    CHECK(f == errc::bad_response);
    CHECK(answers == 2);
    answers = 0;
    b.etcd().next.emplace_back(range(9, {pair("/s/a", "{}", 3, 3)}, R"(,"more":true)"));
    b.etcd().next.emplace_back(range(9, {}, R"(,"more":true)"));
    list(b, sink, f);
    CHECK(f == errc::bad_response);
    CHECK(answers == 0); // not asked for a third page
    const auto first = list(b, sink, f, list_options().limit(1));
    REQUIRE(!f);
    list(b, sink, f, list_options().limit(1).continue_token(first.continue_token));
    CHECK(f == errc::bad_response);
}

TEST_CASE("etcd list: pages of another cluster are refused") {
    bench b;
    recorder sink;
    failure f;
    b.etcd().next.emplace_back(range(9, {pair("/s/a", "{}", 3, 3)}, R"(,"more":true)"));
    const std::string more = GENERATE("", R"(,"more":true)");
    b.etcd().next.emplace_back("{" + header(9, "78") + R"(,"kvs":[)" + pair("/s/b", "{}", 4, 4) + "]" + more + "}");
    b.etcd().next.emplace_back(range(9, {pair("/s/c", "{}", 5, 5)})); // is not asked for
    if (GENERATE(true, false)) {
        list(b, sink, f);
    } else {
        const auto first = list(b, sink, f, list_options().limit(1));
        REQUIRE(!f);
        list(b, sink, f, list_options().limit(1).continue_token(first.continue_token));
    }
    CHECK(f == errc::gone);
    CHECK(f.what().find("another cluster answers") != std::string::npos);
}

TEST_CASE("etcd list: version 0 may be stale, all others are linearizable and not older than what they ask for") {
    bench b;
    recorder sink;
    failure f;
    b.etcd().answer = [](const http::server_request&) { return reply(range(9, {})); };
    const auto asked = [&] { return b.etcd().requests.back(); };
    CHECK(list(b, sink, f, list_options().resource_version("0")).resource_version.str() == "9");
    CHECK(asked().body.find(R"("serializable":true)") != std::string::npos);
    CHECK(asked().header("Grpc-Metadata-hasleader").empty());
    CHECK(list(b, sink, f, list_options().resource_version("9")).resource_version.str() == "9");
    CHECK(!f);
    CHECK(asked().body.find("serializable") == std::string::npos);
    CHECK(asked().body.find("revision") == std::string::npos);
    CHECK(asked().header("Grpc-Metadata-hasleader") == "true");
    list(b, sink, f, list_options().resource_version("10"));
    CHECK(f == errc::resource_version_too_large);
    CHECK(
        list(b, sink, f, list_options().resource_version("7").resource_version_match("Exact")).resource_version.str() ==
        "7");
    CHECK(number_in(asked().body, "revision") == 7);
    for (const char* bad : {"x", "-1", "1 ", "9223372036854775807", "99999999999999999999"}) {
        list(b, sink, f, list_options().resource_version(bad));
        CHECK(f == errc::bad_request);
    }
    for (const char* bad : {"x", "7", "7:", ":YQ==", "7:Y", "0:YQ=="}) {
        list(b, sink, f, list_options().continue_token(bad));
        CHECK(f == errc::bad_request);
    }
}

TEST_CASE("etcd list: keys and values that cannot be used are quarantined by name, their neighbours are there") {
    bench b;
    b.where.max_object(100);
    recorder sink;
    failure f;
    b.etcd().next.emplace_back(
        range(9, {pair("/s/", "{}", 2, 2), pair("/s/a", "{}", 3, 3), pair("/s/b", "{]", 4, 4), pair("/s/c", "x", 5, 5),
                  pair("/s/d", R"({"x":")" + std::string(200, 'x') + "\"}", 6, 6),
                  pair("/s/e", "{\"x\":\"\xff\"}", 7, 7), pair("/s/f", "{}", 8, 8)}));
    const auto r = list(b, sink, f);
    CHECK(!f);
    CHECK(r.items == 2);
    CHECK(sink.lines ==
          lines{"opened", "bad key//s/ 2", "item a 3", "bad b 4", "bad c 5", "bad d 6", "bad e 7", "item f 8"});
    const auto why = [&](std::size_t i) { return sink.bad.at(i).why; };
    CHECK(why(0) == errc::no_metadata);
    CHECK(why(1) == errc::syntax_error);
    CHECK(why(2) == errc::not_an_object);
    CHECK(why(3) == errc::too_large);
    CHECK(why(4) == errc::bad_utf8);
    CHECK(why(1).what().find("list keyvalues.etcd below /s/: decode /s/b:") == 0);
    CHECK(sink.bad.at(1).from_list);
    CHECK(sink.bad.at(1).position == 2);
}

TEST_CASE("etcd list: if no key of a list can be used, one warning names the first one and the likely cause") {
    bench b;
    recorder sink;
    failure f;
    bool mended = false;
    b.source(mapping("/t").namespaced());
    b.etcd().answer = [&](const http::server_request&) {
        std::vector<std::string> all{pair("/t/n/a", "{}", 2, 2), pair("/t/n/b", "{}", 3, 3)};
        if (mended) all.push_back(pair("/tn/c", "{}", 4, 4));
        return reply(range(9, all));
    };
    const std::string cause =
        "the key is not namespace/name below the prefix, which has no '/' at its end: is /t/ meant?";
    const auto warnings = [&] { return b.log.count(log_level::warning); };
    list(b, sink, f);
    REQUIRE(!f);
    REQUIRE(sink.bad.size() == 2); // each of them says so in the status of an informer
    CHECK(sink.bad[1].why.what().find(cause) != std::string::npos);
    CHECK(warnings() == 1);
    CHECK(b.log.contains("list keyvalues.etcd below /t: decode /t/n/a: " + cause));
    CHECK(b.log.contains("so it is with all keys of the list, 2 in number"));
    list(b, sink, f);
    CHECK(warnings() == 1);
    mended = true;
    list(b, sink, f);
    CHECK(warnings() == 1);
    mended = false;
    list(b, sink, f, list_options().limit(0));
    CHECK(warnings() == 2);
}

TEST_CASE("etcd list: whether no key can be used is decided over all pages") {
    bench b;
    recorder sink;
    failure f;
    const bool first_is_good = GENERATE(true, false), last_is_good = GENERATE(true, false);
    const bool good = first_is_good || last_is_good;
    b.etcd().next.emplace_back(
        range(9, {pair("/s/a", first_is_good ? "{}" : "1", 2, 2)}, R"(,"more":true,"count":"2")"));
    b.etcd().next.emplace_back(range(9, {pair("/s/b", last_is_good ? "{}" : "2", 3, 3)}));
    const auto first = list(b, sink, f, list_options().limit(1));
    REQUIRE(!f);
    CHECK(b.log.count(log_level::warning) == 0);
    list(b, sink, f, list_options().limit(1).continue_token(first.continue_token));
    REQUIRE(!f);
    CHECK(b.log.count(log_level::warning) == (good ? 0 : 1));
    CHECK(b.log.contains("wrap_values()") == !good);
}

TEST_CASE("etcd list: etcd's refusals become the corresponding errors of the Kubernetes API") {
    bench b;
    recorder sink;
    failure f;
    const auto refused = [&](int status, const std::string& body) {
        b.etcd().next.emplace_back(status, body);
        list(b, sink, f);
        CHECK(f.what().find("list keyvalues.etcd below /s/: http://127.0.0.1:") == 0);
        return f.code();
    };
    CHECK(refused(400, R"({"code":11, "message":"etcdserver: mvcc: required revision has been compacted"})") ==
          errc::gone);
    CHECK(
        refused(400, R"({"error":"x","code":11,"message":"etcdserver: mvcc: required revision has been compacted"})") ==
        errc::gone);
    CHECK(refused(400, R"({"code":11, "message":"etcdserver: mvcc: required revision is a future revision"})") ==
          errc::resource_version_too_large);
    CHECK(refused(403, R"({"code":7, "message":"etcdserver: permission denied"})") == errc::forbidden);
    CHECK(refused(401, R"({"code":16, "message":"etcdserver: invalid auth token"})") == errc::unauthorized);
    CHECK(refused(400, R"({"code":3, "message":"etcdserver: user name is empty"})") == errc::unauthorized);
    CHECK(refused(400, R"({"code":3, "message":"etcdserver: revision of auth store is old"})") == errc::unauthorized);
    CHECK(refused(429, R"({"code":8, "message":"etcdserver: too many requests"})") == errc::too_many_requests);
    CHECK(refused(503, R"({"code":14, "message":"etcdserver: no leader"})") == errc::server_error);
    CHECK(refused(404, "404 page not found") == errc::not_found);
    CHECK(f.what().find("--enable-grpc-gateway") != std::string::npos);
    CHECK(sink.lines.empty());
}

TEST_CASE("etcd list: an answer that is invalid, or breaks off, is an error that says why") {
    bench b;
    recorder sink;
    failure f;
    const auto answered = [&](reply r) {
        b.etcd().next.push_back(std::move(r));
        list(b, sink, f);
        return f.code();
    };
    CHECK(answered(reply("<html>").type("text/html")) == errc::syntax_error);
    CHECK(f.what().find("an answer of type text/html") != std::string::npos);
    CHECK(answered(reply("{}")) == errc::bad_response);
    CHECK(answered(reply("[]")) == errc::bad_response);
    CHECK(answered(reply("")) == errc::connection_lost);
    CHECK(answered(reply(range(9, {}, R"(,"more":true)"))) == errc::bad_response);
    CHECK(answered(reply(range(9, {}) + range(9, {}))) == errc::bad_response);
    const std::string whole = range(9, {pair("/s/a", "{}", 3, 3), pair("/s/b", "{}", 4, 4)});
    for (std::size_t n = 0; n < whole.size(); ++n) {
        CAPTURE(n);
        REQUIRE(answered(reply(whole).streamed(reply::cut, n)) == errc::connection_lost);
    }
    CHECK(!answered(reply(whole).streamed(reply::complete)));
}

TEST_CASE("etcd list: a sink that has seen enough ends it without failure") {
    bench b;
    recorder sink;
    sink.enough = 1;
    failure f;
    b.etcd().next.emplace_back(range(9, {pair("/s/a", "{}", 3, 3)}, R"(,"more":true)"));
    list(b, sink, f);
    CHECK(!f);
    CHECK(b.etcd().requests.size() == 1);
}

TEST_CASE("etcd list: selectors are matched on the value as received, whatever the cache keeps of it") {
    bench b;
    recorder sink(decode_options().project(projection::keep({"/y"})));
    failure f;
    const auto labelled = [](const std::string& l, const std::string& x) {
        return R"({"metadata":{"labels":{"l":")" + l + R"("}},"x":")" + x + "\",\"y\":1}";
    };
    b.etcd().answer = [&](const http::server_request&) {
        return reply(range(9, {pair("/s/a", labelled("1", "on"), 3, 3), pair("/s/b", labelled("2", "on"), 4, 4),
                               pair("/s/c", labelled("1", "off"), 5, 5), pair("/s/d", "{]", 6, 6)}));
    };
    CHECK(list(b, sink, f, list_options().labels("l=1")).items == 2);
    CHECK(sink.lines == lines{"opened", "item a 3", "item c 5", "bad d 6"});
    CHECK_FALSE(sink.objects.at(object_key("", "a"))["x"].exists());
    sink.lines.clear();
    list(b, sink, f, list_options().labels("l").fields("x=on"));
    CHECK(sink.lines == lines{"opened", "item a 3", "item b 4", "bad d 6"});
    list(b, sink, f, list_options().labels("l=="));
    CHECK(!f);
    list(b, sink, f, list_options().labels("(("));
    CHECK(f == errc::bad_selector);
}

TEST_CASE("etcd: a configuration that cannot work is refused before anything is asked") {
    asio::io_context io;
    const runtime rt(io.get_executor());
    failure f;
    const auto made = [&](const config& c, const mapping& m = mapping("/s/")) {
        const auto from = informer::etcd::make_list_watch(rt, c, m, f);
        CHECK((from == nullptr) == (f == errc::bad_configuration));
        return from != nullptr;
    };
    CHECK(made(config("http://127.0.0.1:1")));
    CHECK_FALSE(made(config()));
    CHECK_FALSE(made(config("ftp://x")));
    CHECK_FALSE(made(config("http://127.0.0.1:1"), mapping("\xff")));
    CHECK_FALSE(made(config("http://127.0.0.1:1"), mapping("/s/").in("n")));
    CHECK_FALSE(made(config("http://127.0.0.1:1"), mapping("/s/").namespaced().in("n/m")));
    CHECK_FALSE(made(config("http://127.0.0.1:1"), mapping("/s/").resource(api_resource("g", "v1", "things"))));
    CHECK(made(config("http://127.0.0.1:1"), mapping("/s/").namespaced().in("n")));
    const auto told = [&](const mapping& m) {
        made(config("http://127.0.0.1:1"), m);
        return f.message();
    };
    CHECK(told(mapping("/s/").in("n")) == "etcd: in() asks for a namespace, and without namespaced() there are none");
    CHECK(told(mapping("/s/").namespaced().in("n/m")) == "etcd: a namespace has no '/' in its name, and n/m has");
    // A password is sent over TLS or to loopback only.
    CHECK(made(config("http://127.0.0.1:1").endpoint("http://[::1]:1").endpoint("http://localhost:1").user("u", "p")));
    CHECK(made(config("https://10.0.0.1:1").user("u", "p")));
    CHECK_FALSE(made(config("http://127.0.0.1:1").endpoint("http://10.0.0.1:1").user("u", "hunter2")));
    CHECK(f.what().find("hunter2") == std::string::npos);
    CHECK_THROWS_AS(informer::etcd::make_list_watch(rt, config(), mapping("")), error);
}
