// Several replicas and one embedded API server, each on an io_context and a clock of its own: replicas can be paused,
// their clocks can run fast, slow, or show another date. Time passes only in `world::run`, when all of them have
// nothing left to do.
#pragma once

#include <informer/kubernetes/client.hpp>
#include <informer/testing/api_server.hpp>
#include <informer/testing/manual_clock.hpp>

#include "support/log_capture.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lease_test {

namespace asio = boost::asio;
using namespace informer;
using namespace std::chrono_literals;

class figures final : public metrics_sink {
public:
    void add(std::string_view name, double v, labels) override { counters[std::string(name)] += v; }
    void set(std::string_view name, double v, labels of) override {
        gauges[std::string(name)] = v;
        for (const auto& [key, value] : of) seen[std::string(key)] = std::string(value);
    }
    void observe(std::string_view, double, labels) override {}
    std::map<std::string, double> counters, gauges;
    std::map<std::string, std::string> seen;
};

/// A process of its own, as far as one thread can simulate it.
struct replica {
    replica(std::string n, const testing::api_server& server, double r)
        : name(std::move(n)), rate(r), rt(io.get_executor()) {
        rt.with_clock(clock)
            .with_logger(log.logger(), log_level::info)
            .with_metrics(metrics)
            .with_seed(std::hash<std::string>()(name));
        config.server = server.url();
        client.emplace(rt, config);
    }

    /// Starts a coroutine that `signal` cancels; `ended` and `failed` say how it went.
    void start(asio::awaitable<void> work) {
        ended = false;
        failed = nullptr;
        signal = std::make_unique<asio::cancellation_signal>();
        asio::co_spawn(io, std::move(work), asio::bind_cancellation_slot(signal->slot(), [this](std::exception_ptr e) {
                           failed = std::move(e);
                           ended = true;
                       }));
    }
    void stop() { signal->emit(asio::cancellation_type::terminal); }

    std::string name;
    double rate = 1;
    bool paused = false;
    asio::io_context io{1};
    std::shared_ptr<testing::manual_clock> clock = std::make_shared<testing::manual_clock>();
    std::shared_ptr<figures> metrics = std::make_shared<figures>();
    testing::log_capture log;
    runtime rt;
    kubernetes::client_config config;
    std::optional<kubernetes::client> client;
    std::unique_ptr<asio::cancellation_signal> signal;
    bool ended = false;
    std::exception_ptr failed;
};

class world {
    asio::io_context io_{1}; // outlives everything that uses it
    runtime rt_;

public:
    world() : rt_(io_.get_executor()) {
        server = std::make_unique<testing::api_server>(rt_);
        server->start();
    }
    ~world() {
        for (auto& r : replicas) r->client.reset();
        bool stopped = false;
        io_.restart(); // the context has stopped if it had no work, as while the server does not listen
        asio::co_spawn(io_, server->stop(), [&](std::exception_ptr) { stopped = true; });
        for (int i = 0; i < 5000 && !stopped; ++i) io_.run_one_for(1ms);
        CHECK(stopped);
        settle();
    }
    world(const world&) = delete;
    world& operator=(const world&) = delete;

    replica& add(std::string name, double rate = 1, std::chrono::nanoseconds wall_offset = 0s) {
        replicas.push_back(std::make_unique<replica>(std::move(name), *server, rate));
        auto& r = *replicas.back();
        r.clock->set_wall(testing::manual_clock::default_wall +
                          std::chrono::duration_cast<std::chrono::system_clock::duration>(wall_offset));
        return r;
    }

    /// Ends what a replica runs, and the calls of `after_each`.
    void close(replica& r) {
        after_each = nullptr;
        server->clear_faults();
        r.paused = false;
        if (r.signal && !r.ended) r.stop();
        for (int i = 0; i < 200 && r.signal && !r.ended; ++i) run(1s, 1s);
        CHECK((!r.signal || r.ended)); // else it hangs
    }

    /// Runs all until they have nothing to do but wait for time to pass. Loopback sockets are ready at once, so silence
    /// proves it.
    void settle() {
        for (bool quiet = false; !quiet;) {
            std::size_t done = 0;
            for (auto& r : replicas) {
                if (r->paused) continue;
                r->io.restart();
                done += r->io.poll();
            }
            io_.restart();
            done += io_.poll();
            if (done == 0) {
                io_.restart();
                done = io_.run_one_for(300us);
            }
            quiet = done == 0;
        }
    }

    /// Lets `d` pass, in steps; calls `after_each` after each step.
    void run(std::chrono::nanoseconds d, std::chrono::nanoseconds step = 200ms) {
        settle();
        for (auto left = d; left > 0s; left -= step) {
            const auto by = std::min(step, left);
            now += by;
            for (auto& r : replicas)
                r->clock->advance(std::chrono::nanoseconds(std::llround(double(by.count()) * r->rate)));
            settle();
            if (after_each) after_each();
        }
    }
    /// Lets time pass until `so` is true. Returns how long that took, or `most` if it never was.
    std::chrono::nanoseconds run_until(const std::function<bool()>& so, std::chrono::nanoseconds most,
                                       std::chrono::nanoseconds step = 200ms) {
        settle();
        std::chrono::nanoseconds passed{};
        while (!so() && passed < most) {
            run(step, step);
            passed += step;
        }
        return passed;
    }

    std::unique_ptr<testing::api_server> server;
    std::vector<std::unique_ptr<replica>> replicas;
    std::chrono::nanoseconds now{};
    std::function<void()> after_each;
};

} // namespace lease_test
