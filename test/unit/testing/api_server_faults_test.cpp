#include "config_maps.hpp"
#include "server_fixture.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <catch2/catch_test_macros.hpp>

using namespace server_tests;
using namespace std::chrono_literals;

namespace {

std::string since(const server_fixture& s) {
    return maps + "?watch=true&resourceVersion=" + s.server.current_resource_version();
}

informer::http::request impatient(const std::string& target, std::chrono::milliseconds limit = 100ms) {
    return informer::http::request("GET", target).time(informer::http::timeouts().header(limit).body_idle(limit));
}

} // namespace

TEST_CASE("a fault hits as often as it is repeated, after the requests that it skips, and only matching ones",
          "[api_server][fault]") {
    server_fixture s;
    s.server.inject(fault(fault::kind::status).with_code(503).verb("list").skipping(1).repeat(2));
    CHECK(s.server.pending_faults() == 1);
    CHECK(s.ask("GET", maps).status == 200);
    CHECK(s.ask("GET", maps + "/a").status == 404);
    CHECK(s.ask("GET", maps).status == 503);
    CHECK(s.ask("GET", maps).status == 503);
    CHECK(s.ask("GET", maps).status == 200);
    CHECK(s.server.pending_faults() == 0);
    s.server.inject(fault::kind::refuse);
    s.server.clear_faults();
    CHECK(s.ask("GET", maps).status == 200);
}

TEST_CASE("faults hit in the order of injection, conditions add up", "[api_server][fault]") {
    server_fixture s;
    s.server.inject(fault(fault::kind::status).with_code(500));
    s.server.inject(fault(fault::kind::status).with_code(502));
    s.server.inject(
        fault(fault::kind::status).with_code(504).verb("list").on([](const informer::testing::request_info& r) {
            return r.resource == "secrets";
        }));
    CHECK(s.ask("GET", maps).status == 500);
    CHECK(s.ask("GET", maps).status == 502);
    CHECK(s.ask("GET", maps).status == 200);
    CHECK(s.ask("GET", "/api/v1/secrets").status == 504);
}

TEST_CASE("the condition of a fault may clear all faults and inject others", "[api_server][fault]") {
    server_fixture s;
    int asked = 0;
    s.server.inject(fault(fault::kind::status).with_code(500).on([&](const informer::testing::request_info&) {
        ++asked;
        s.server.clear_faults();
        s.server.inject(fault(fault::kind::status).with_code(502));
        return true;
    }));
    s.server.inject(fault(fault::kind::status).with_code(501));
    CHECK(s.ask("GET", maps).status == 200);
    CHECK(s.ask("GET", maps).status == 502);
    CHECK(s.ask("GET", maps).status == 200);
    CHECK(asked == 1);
}

TEST_CASE("refuse resets before any answer", "[api_server][fault]") {
    server_fixture s;
    s.server.inject(fault(fault::kind::refuse).repeat(2));
    const auto a = s.ask("POST", maps, "{}");
    CHECK(a.f == informer::condition::transport);
    CHECK(a.status == 0);
}

TEST_CASE("status answers with a Status, plain_status with text", "[api_server][fault]") {
    server_fixture s;
    s.server.inject(fault(fault::kind::status).with_code(429).with_retry_after(3).with_text("slow down"));
    const auto status = s.ask("GET", maps);
    CHECK(status.status == 429);
    CHECK(status.retry_after == "3");
    CHECK(status.at("/reason") == "TooManyRequests");
    CHECK(status.at("/message") == "slow down");
    CHECK(status.at("/details/retryAfterSeconds") == "3");
    s.server.inject(fault(fault::kind::plain_status).with_code(429).with_retry_after(1));
    const auto plain = s.ask("GET", since(s));
    CHECK(plain.status == 429);
    CHECK(plain.retry_after == "1");
    CHECK(plain.type.starts_with("text/plain"));
}

TEST_CASE("gone is a status for lists and an event for watches", "[api_server][fault]") {
    server_fixture s;
    s.server.inject(fault(fault::kind::gone).repeat(2));
    CHECK(s.ask("GET", maps).status == 410);
    auto w = s.watch(since(s));
    CHECK(w.status() == 200);
    const auto e = w.next();
    CHECK(e.type == "ERROR");
    CHECK(text_at(e.object, "/code") == "410");
    CHECK(text_at(e.object, "/reason") == "Expired");
    CHECK(w.next().type.empty());
}

TEST_CASE("error_event waits for a watch", "[api_server][fault]") {
    server_fixture s;
    s.server.inject(fault(fault::kind::error_event).with_code(500));
    CHECK(s.ask("GET", maps).status == 200);
    auto w = s.watch(since(s));
    const auto e = w.next();
    CHECK(e.type == "ERROR");
    CHECK(text_at(e.object, "/code") == "500");
    CHECK(text_at(e.object, "/reason") == "InternalError");
    CHECK(w.next().type.empty());
    CHECK_FALSE(w.failure());
}

TEST_CASE("cut and reset end the body after exactly the given number of bytes", "[api_server][fault]") {
    server_fixture s;
    s.put("a", "1");
    const auto whole = s.ask("GET", maps).body;
    for (const auto kind : {fault::kind::cut_after, fault::kind::reset_after}) {
        for (const std::size_t n : {std::size_t(0), std::size_t(1), whole.size() / 2, whole.size() - 1}) {
            s.server.inject(fault(kind).after_bytes(n));
            const auto a = s.ask("GET", maps);
            CHECK(a.f == informer::condition::transport);
            if (kind == fault::kind::cut_after) CHECK(a.body == whole.substr(0, n));
        }
    }
}

TEST_CASE("a cut beyond the end of its answer leaves the next one on the connection alone", "[api_server][fault]") {
    for (const auto kind : {fault::kind::cut_after, fault::kind::reset_after}) {
        server_fixture s;
        s.server.inject(fault(kind).after_bytes(1000));
        const auto small = s.ask("GET", maps);
        CHECK_FALSE(small.f);
        s.put("large", std::string(100'000, 'x'));
        const auto large = s.ask("GET", maps);
        CHECK_FALSE(large.f);
        CHECK(large.body.size() > 100'000);
    }
}

TEST_CASE("a watch is cut after the given number of bytes of its stream", "[api_server][fault]") {
    server_fixture s;
    auto whole = s.watch(since(s));
    s.server.inject(fault(fault::kind::cut_after).after_bytes(40));
    auto w = s.watch(since(s));
    s.put("a", "1");
    CHECK(w.next().type.empty());
    CHECK(w.failure() == informer::condition::transport);
    CHECK(w.pending_text().size() == 40);
    CHECK(whole.next().name() == "a");
    whole.close();
}

TEST_CASE("stall sends the given number of bytes and then nothing", "[api_server][fault]") {
    server_fixture s;
    s.put("a", "1");
    s.server.inject(fault(fault::kind::stall_after).after_bytes(0));
    CHECK(s.ask(impatient(maps)).f == informer::errc::header_timeout);
    answer body;
    for (auto limit = 100ms; body.status == 0 && limit < 10s; limit *= 4) { // server and client share a thread
        s.server.inject(fault(fault::kind::stall_after).after_bytes(10));
        body = s.ask(impatient(maps, limit));
    }
    CHECK(body.status == 200);
    CHECK(body.f == informer::errc::body_idle_timeout);
    s.server.inject(fault(fault::kind::stall_after).after_bytes(1));
    auto w = s.watch(since(s));
    s.put("b", "1");
    CHECK(w.quiet() == false); // the one byte …
    CHECK(w.pending_text() == "{");
    CHECK(w.quiet()); // … and no more
    w.close();
    CHECK(s.run_until([&] { return s.server.open_watches() == 0; }));
}

TEST_CASE("delay holds the answer back, and combines with another fault", "[api_server][fault]") {
    server_fixture s(api_server_options(), true);
    s.server.inject(fault(fault::kind::delay).for_(30s));
    s.server.inject(fault(fault::kind::status).with_code(500));
    const auto early = s.ask(impatient(maps));
    CHECK(early.f == informer::errc::header_timeout);
    CHECK(s.server.pending_faults() == 0);
    s.advance(30s);
    CHECK(s.ask("GET", maps).status == 200);
}

TEST_CASE("garbage is no HTTP, garbage_body is no JSON", "[api_server][fault]") {
    server_fixture s;
    s.server.inject(fault(fault::kind::garbage).with_text("\x16\x03\x01 what?\r\n\r\n"));
    CHECK(s.ask("GET", maps).f == informer::condition::protocol);
    s.server.inject(fault(fault::kind::garbage_body).with_text("{\"kind\":"));
    const auto body = s.ask("GET", maps);
    CHECK(body.status == 200);
    CHECK(body.body == "{\"kind\":");
    s.server.inject(fault(fault::kind::garbage_body).with_text("rubbish ").after_bytes(0));
    auto w = s.watch(since(s));
    s.put("a", "1");
    REQUIRE(s.run_until([&] {
        w.quiet();
        return w.pending_text().find("ADDED") != std::string::npos;
    }));
    CHECK(w.pending_text().starts_with("rubbish {\"type\":\"ADDED\""));
    w.close();
}

TEST_CASE("end_watch ends cleanly after the given number of bytes", "[api_server][fault]") {
    server_fixture s;
    s.server.inject(fault(fault::kind::end_watch).after_bytes(0));
    auto at_once = s.watch(since(s));
    CHECK(at_once.status() == 200);
    CHECK(at_once.next().type.empty());
    CHECK_FALSE(at_once.failure());
    s.server.inject(fault(fault::kind::end_watch).after_bytes(25));
    auto later = s.watch(since(s));
    s.put("a", "1");
    CHECK(later.next().type.empty());
    CHECK_FALSE(later.failure());
    CHECK(later.pending_text().size() == 25);
}

TEST_CASE("a server that stops while requests stall and watches wait leaves nothing behind", "[api_server]") {
    server_fixture s(api_server_options(), true);
    s.server.inject(fault(fault::kind::stall_after).verb("get"));
    s.server.inject(fault(fault::kind::delay).for_(24h).verb("list"));
    CHECK(s.ask(impatient(maps + "/a")).f == informer::errc::header_timeout);
    CHECK(s.ask(impatient(maps)).f == informer::errc::header_timeout);
    const auto w = s.watch(since(s));
    CHECK(s.server.open_watches() == 1);
    // The fixture checks that the io_context runs out of work.
}

TEST_CASE("a request that is delayed when the server stops is not carried out", "[api_server][fault]") {
    server_fixture s(api_server_options(), true);
    s.server.inject(fault(fault::kind::delay).for_(24h).verb("create"));
    informer::http::request r("POST", maps);
    r.body(R"({"metadata":{"name":"a"}})", "application/json").time(informer::http::timeouts().header(100ms));
    CHECK(s.ask(std::move(r)).f == informer::errc::header_timeout);
    CHECK(s.clock->waiters() > 0);
    bool stopped = false;
    const auto stop = [](api_server* server, bool* done) -> boost::asio::awaitable<void> {
        co_await server->stop();
        *done = true;
    };
    boost::asio::co_spawn(s.io, stop(&s.server, &stopped), boost::asio::detached);
    REQUIRE(s.run_until([&] { return stopped; }));
    CHECK(s.server.get("configmaps", "default", "a").is_null());
}

TEST_CASE("a fault with zero repetitions hits no request", "[api_server][fault]") {
    server_fixture s;
    s.server.inject(fault(fault::kind::refuse).repeat(0));
    CHECK(s.server.pending_faults() == 0);
    CHECK(s.ask("GET", maps).status == 200);
}
