// Which member is asked, and with which credentials.
#include "bench.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <utility>

using namespace etcd_test;

namespace {

const std::string no_leader = R"({"code":14, "message":"etcdserver: no leader"})";
const std::string bad_token = R"({"code":16, "message":"etcdserver: invalid auth token"})";
const std::string old_token = R"({"code":3, "message":"etcdserver: revision of auth store is old"})"; // for a JWT

watch_options after(const std::string& version) {
    return watch_options().resource_version(version);
}

} // namespace

TEST_CASE("etcd members: if one cannot be reached or has no leader, the next one is asked, and stays in use") {
    bench b(3);
    recorder sink;
    failure f;
    b.members[0]->server->stop_listening(true);
    b.members[1]->answer = [](const http::server_request&) { return reply(503, no_leader); };
    b.members[2]->answer = [](const http::server_request&) { return reply(range(9, {})); };
    list(b, sink, f);
    CHECK(!f);
    list(b, sink, f);
    CHECK(!f);
    CHECK(b.members[1]->requests.size() == 1);
    CHECK(b.members[2]->requests.size() == 2);
    CHECK(b.log.contains("asking " + b.members[2]->url()));
    b.members[2]->server->stop_listening(true);
    list(b, sink, f);
    CHECK(f == errc::server_error); // the last member's words, after one round
    CHECK(b.members[1]->requests.size() == 2);
}

TEST_CASE("etcd members: one that is passed over is logged when that begins and when it ends, not at each try") {
    bench b(3);
    recorder sink;
    failure f;
    for (const auto& m : b.members) {
        m->answer = [](const http::server_request&) { return reply(range(9, {})); };
        m->server->stop_listening(true);
    }
    for (int i = 0; i < 5; ++i) list(b, sink, f);
    CHECK(f == errc::connection_refused); // the caller gets the last member's words
    CHECK(b.log.count(log_level::info) == 2);
    CHECK(b.log.count("asking " + b.members[1]->url()) == 5); // the others at debug
    b.members[0]->server->listen(f);
    REQUIRE(!f);
    list(b, sink, f);
    REQUIRE(!f);
    list(b, sink, f);
    CHECK(b.log.count(log_level::info) == 3);
    CHECK(b.log.count(b.members[0]->url() + " answers again") == 1);
    b.members[0]->server->stop_listening(true);
    for (int i = 0; i < 3; ++i) list(b, sink, f);
    CHECK(b.log.count(log_level::info) == 4); // a new outage
}

TEST_CASE("etcd members: after a refusal that any member would give no other one is asked") {
    bench b(2);
    recorder sink;
    failure f;
    b.members[0]->answer = [](const http::server_request&) {
        return reply(403, R"({"code":7,"message":"etcdserver: permission denied"})");
    };
    list(b, sink, f);
    CHECK(f == errc::forbidden);
    CHECK(b.members[1]->requests.empty());
}

TEST_CASE("etcd members: one that breaks a watch is not the first to be asked for the next watch") {
    bench b(2);
    recorder sink;
    failure f;
    b.members[0]->answer = [](const http::server_request&) {
        return reply(created(5) + R"({"error":{"code":14,"message":"etcdserver: no leader"}})").streamed();
    };
    b.members[1]->answer = [](const http::server_request&) { return reply(created(5)).streamed(reply::cut); };
    watch(b, sink, f, after("5"));
    CHECK(f == errc::server_error);
    watch(b, sink, f, after("5"));
    CHECK(f == errc::connection_lost);
    watch(b, sink, f, after("5"));
    CHECK(b.members[0]->requests.size() == 2);
    CHECK(b.members[1]->requests.size() == 1);
}

TEST_CASE("etcd members: one that breaks a list is not the first to be asked for the next list") {
    bench b(2);
    recorder sink;
    failure f;
    b.members[0]->answer = [](const http::server_request&) {
        return reply(range(9, {pair("/s/a", "{}", 3, 3)})).streamed(reply::cut, 60);
    };
    b.members[1]->answer = [](const http::server_request&) { return reply(range(9, {pair("/s/a", "{}", 3, 3)})); };
    list(b, sink, f);
    CHECK(f == condition::transport);
    list(b, sink, f);
    CHECK(!f);
    CHECK(b.members[0]->requests.size() == 1);
    CHECK(b.members[1]->requests.size() == 1);
}

TEST_CASE("etcd members: one that accepts a watch and never says that it is open is left for the next one") {
    bench b(2);
    b.where.time(http::timeouts().header(std::chrono::seconds(1)));
    recorder sink;
    failure f;
    b.members[0]->answer = [](const http::server_request&) { return reply("").streamed(reply::stall); };
    b.members[1]->answer = [](const http::server_request&) { return reply(created(5)).streamed(); };
    watch(b, sink, f, after("5"));
    CHECK(f == errc::header_timeout);
    CHECK(f.what().find("wait for the watch to be open") != std::string::npos);
    CHECK(sink.lines.empty());
    watch(b, sink, f, after("5"));
    CHECK(!f);
    CHECK(sink.lines == lines{"opened"});
    CHECK(b.members[1]->requests.size() == 1);
}

TEST_CASE("etcd members: an idle connection that was closed is no reason to leave its member") {
    bench b(2);
    recorder sink;
    failure f;
    b.members[0]->answer = [](const http::server_request&) { return reply(range(9, {})); };
    list(b, sink, f);
    REQUIRE(!f);
    b.members[0]->server->stop_listening(true); // closes the idle one
    b.members[0]->server->listen(f);
    REQUIRE(!f);
    list(b, sink, f);
    CHECK(!f);
    CHECK(b.members[1]->requests.empty());
}

TEST_CASE("etcd authentication: a token is fetched, sent, and replaced when it is refused") {
    bench b;
    b.where.user("me", "pass\"word");
    recorder sink;
    failure f;
    int tokens = 0;
    std::string good = "token1";
    reply refusal(401, bad_token);
    b.etcd().answer = [&](const http::server_request& q) {
        if (q.path == "/v3/auth/authenticate") {
            CHECK(q.body == R"({"name":"me","password":"pass\"word"})");
            CHECK(q.header("Authorization").empty());
            return reply(R"({"header":{},"token":"token)" + std::to_string(++tokens) + "\"}");
        }
        if (q.header("Authorization") != good) return refusal;
        if (q.path == "/v3/watch") return reply(created(9)).streamed();
        return reply(range(9, {}));
    };
    list(b, sink, f);
    CHECK(!f);
    list(b, sink, f);
    CHECK(!f);
    CHECK(tokens == 1);
    good = "token2"; // the old one has expired
    list(b, sink, f);
    CHECK(!f);
    CHECK(tokens == 2);
    good = "token3";
    watch(b, sink, f, after("9"));
    CHECK(!f);
    CHECK(tokens == 3);
    good = "token4"; // a user was added
    refusal = reply(400, old_token);
    list(b, sink, f);
    CHECK(!f);
    CHECK(tokens == 4);
    good = "none";
    list(b, sink, f); // once more, and not for ever
    CHECK(f == errc::unauthorized);
    CHECK(tokens == 5);
    CHECK_FALSE(b.log.contains("pass"));
    CHECK_FALSE(b.log.contains("token1"));
}

TEST_CASE("etcd authentication: a token that no header can carry is a bad answer, and the next one may be good") {
    bench b;
    b.where.user("me", "p");
    recorder sink;
    failure f;
    const std::string bad = GENERATE(std::string("a\\nb"), std::string(20'000, 'x'));
    bool first = true;
    b.etcd().answer = [&](const http::server_request& q) {
        if (q.path != "/v3/auth/authenticate")
            return q.header("Authorization") == "good" ? reply(range(9, {})) : reply(401, bad_token);
        return reply("{\"token\":\"" + (std::exchange(first, false) ? bad : "good") + "\"}");
    };
    list(b, sink, f);
    CHECK(f == errc::bad_response);
    CHECK(f.what().find("no header can carry") != std::string::npos);
    list(b, sink, f);
    CHECK(!f);
}

namespace {

/// A member that accepts watches with the good token, and opens and cancels all others, for this reason.
class picky {
public:
    picky(bench& b, std::string reason) : reason_(std::move(reason)) {
        b.where.user("me", "p");
        b.etcd().answer = [this](const http::server_request& q) { return answer(q); };
    }
    std::string good = "t2";
    int tokens = 0, watches = 0; ///< requested

private:
    reply answer(const http::server_request& q) {
        if (q.path == "/v3/auth/authenticate") return reply(R"({"token":"t)" + std::to_string(++tokens) + "\"}");
        ++watches;
        if (q.header("Authorization") == good) return reply(created(9)).streamed();
        return reply(result(header(9) + R"(,"created":true,"canceled":true,"cancel_reason":")" + reason_ + '"'))
            .streamed(reply::stall);
    }
    std::string reason_;
};

} // namespace

TEST_CASE("etcd authentication: a watch that is opened and canceled for its token is opened again with a new one") {
    bench b;
    recorder sink;
    failure f;
    picky member(b, "etcdserver: invalid auth token");
    watch(b, sink, f, after("9"));
    CHECK(!f);
    CHECK(sink.lines == lines{"opened"});
    CHECK(member.tokens == 2);
    CHECK(member.watches == 2);
}

TEST_CASE(
    "etcd authentication: an old token that a member from before 2022 calls a lack of permission is replaced, once") {
    bench b;
    recorder sink;
    failure f;
    picky member(b, "rpc error: code = PermissionDenied desc = etcdserver: permission denied");
    watch(b, sink, f, after("9"));
    CHECK(!f);
    CHECK(sink.lines == lines{"opened"});
    CHECK(member.tokens == 2);
    CHECK(member.watches == 2);
    member.good = "none"; // now the permission is indeed lacking
    watch(b, sink, f, after("9"));
    CHECK(f == errc::forbidden);
    CHECK(member.tokens == 3);
    CHECK(member.watches == 4);
}

TEST_CASE("etcd authentication: a wrong password is reported, not retried at once; one not needed is not used") {
    bench b;
    b.where.user("me", "p");
    recorder sink;
    failure f;
    std::string refusal = R"({"code":3,"message":"etcdserver: authentication failed, invalid user ID or password"})";
    b.etcd().answer = [&](const http::server_request& q) {
        if (q.path == "/v3/auth/authenticate") return reply(400, refusal);
        CHECK(q.header("Authorization").empty());
        return reply(range(9, {}));
    };
    list(b, sink, f);
    CHECK(f == errc::unauthorized);
    CHECK(f.what().find("authenticate") != std::string::npos);
    CHECK(b.etcd().requests.size() == 1);
    refusal = R"({"code":9,"message":"etcdserver: authentication is not enabled"})";
    list(b, sink, f);
    CHECK(!f);
    list(b, sink, f);
    CHECK(!f);
    CHECK(b.etcd().requests.size() == 4);
}
