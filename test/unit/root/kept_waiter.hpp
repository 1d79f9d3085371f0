// A coroutine that waits in a waiter which is kept from one wait to the next.
#pragma once

#include "root/parking.hpp"
#include "scenario.hpp"

#include <boost/asio/awaitable.hpp>

#include <utility>
#include <vector>

namespace parking_tests {

namespace asio = boost::asio;
using informer::detail::wait_in;
using informer::detail::waiter;
using informer::detail::waiter_ptr;

/// Puts the coroutine into a waiter that is kept.
class into {
public:
    explicit into(waiter* w) : waiter_(w) {}
    template <class Handler>
    void operator()(Handler h) const {
        waiter_->wait(std::move(h));
    }

private:
    waiter* waiter_;
};

inline asio::awaitable<void> waits_in(waiter_ptr w, int times, int* frames, std::vector<bool>* woken) {
    const scenario::alive frame(*frames);
    for (int n = 0; n < times; ++n) {
        const into here(w.get());
        const bool one = co_await wait_in(here);
        woken->push_back(one);
    }
}

} // namespace parking_tests
