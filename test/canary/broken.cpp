// The forms that the toolchain laws forbid, and what this compiler makes of them. Nothing here is a failure: the
// program documents why the laws exist, and says so when a compiler handles all forms correctly. g++ 12.2 destroys
// every one of these temporaries twice, silently. The values are harmless numbers, so that the program survives to
// count.
#include "tracked.hpp"

#include <cstdio>
#include <functional>
#include <utility>

namespace {

using namespace canary;
using tracked = basic_tracked<int>;

struct aggregate {
    tracked first;
    int second = 0;
};

asio::awaitable<int> takes(aggregate a) {
    co_await suspend();
    co_return a.second;
}

asio::awaitable<int> has_default(aggregate a = {tracked(1), 2}) {
    co_await suspend();
    co_return a.second;
}

template <class Function>
asio::awaitable<int> calls(Function function) {
    co_await suspend();
    co_return function();
}

asio::awaitable<tracked> one() {
    co_await suspend();
    co_return tracked(1);
}

asio::awaitable<int> number(tracked t) {
    co_await suspend();
    co_return t.text();
}

asio::awaitable<void> temporary() {
    co_await takes(aggregate{tracked(1), 2});
}
asio::awaitable<void> braces() {
    co_await takes({tracked(1), 2});
}
asio::awaitable<void> default_argument() {
    co_await has_default();
}
asio::awaitable<void> awaits_inside() {
    const aggregate a{co_await one(), 2};
    static_cast<void>(a);
}
asio::awaitable<void> returns_braces() {
    auto made = []() -> asio::awaitable<aggregate> { co_return aggregate{co_await one(), 2}; };
    co_await made();
}
asio::awaitable<void> lambda() {
    tracked t(1);
    co_await calls([t] { return t.text(); });
}
asio::awaitable<void> ternary() {
    const int n = co_await number(tally.made == 0 ? tracked(1) : tracked(2));
    static_cast<void>(n);
}

int broken = 0, right = 0;

void show(const char* form, asio::awaitable<void> (*function)()) {
    const counts c = run(function);
    const bool fine = c.made == c.gone;
    (fine ? right : broken) += 1;
    std::printf("%-60s %d made, %d destroyed: %s\n", form, c.made, c.gone, fine ? "right" : "WRONG");
}

} // namespace

int main() {
    show("co_await takes(aggregate{...})", temporary);
    show("co_await takes({...})", braces);
    show("co_await f(), with an aggregate as default argument", default_argument);
    show("aggregate{co_await one(), ...}", awaits_inside);
    show("co_return aggregate{co_await one(), ...}", returns_braces);
    show("co_await calls([captured] {...})", lambda);
    show("co_await f(condition ? object : object)", ternary);
    if (broken == 0)
        std::puts("notice: this compiler has all forbidden forms right; law 1 is still needed for g++ 12");
    else
        std::printf("%d of %d forbidden forms are wrong under this compiler, as law 1 says\n", broken, broken + right);
}
