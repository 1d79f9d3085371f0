// A coroutine that waits for items of a queue.
#pragma once

#include "queue_scene.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace informer::testing {

/// A coroutine that gets items (one by default) and records what it got and how it ended.
class getter {
public:
    explicit getter(queue_scene& s, int count = 1) {
        asio::co_spawn(s.context, body(s.q.get(), this, count),
                       asio::bind_cancellation_slot(signal_.slot(), [this](std::exception_ptr e) {
                           ended = true;
                           if (!e) return;
                           try {
                               std::rethrow_exception(e);
                           } catch (const boost::system::system_error& x) {
                               code = x.code();
                           }
                       }));
    }
    getter(const getter&) = delete;
    void cancel(asio::cancellation_type type = asio::cancellation_type::terminal) { signal_.emit(type); }

    std::string keys;
    bool ended = false;
    error_code code;
    std::vector<work_queue<>::item> held;

private:
    static asio::awaitable<void> body(work_queue<>* q, getter* self, int count) {
        co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
        for (; count > 0; --count) {
            work_queue<>::item one = co_await q->get();
            self->keys += one ? one.key() : std::string("-");
            if (!one) co_return;
            self->held.push_back(std::move(one));
        }
    }
    asio::cancellation_signal signal_;
};

} // namespace informer::testing
