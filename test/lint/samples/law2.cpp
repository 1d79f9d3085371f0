// path: libinformer/src/cache/sample.cpp
asio::awaitable<void> by_value(std::string text, std::shared_ptr<T> p, int* out) { co_await g(); }
asio::awaitable<void> by_reference(const std::string& text) { co_await g(); } // expect: law2
asio::awaitable<void> by_view(std::string_view text) { co_await g(); } // expect: law2
asio::awaitable<void> by_span(int n, std::span<const char> bytes) { co_await g(); } // expect: law2
asio::awaitable<void> by_rvalue(std::string&& text) { co_return; } // expect: law2
asio::awaitable<void> widget::member(
    int n,
    const widget& other) const { // expect: law2
    co_await g();
}
// Out-parameters and interfaces that outlive the call.
asio::awaitable<void> out(failure& f, informer::object_sink& sink, boost::system::error_code& ec) { co_await g(); }
asio::awaitable<void> not_out(const error_code& ec) { co_await g(); } // expect: law2
asio::awaitable<void> on_purpose(clock& c) { co_await g(); } // lint: law2 the clock outlives every coroutine
// lint: law2 the caller awaits it at once
asio::awaitable<void> on_purpose_too(clock& c) { co_await g(); }
// No coroutines: they hand the work on before anything can go away.
asio::awaitable<void> forward(const std::string& text) { return by_value(text); }
int plain(const std::string& text) { return 1; }
void inside(const std::string& text) {
    auto lambda = [](const std::string& t) -> asio::awaitable<void> { co_await g(); }; // expect: law2
    auto fine = [&text](std::string t) -> asio::awaitable<void> { co_await g(); };
    std::sort(a, b, [](const S& x, const S& y) { return x < y; });
}
asio::awaitable<void> with_lambda_inside(int n) {
    auto less = [](const S& x, const S& y) { return x < y; };
    co_await g();
}
asio::awaitable<void> in_a_template(std::function<void(const std::string&)> handler, std::vector<std::string_view> v) {
    co_await g();
}
template <class F>
auto generic(F&& f) -> asio::awaitable<std::pair<int, int>> { // expect: law2
    co_await f();
}
