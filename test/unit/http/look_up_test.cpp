// Look-ups of names: one is shared by all requests that wait for it.
#include "name_server.hpp"
#include "support.hpp"

#include "http/resolve.hpp"

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

/// As many look-ups under way as there may be, of a client each: others wait for their turn.
class all_busy {
public:
    all_busy(bench& b, const asio::any_io_executor& ex, const held_look_ups& names) : requests_(ex), names_(&names) {
        for (std::size_t i = 0; i < http::detail::most_look_ups; ++i) {
            clients_.push_back(b.client(http::client_options().max_idle(0), "held.test"));
            requests_.spawn(send_one(clients_.back().get(), http::timeouts().resolve(0ms), o));
        }
    }
    asio::awaitable<void> begun() {
        const std::function<bool()> all = [this] { return names_->begun() == int(http::detail::most_look_ups); };
        co_await eventually(all);
    }
    asio::awaitable<void> cancelled() {
        requests_.stop();
        co_await requests_.join();
    }
    asio::awaitable<void> end() { co_await requests_.join(); }

    const std::shared_ptr<outcomes> o = std::make_shared<outcomes>();

private:
    std::vector<std::unique_ptr<http::client>> clients_;
    task_group requests_;
    const held_look_ups* names_;
};

asio::awaitable<void> all_cancelled() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, quick);
    held_look_ups names;
    const auto o = std::make_shared<outcomes>();
    const http::timeouts patient = http::timeouts().resolve(0ms);
    auto c = b.client(http::client_options().max_idle(0), "held.test");
    task_group first(ex);
    first.spawn(send_one(c.get(), patient, o));
    const std::function<bool()> begun = [&] { return names.begun() > 0; };
    co_await eventually(begun);
    first.stop();
    co_await first.join();
    CHECK(o->cancelled == 1);
    task_group again(ex);
    again.spawn(send_one(c.get(), patient, o));
    co_await informer::testing::settle();
    c.reset();
    names.let_go();
    co_await again.join();
    CHECK(o->good == 1);
    CHECK(names.begun() == 1);
    co_await b.server.stop();
}

/// In the end no request waits, neither for the look-ups that run nor for the one whose turn has not come.
asio::awaitable<void> left_before_its_turn(bool by_time_out) {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, quick);
    held_look_ups names;
    all_busy busy(b, ex, names);
    co_await busy.begun();
    const auto o = std::make_shared<outcomes>();
    auto other = b.client(http::client_options().max_idle(0), "held.test");
    task_group more(ex);
    more.spawn(send_one(other.get(), http::timeouts().resolve(by_time_out ? 5ms : 0ms), o));
    co_await informer::testing::settle();
    if (!by_time_out) more.stop();
    co_await more.join();
    CHECK((by_time_out ? o->late : o->cancelled) == 1);
    co_await busy.cancelled();
    CHECK(busy.o->cancelled == int(http::detail::most_look_ups));
    names.let_go();
    auto last = b.client(http::client_options().max_idle(0), "two.test");
    co_await send_one(last.get(), http::timeouts().resolve(0ms), o); // its turn is after that of `other`
    CHECK(o->good == 1);
    CHECK(names.begun() == int(http::detail::most_look_ups));
    co_await b.server.stop();
}

asio::awaitable<void> comes_back_before_its_turn() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, quick);
    held_look_ups names;
    all_busy busy(b, ex, names);
    co_await busy.begun();
    const auto o = std::make_shared<outcomes>();
    const http::timeouts patient = http::timeouts().resolve(0ms), hasty = http::timeouts().resolve(5ms);
    auto other = b.client(http::client_options().max_idle(0), "held.test");
    task_group all(ex);
    co_await send_one(other.get(), hasty, o);
    CHECK(o->late == 1);
    for (int i = 0; i < 3; ++i) all.spawn(send_one(other.get(), patient, o));
    co_await informer::testing::settle();
    CHECK(names.begun() == int(http::detail::most_look_ups));
    names.let_go();
    co_await all.join();
    co_await busy.end();
    CHECK(o->good == 3);
    CHECK(names.begun() == int(http::detail::most_look_ups) + 1);
    co_await b.server.stop();
}

asio::awaitable<void> beside_a_silent_name() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, quick);
    held_look_ups names;
    const auto silent = std::make_shared<outcomes>(), o = std::make_shared<outcomes>();
    auto c = b.client(http::client_options().max_idle(0), "held.test");
    auto other = b.client(http::client_options().max_idle(0), "two.test");
    task_group first(ex);
    first.spawn(send_one(c.get(), http::timeouts().resolve(0ms), silent));
    const std::function<bool()> begun = [&] { return names.begun() > 0; };
    co_await eventually(begun);
    co_await send_one(other.get(), http::timeouts(), o);
    CHECK(o->good == 1);
    CHECK(silent->all() == 0);
    names.let_go();
    co_await first.join();
    CHECK(silent->good == 1);
    co_await b.server.stop();
}

/// Client of a name at which nobody answers.
std::unique_ptr<http::client> client_of_held_name(asio::io_context& context) {
    http::endpoint to;
    to.host = "held.test";
    to.port = 1;
    failure f;
    return std::make_unique<http::client>(runtime(context.get_executor()), to, http::client_options(), f);
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
TEST_CASE("a look-up that all requests left before it began, cancelled or late, does not begin") {
    run_test(left_before_its_turn(false));
    run_test(left_before_its_turn(true));
}
TEST_CASE("a request that comes back to a look-up that was left before it began lets it begin") {
    run_test(comes_back_before_its_turn());
}
TEST_CASE("a name that does not answer does not hold up the look-ups of other clients") {
    run_test(beside_a_silent_name());
}
TEST_CASE("run() returns when no request waits any more, however long the look-up still takes") {
    held_look_ups names;
    const auto o = std::make_shared<outcomes>();
    asio::io_context context(1);
    const auto c = client_of_held_name(context);
    asio::co_spawn(context, send_one(c.get(), http::timeouts().resolve(5ms), o), asio::detached);
    context.run_for(10s);
    CHECK(context.stopped());
    CHECK(o->late == 1);
    CHECK(names.begun() <= 1); // its thread may be late
}
TEST_CASE("an io_context may be destroyed, without delay, while several wait for a look-up") {
    held_look_ups names;
    const auto o = std::make_shared<outcomes>();
    {
        asio::io_context context(1);
        const auto c = client_of_held_name(context);
        task_group all(context.get_executor());
        for (int i = 0; i < 3; ++i) all.spawn(send_one(c.get(), http::timeouts(), o));
        while (names.begun() == 0) context.poll();
    }
    CHECK(o->all() == 0);
}
