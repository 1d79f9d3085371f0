// Look-ups of names: one is shared by all requests that wait for it.
#include "name_server.hpp"
#include "support.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace http_test;

namespace {

asio::awaitable<void> quick(request_ptr, response_ptr r) {
    co_await r->send(200, "text/plain", "ok");
}

struct outcomes {
    int good = 0, cancelled = 0, late = 0, other = 0;
    int all() const { return good + cancelled + late + other; }
};

/// Sends a request with a client that keeps no connection.
asio::awaitable<void> send_one(http::client* c, http::timeouts t, std::shared_ptr<outcomes> o) {
    co_await asio::this_coro::throw_if_cancelled(false);
    failure f;
    const http::response r = co_await c->send(http::request("POST", "/").time(t), f);
    if (!f)
        ++o->good;
    else if (f == errc::cancelled)
        ++o->cancelled;
    else if (f == errc::resolve_timeout)
        ++o->late;
    else
        ++o->other;
}

asio::awaitable<void> shared() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, quick);
    held_look_ups names;
    const auto o = std::make_shared<outcomes>();
    auto c = b.client(http::client_options().max_idle(0), "held.test");
    const http::timeouts patient = http::timeouts().resolve(0ms);
    task_group all(ex);
    for (int i = 0; i < 8; ++i) all.spawn(send_one(c.get(), patient, o));
    const std::function<bool()> begun = [&] { return names.begun() > 0; };
    co_await eventually(begun);
    co_await informer::testing::settle();
    names.let_go();
    co_await all.join();
    CHECK(o->good == 8);
    CHECK(names.begun() == 1);
    CHECK(c->figures().connections_opened == 8);
    co_await send_one(c.get(), patient, o); // it looks the name up again: addresses change
    CHECK(o->good == 9);
    CHECK(names.begun() == 2);
    co_await b.server.stop();
}

asio::awaitable<void> some_leave() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, quick);
    held_look_ups names;
    const auto o = std::make_shared<outcomes>();
    auto c = b.client(http::client_options().max_idle(0), "held.test");
    const http::timeouts patient = http::timeouts().resolve(0ms), hasty = http::timeouts().resolve(20ms);
    task_group stay(ex), leave(ex);
    leave.spawn(send_one(c.get(), patient, o)); // this one begins the look-up
    const std::function<bool()> begun = [&] { return names.begun() > 0; };
    co_await eventually(begun);
    for (int i = 0; i < 3; ++i) stay.spawn(send_one(c.get(), patient, o));
    for (int i = 0; i < 3; ++i) leave.spawn(send_one(c.get(), patient, o));
    stay.spawn(send_one(c.get(), hasty, o));
    const std::function<bool()> one_late = [&] { return o->late == 1; };
    co_await eventually(one_late);
    CHECK(o->all() == 1);
    leave.stop();
    co_await leave.join();
    CHECK(o->cancelled == 4);
    CHECK(o->all() == 5);
    names.let_go();
    co_await stay.join();
    CHECK(o->good == 3);
    CHECK(o->other == 0);
    CHECK(names.begun() == 1);
    co_await b.server.stop();
}

asio::awaitable<void> nobody_stays() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, quick);
    held_look_ups names;
    const auto o = std::make_shared<outcomes>();
    auto c = b.client(http::client_options().max_idle(0), "held.test");
    const http::timeouts patient = http::timeouts().resolve(0ms), hasty = http::timeouts().resolve(5ms);
    for (int i = 0; i < 3; ++i) co_await send_one(c.get(), hasty, o);
    CHECK(o->late == 3);
    task_group late(ex);
    late.spawn(send_one(c.get(), patient, o));
    co_await informer::testing::settle();
    names.let_go();
    co_await late.join();
    CHECK(o->good == 1);
    CHECK(names.begun() == 1);
    co_await b.server.stop();
}

asio::awaitable<void> all_cancelled() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, quick);
    held_look_ups names;
    const auto o = std::make_shared<outcomes>();
    const http::timeouts patient = http::timeouts().resolve(0ms);
    auto c = b.client(http::client_options().max_idle(0), "held.test");
    auto other = b.client(http::client_options().max_idle(0), "held.test"); // its look-up waits for the thread
    task_group first(ex), second(ex);
    first.spawn(send_one(c.get(), patient, o));
    const std::function<bool()> begun = [&] { return names.begun() > 0; };
    co_await eventually(begun);
    second.spawn(send_one(other.get(), patient, o));
    co_await informer::testing::settle();
    second.stop();
    co_await second.join();
    first.stop();
    co_await first.join();
    CHECK(o->cancelled == 2);
    task_group again(ex);
    again.spawn(send_one(c.get(), patient, o));
    co_await informer::testing::settle();
    c.reset();
    names.let_go();
    co_await again.join();
    CHECK(o->good == 1);
    CHECK(names.begun() == 1); // the look-up that nobody waited for any more never began
    co_await b.server.stop();
}

/// The look-up of `c` holds the thread, and that of `other` waits for it; in the end no request waits for either.
asio::awaitable<void> late_before_its_turn(held_look_ups* names) {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, quick);
    const auto o = std::make_shared<outcomes>();
    const http::timeouts patient = http::timeouts().resolve(0ms), hasty = http::timeouts().resolve(5ms);
    auto c = b.client(http::client_options().max_idle(0), "held.test");
    auto other = b.client(http::client_options().max_idle(0), "held.test");
    task_group first(ex);
    first.spawn(send_one(c.get(), patient, o));
    const std::function<bool()> begun = [&] { return names->begun() > 0; };
    co_await eventually(begun);
    co_await send_one(other.get(), hasty, o);
    CHECK(o->late == 1);
    first.stop();
    co_await first.join();
    CHECK(o->cancelled == 1);
    names->let_go();
    co_await b.server.stop();
}

asio::awaitable<void> comes_back_before_its_turn() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, quick);
    held_look_ups names;
    const auto o = std::make_shared<outcomes>();
    const http::timeouts patient = http::timeouts().resolve(0ms), hasty = http::timeouts().resolve(5ms);
    auto c = b.client(http::client_options().max_idle(0), "held.test");
    auto other = b.client(http::client_options().max_idle(0), "held.test");
    task_group all(ex);
    all.spawn(send_one(c.get(), patient, o));
    const std::function<bool()> begun = [&] { return names.begun() > 0; };
    co_await eventually(begun);
    co_await send_one(other.get(), hasty, o);
    CHECK(o->late == 1);
    for (int i = 0; i < 3; ++i) all.spawn(send_one(other.get(), patient, o));
    co_await informer::testing::settle();
    names.let_go();
    co_await all.join();
    CHECK(o->good == 4);
    CHECK(names.begun() == 2);
    co_await b.server.stop();
}

asio::awaitable<void> ask_twice(http::client* c, failure* first, failure* second) {
    const http::request r = http::request("GET", "/").time(http::timeouts().resolve(5s));
    co_await c->send(r, *first);
    co_await c->send(r, *second);
}

/// For a process that may start no more threads: returns 0 if two requests in turn report just that.
int look_up_without_threads() {
    if (::getuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 2; // root may have any number
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_NPROC, &none) != 0) return 2;
    try {
        asio::io_context io(1);
        const runtime rt(io.get_executor());
        failure f;
        const auto to = http::endpoint::parse("http://a-name.test:80", f);
        http::client c(rt, to, http::client_options(), f);
        failure first, second;
        asio::co_spawn(io, ask_twice(&c, &first, &second), asio::detached);
        io.run();
        return first == errc::resolve_failed && second == errc::resolve_failed ? 0 : 3;
    } catch (...) {
        return 4;
    }
}

} // namespace

TEST_CASE("a look-up for which no thread can be made fails, and nothing is thrown") {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(look_up_without_threads());
    REQUIRE(child > 0);
    int how = 0;
    REQUIRE(::waitpid(child, &how, 0) == child);
    CHECK(WIFEXITED(how));
    if (WEXITSTATUS(how) == 2) SKIP("no process without threads can be made here");
    CHECK(WEXITSTATUS(how) == 0);
}

TEST_CASE("a name is looked up once for all requests at the same time, and again for later ones") {
    run_test(shared());
}
TEST_CASE("a request that leaves a look-up, cancelled or late, leaves it to the others") {
    run_test(some_leave());
}
TEST_CASE("a look-up that timed out for its requests serves the next attempt") {
    run_test(nobody_stays());
}
TEST_CASE("a cancelled look-up is not waited for; a later request joins it; the client may be destroyed meanwhile") {
    run_test(all_cancelled());
}
TEST_CASE("a look-up that all requests left before it began, even by a time-out, does not begin") {
    held_look_ups names;
    run_test(late_before_its_turn(&names));
    CHECK(names.begun() == 1);
}
TEST_CASE("a request that comes back to a look-up that was left before it began lets it begin") {
    run_test(comes_back_before_its_turn());
}
TEST_CASE("an io_context may be destroyed while several wait for a look-up") {
    held_look_ups names;
    const auto o = std::make_shared<outcomes>();
    {
        asio::io_context context(1);
        http::endpoint to;
        to.host = "held.test";
        to.port = 1;
        failure f;
        http::client c(runtime(context.get_executor()), to, http::client_options(), f);
        task_group all(context.get_executor());
        for (int i = 0; i < 3; ++i) all.spawn(send_one(&c, http::timeouts(), o));
        while (names.begun() == 0) context.poll();
        names.let_go(); // the context joins its thread
    }
    CHECK(o->all() == 0);
}
