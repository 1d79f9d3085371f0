// How long code holds the executor, counted in steps.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

/// Slow steps, and how many of them another handler of the executor had to wait for.
class slow_steps {
public:
    explicit slow_steps(boost::asio::any_io_executor e) : executor_(std::move(e)) {}
    void operator()() const {
        counts& c = *counts_;
        c.most = std::max(c.most, ++c.since);
        if (!std::exchange(c.posted, true))
            boost::asio::post(executor_, [shared = counts_] {
                shared->since = 0;
                shared->posted = false;
            });
        using real = std::chrono::steady_clock;
        const auto until = real::now() + std::chrono::microseconds(200);
        while (real::now() < until) {
        }
    }
    /// The most steps in a row. At 200 microseconds each, more than 32 take longer than any step of the library may.
    int most() const { return counts_->most; }
    void start_over() { counts_->most = 0; }

private:
    struct counts {
        int since = 0, most = 0;
        bool posted = false;
    };
    boost::asio::any_io_executor executor_;
    std::shared_ptr<counts> counts_ = std::make_shared<counts>();
};
