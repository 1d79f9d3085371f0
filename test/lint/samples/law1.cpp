// path: libinformer/src/cache/sample.cpp
// Every shape that g++ 12 compiles wrong, and its safe neighbours.
asio::awaitable<void> bad(int n) {
    co_await f({1, 2}); // expect: law1
    co_await f(S{.a = 1}); // expect: law1
    co_await f(S{}); // expect: law1
    auto x = S{co_await a(), 1}; // expect: law1
    co_await call([p] { return *p; }); // expect: law1
    co_await call([p = std::move(p)]() -> int { return 1; }); // expect: law1
    co_await asio::co_spawn(ex, [this]() -> asio::awaitable<void> { co_await g(); }, asio::use_awaitable); // expect: law1
    auto y = co_await g() ? T(1) : T(2); // expect: law1
    co_await f(n ? S(1) : S(2)); // expect: law1
    f(co_await a(), co_await b()); // expect: law1
    co_await asio::async_write( // expect: law1
        stream, asio::buffer(text), options{5}, // a finding is reported where the co_await is
        token);
    const auto z = co_await f( // expect: law1
        std::vector<int>{1, 2});
    if (const auto v = co_await a(); v) co_await b();
    if (co_await a()) co_await b(); // expect: law1
    for (auto i : {1, 2}) co_await f(i); // expect: law1
    co_return S{co_await a()}; // expect: law1
}

asio::awaitable<int> good(int n) {
    S s{1, 2};
    co_await f(std::move(s));
    auto [ec, size] = co_await g(asio::as_tuple(asio::use_awaitable));
    const auto& [first, second] = co_await g();
    auto work = [p = n]() -> asio::awaitable<void> { co_await g(); };
    co_await call(std::move(work));
    co_await call([](int i) { return i + 1; }); // captures nothing
    const auto executor = co_await asio::this_coro::executor;
    const char* brace = "{";
    const auto t = co_await f(R"({"a": [1, 2]})");
    co_await f(v[0], w[n]);
    while (co_await next()) {
        switch (n) {
        case 1: co_await g(); break;
        default: co_await g();
        }
    }
    for (int i = 0; i < 3; ++i) {
        try {
            co_await g();
        } catch (const std::exception& e) {
            n = n ? 1 : 2;
        }
    }
    do {
        co_await g();
    } while (n);
    // lint: law1 a ternary of ints
    co_await f(n ? 1 : 2);
    co_await f(n ? 1 : 2); // lint: law1 of ints again
    co_return S{1, 2};
}

template <class T>
    requires std::integral<T>
asio::awaitable<T> constrained(T t) noexcept {
    T value{t};
    co_await g();
    co_return value;
}

TEST_CASE("in a test") {
    asio::co_spawn(context, [&]() -> asio::awaitable<void> {
        const std::vector<int> numbers{1, 2};
        co_await g();
        co_await f({}); // expect: law1
    }, asio::detached);
    context.run();
}

struct with_members {
    std::string name{"x"};
    explicit with_members(int n) : name{"y"}, count_{n} { start(); }
    asio::awaitable<void> run() override { co_await g(); }
    int count_ = 0;
};

asio::awaitable<void> nested(std::shared_ptr<cluster> c) {
    co_await c->put("before", "1", {{"mine", "yes"}}); // expect: law1
    const std::map<std::string, std::string> labels{{"mine", "yes"}};
    co_await c->put("before", "1", labels);
}
