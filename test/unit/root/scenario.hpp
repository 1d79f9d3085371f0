// Stops a coroutine after k handlers, for every k.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace scenario {

namespace asio = boost::asio;

/// Counts the coroutine frames that hold one.
class alive {
public:
    explicit alive(int& count) : count_(&count) { ++*count_; }
    alive(const alive&) = delete;
    alive& operator=(const alive&) = delete;
    ~alive() { --*count_; }

private:
    int* count_;
};

enum class stop_by { nothing, total, partial, terminal, destruction };

inline asio::cancellation_type type_of(stop_by how) {
    switch (how) {
    case stop_by::total: return asio::cancellation_type::total;
    case stop_by::partial: return asio::cancellation_type::partial;
    default: return asio::cancellation_type::terminal;
    }
}

struct result {
    bool ended = false;    ///< the coroutine came to its end, by return or by exception
    bool had_time = false; ///< it ended before it was stopped
    std::exception_ptr thrown;
};

/// Runs the coroutine for `k` handlers on a context of its own, stops it, and lets it unwind. `idle` is called whenever
/// nothing is ready (to advance a clock); false ends the run.
inline result run(asio::awaitable<void> work, int k, stop_by how, const std::function<bool()>& idle) {
    auto r = std::make_shared<result>();
    asio::cancellation_signal signal;
    auto context = std::make_unique<asio::io_context>(1);
    asio::co_spawn(*context, std::move(work),
                   asio::bind_cancellation_slot(signal.slot(),
                                                asio::bind_executor(context->get_executor(), [r](std::exception_ptr e) {
                                                    r->ended = true;
                                                    r->thrown = std::move(e);
                                                })));
    const auto step = [&] {
        context->restart();
        while (context->poll_one() == 0)
            if (!idle())
                return false;
            else
                context->restart();
        return true;
    };
    while (k-- > 0 && step()) {
    }
    r->had_time = r->ended;
    if (how == stop_by::destruction) {
        context.reset();
        return *r;
    }
    if (how != stop_by::nothing) signal.emit(type_of(how));
    while (step()) {
    }
    context->restart();
    context->poll();
    CHECK(context->stopped()); // nothing left behind
    return *r;
}

} // namespace scenario
