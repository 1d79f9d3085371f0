// The value that the coroutines of the canary carry: it counts how often it was made and destroyed.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>
#include <exception>
#include <string>
#include <utility>

namespace canary {

namespace asio = boost::asio;

struct counts {
    int made = 0;
    int gone = 0;
};
inline counts tally;

/// A std::string inside makes a second destruction a double free, which AddressSanitizer sees; the broken forms carry a
/// number.
template <class Text>
class basic_tracked {
public:
    explicit basic_tracked(Text text) : text_(std::move(text)) { ++tally.made; }
    basic_tracked(const basic_tracked& other) : text_(other.text_) { ++tally.made; }
    basic_tracked(basic_tracked&& other) noexcept : text_(std::move(other.text_)) { ++tally.made; }
    basic_tracked& operator=(const basic_tracked&) = default;
    basic_tracked& operator=(basic_tracked&&) = default;
    ~basic_tracked() { ++tally.gone; }
    const Text& text() const { return text_; }

private:
    Text text_;
};

inline asio::awaitable<void> suspend() {
    const auto executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor, std::chrono::milliseconds(1));
    co_await timer.async_wait(asio::use_awaitable);
}

/// Runs a coroutine function to its end, and returns the counts of this run.
template <class Function>
counts run(Function function) {
    tally = counts();
    {
        asio::io_context context(1);
        std::exception_ptr failed;
        asio::co_spawn(context, function(), [&failed](std::exception_ptr e) { failed = e; });
        context.run();
        if (failed) std::rethrow_exception(failed);
    }
    return tally;
}

} // namespace canary
