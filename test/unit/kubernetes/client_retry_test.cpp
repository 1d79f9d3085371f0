// Which requests a client repeats, when, and how often.
#include "bench.hpp"

#include <informer/task_group.hpp>

#include <boost/json/parse.hpp>

#include <catch2/catch_test_macros.hpp>

using namespace kubernetes_test;
using namespace std::chrono_literals;
using informer::kubernetes::write_options;
namespace json = boost::json;

TEST_CASE("client: after 429 and 503 with Retry-After a request is repeated as told") {
    bench b;
    b.answers->next.push_back(reply(429, "slow down").type("text/plain").header("Retry-After", "3"));
    b.answers->next.push_back(reply(503, "later").type("text/plain").header("Retry-After", "1"));
    b.answers->next.emplace_back(429, status(429, "TooManyRequests", "x", R"(,"details":{"retryAfterSeconds":2})"));
    b.answers->next.emplace_back(pod("a"));
    failure f;
    const object o = get(b, "a", f);
    CHECK_FALSE(f);
    CHECK(o);
    CHECK(b.answers->lines.size() == 4);
    CHECK(b.slept == std::vector<std::chrono::nanoseconds>{3s, 1s, 2s});
}

TEST_CASE("client: metrics count the repeated requests and the time that the server made us wait") {
    bench b;
    const auto told = std::make_shared<totals>();
    b.api.emplace(runtime(b.rt).with_metrics(told), b.config);
    b.answers->next.push_back(reply(429, "slow down").type("text/plain").header("Retry-After", "3"));
    b.answers->next.push_back(reply(503, "later").type("text/plain").header("Retry-After", "1"));
    b.answers->next.emplace_back(pod("a"));
    failure f;
    get(b, "a", f);
    CHECK_FALSE(f);
    CHECK(told->sums["rest_client_request_retries_total 429 GET"] == 1);
    CHECK(told->sums["rest_client_request_retries_total 503 GET"] == 1);
    CHECK(told->sums["rest_client_rate_limiter_duration_seconds GET"] == 4);
    b.answers->next.push_back(reply(429, "slow down").type("text/plain").header("Retry-After", "2"));
    b.answers->next.emplace_back(R"({"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[]})");
    b.run(b.api->list(pods(), "", list_options(), f));
    CHECK_FALSE(f);
    CHECK(told->sums["rest_client_request_retries_total 429 GET"] == 2);
    CHECK(told->sums["rest_client_rate_limiter_duration_seconds GET"] == 6);
}

TEST_CASE("client: a client without retries returns the refusal at once; the client it was made from still retries") {
    bench b;
    auto once = b.api->without_retries();
    failure f;
    const auto refuse = [&] {
        b.answers->next.push_back(reply(429, "slow down").type("text/plain").header("Retry-After", "3"));
    };
    refuse();
    b.run(once.get(pods(), object_key("default", "a"), f));
    CHECK(f == errc::too_many_requests);
    refuse();
    b.run(once.list(pods(), "default", list_options(), f));
    CHECK(f == errc::too_many_requests);
    refuse();
    b.run(once.update(pods(), json::parse(pod("a")), write_options(), f));
    CHECK(f == errc::too_many_requests);
    CHECK(f.status()->retry_after == 3s);
    CHECK(b.answers->lines.size() == 3);
    CHECK(b.slept.empty());
    refuse();
    b.answers->next.emplace_back(pod("a"));
    CHECK(get(b, "a", f));
    CHECK(b.slept.size() == 1);
}

TEST_CASE("client: a GET is repeated after any 5xx with Retry-After") {
    bench b;
    failure f;
    b.answers->next.push_back(reply(500, status(500, "ServerTimeout", "etcd")).header("Retry-After", "2"));
    b.answers->next.push_back(reply(504, "x").header("Retry-After", "1"));
    b.answers->next.emplace_back(pod("a"));
    CHECK(get(b, "a", f));
    CHECK_FALSE(f);
    CHECK(b.slept == std::vector<std::chrono::nanoseconds>{2s, 1s});
}

TEST_CASE("client: nothing is repeated without Retry-After, or after a 4xx other than 429") {
    bench b;
    failure f;
    b.answers->next.emplace_back(429, "x");
    get(b, "a", f);
    CHECK(f == errc::too_many_requests);
    b.answers->next.push_back(reply(404, "x").header("Retry-After", "1"));
    get(b, "a", f);
    b.answers->next.push_back(reply(503, "x").header("Retry-After", "Wed, 21 Oct 2026 07:28:00 GMT"));
    get(b, "a", f);
    b.answers->next.push_back(reply(503, "x").header("Retry-After", "99999999"));
    get(b, "a", f);
    CHECK(f.status()->retry_after == 99999999s);
    CHECK(b.answers->lines.size() == 4);
    CHECK(b.slept.empty());
}

TEST_CASE("RE2 a request is repeated ten times at most") {
    bench b;
    for (int i = 0; i < 20; ++i) b.answers->next.push_back(reply(429, "x").header("Retry-After", "1"));
    failure f;
    get(b, "a", f);
    CHECK(f == errc::too_many_requests);
    CHECK(b.answers->lines.size() == 11);
}

TEST_CASE("client: writes are repeated after 429 and 503 that say when, and never blindly") {
    bench b;
    failure f;
    b.answers->next.push_back(reply(429, "x").header("Retry-After", "1"));
    b.answers->next.push_back(reply(503, "x").header("Retry-After", "1"));
    b.answers->next.emplace_back(503, "x");
    b.run(b.api->update(pods(), json::parse(pod("a")), write_options(), f));
    CHECK(f == errc::server_error);
    CHECK(b.answers->lines.size() == 3);
    b.answers->lines.clear();
    b.answers->next.push_back(reply("").streamed({"{"}, reply::cut));
    b.run(b.api->update(pods(), json::parse(pod("a")), write_options(), f));
    CHECK(f == errc::connection_lost);
    CHECK(b.answers->lines.size() == 1);
    b.answers->lines.clear();
    b.answers->next.push_back(reply(500, "x").header("Retry-After", "1")); // it may have been stored
    b.run(b.api->update(pods(), json::parse(pod("a")), write_options(), f));
    CHECK(f == errc::server_error);
    CHECK(b.answers->lines.size() == 1);
}

TEST_CASE("client: a GET is repeated once if the connection is lost") {
    bench b;
    failure f;
    b.answers->next.push_back(reply("").streamed({"{\"metadata\""}, reply::cut));
    b.answers->next.emplace_back(pod("a"));
    CHECK(get(b, "a", f));
    CHECK_FALSE(f);
    b.answers->next.push_back(reply("").streamed({"{"}, reply::cut));
    b.answers->next.push_back(reply("").streamed({"{"}, reply::cut));
    get(b, "a", f);
    CHECK(f == errc::connection_lost);
    CHECK(b.answers->lines.size() == 4);
}

TEST_CASE("client: the wait before a retry ends when it is cancelled") {
    bench b;
    b.answers->next.push_back(reply(429, "x").header("Retry-After", "60"));
    failure f;
    bool done = false;
    task_group group(b.io.get_executor());
    struct work {
        static asio::awaitable<void> go(client c, failure* f, bool* done) {
            const object_key key("default", "a");
            const object o = co_await c.get(pods(), key, *f);
            *done = !o;
        }
    };
    group.spawn(work::go(*b.api, &f, &done));
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (b.clock->waiters() == 0 && std::chrono::steady_clock::now() < until) {
        b.io.restart();
        b.io.run_one_for(10ms);
    }
    REQUIRE(b.clock->waiters() == 1);
    group.stop();
    b.run(group.join());
    CHECK(done);
    CHECK(f == errc::cancelled);
}
