// The toolchain laws, pinned: the forms that they prescribe work under this compiler, as AddressSanitizer and counting
// show. (broken.cpp has the forms that they forbid.)
#include "tracked.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/detached.hpp>

#include <catch2/catch_test_macros.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace canary;
using tracked = basic_tracked<std::string>;

tracked make(const char* text) {
    return tracked(std::string(text) + " and more than fits into a string itself");
}

struct aggregate {
    tracked first;
    tracked second;
};

/// Options, events and parameters of the library are classes like this one, with a user-declared constructor.
class options {
public:
    options() : name_(make("default")) {}
    options& name(tracked t) {
        name_ = std::move(t);
        return *this;
    }
    std::size_t size() const { return name_.text().size(); }

private:
    tracked name_;
};

asio::awaitable<std::size_t> by_value(aggregate a) {
    co_await suspend();
    co_return a.first.text().size() + a.second.text().size();
}

asio::awaitable<std::size_t> with_options(options o) {
    co_await suspend();
    co_return o.size();
}

asio::awaitable<tracked> one() {
    co_await suspend();
    co_return make("one");
}

asio::awaitable<std::size_t> calls(std::function<std::size_t()> function) {
    co_await suspend();
    co_return function();
}

asio::awaitable<std::size_t> sizes(std::vector<std::string> all) {
    co_await suspend();
    co_return all.size();
}

aggregate factory() {
    return aggregate{make("a"), make("b")};
}

template <class Function>
void check(Function function) {
    const counts c = run(function);
    CHECK(c.made > 0);
    CHECK(c.made == c.gone);
}

} // namespace

TEST_CASE("an aggregate is named, then moved") {
    check([]() -> asio::awaitable<void> {
        aggregate a{make("a"), make("b")};
        const auto n = co_await by_value(std::move(a));
        CHECK(n > 0);
    });
}

TEST_CASE("an aggregate comes from a factory function") {
    check([]() -> asio::awaitable<void> {
        const auto n = co_await by_value(factory());
        CHECK(n > 0);
    });
}

TEST_CASE("a class with a user-declared constructor may be a temporary") {
    check([]() -> asio::awaitable<void> {
        const auto n = co_await with_options(options());
        CHECK(n > 0);
        const auto m = co_await with_options(options().name(make("chained")));
        CHECK(m > 0);
    });
}

TEST_CASE("a capturing lambda is named, then moved") {
    check([]() -> asio::awaitable<void> {
        auto shared = std::make_shared<tracked>(make("shared"));
        auto work = [shared] { return shared->text().size(); };
        const auto n = co_await calls(std::move(work));
        CHECK(n > 0);
        CHECK(shared.use_count() == 1);
    });
}

TEST_CASE("a bound function may be a temporary") {
    check([]() -> asio::awaitable<void> {
        auto shared = std::make_shared<tracked>(make("shared"));
        const auto n = co_await calls(std::bind_front([](const auto& s) { return s->text().size(); }, shared));
        CHECK(n > 0);
        CHECK(shared.use_count() == 1);
    });
}

TEST_CASE("a lambda without captures may be a temporary") {
    check([]() -> asio::awaitable<void> {
        const auto n = co_await calls([] { return make("x").text().size(); });
        CHECK(n > 0);
    });
}

TEST_CASE("a spawned coroutine gets its state as parameters") {
    check([]() -> asio::awaitable<void> {
        const auto executor = co_await asio::this_coro::executor;
        auto child = [](tracked t) -> asio::awaitable<std::size_t> {
            co_await suspend();
            co_return t.text().size();
        };
        auto started = child(make("state"));
        const auto n = co_await asio::co_spawn(executor, std::move(started), asio::use_awaitable);
        CHECK(n > 0);
    });
}

TEST_CASE("if and else choose a named value") {
    for (const bool left : {true, false}) {
        check([left]() -> asio::awaitable<void> { // the lambda that owns the captures lives long enough: check() waits
            options chosen;
            if (left)
                chosen.name(make("left"));
            else
                chosen.name(make("right"));
            const auto n = co_await with_options(std::move(chosen));
            CHECK(n > 0);
        });
    }
}

TEST_CASE("a list is named, then moved") {
    check([]() -> asio::awaitable<void> {
        const tracked t = make("t");
        std::vector<std::string> all{t.text(), t.text()};
        const auto n = co_await sizes(std::move(all));
        CHECK(n == 2);
    });
}

TEST_CASE("the members of an aggregate are awaited before it is built") {
    check([]() -> asio::awaitable<void> {
        auto first = co_await one();
        auto second = co_await one();
        const aggregate a{std::move(first), std::move(second)};
        CHECK(a.first.text() == a.second.text());
    });
}

TEST_CASE("a coroutine may return a brace-built aggregate that awaits nothing") {
    check([]() -> asio::awaitable<void> {
        auto made = []() -> asio::awaitable<aggregate> {
            co_await suspend();
            co_return aggregate{make("a"), make("b")};
        };
        const auto a = co_await made();
        CHECK(a.first.text() != a.second.text());
    });
}

TEST_CASE("structured bindings of an as_tuple result") {
    check([]() -> asio::awaitable<void> {
        const auto executor = co_await asio::this_coro::executor;
        asio::steady_timer timer(executor, std::chrono::milliseconds(1));
        const tracked t = make("t");
        const auto [ec] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
        CHECK_FALSE(ec);
        CHECK_FALSE(t.text().empty());
    });
}

TEST_CASE("a context destroyed under suspended coroutines frees what they hold") {
    tally = counts();
    {
        asio::io_context context(1);
        auto forever = [](tracked t) -> asio::awaitable<void> {
            const auto executor = co_await asio::this_coro::executor;
            asio::steady_timer timer(executor, std::chrono::hours(1));
            co_await timer.async_wait(asio::use_awaitable);
            CHECK(t.text().empty()); // never reached
        };
        asio::co_spawn(context, forever(make("held")), asio::detached);
        context.poll();
    }
    CHECK(tally.made > 0);
    CHECK(tally.made == tally.gone);
}
