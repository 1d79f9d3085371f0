#include <informer/testing/eventually.hpp>

#include <informer/error.hpp>

#include "root/in_seconds.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace informer::testing {

asio::awaitable<void> eventually(std::string what, std::function<bool()> holds, std::chrono::milliseconds at_most) {
    using std::chrono::steady_clock;
    asio::steady_timer timer(co_await asio::this_coro::executor);
    const auto until = steady_clock::now() + at_most;
    for (;;) {
        const bool late = steady_clock::now() >= until; // before it is asked for the last time
        if (holds()) co_return;
        if (late)
            throw error(errc::deadline_exceeded,
                        "\"" + what + "\" did not come true within " + informer::detail::in_seconds(at_most));
        timer.expires_after(std::chrono::milliseconds(10));
        const auto [ended] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
        if (ended) throw error(errc::cancelled, "wait until \"" + what + "\"");
    }
}

} // namespace informer::testing
