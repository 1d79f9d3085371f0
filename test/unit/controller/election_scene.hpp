// Replicas that stand for election at an embedded API server, what tests observe of them, and faults of the server.
#pragma once

#include "lease_world.hpp"

#include <informer/controller/leader_election.hpp>

#include <boost/asio/this_coro.hpp>
#include <boost/json.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lease_test {

inline constexpr const char* space = "default";

/// One replica that stands for election, and what tests observe of it.
struct stander {
    stander(world& w, leader_election_options o, double rate = 1, std::chrono::nanoseconds wall = 0s)
        : all(w), self(w.add(o.identity_, rate, wall)) {
        o.on_new_leader([this](const std::string& who) { seen.push_back(who); });
        o.on_event(
            [this](const object& lease, const std::string& what) { events.push_back(lease.key().str() + " " + what); });
        elector.emplace(self.rt, *self.client, o);
    }
    ~stander() { all.close(self); }
    stander(const stander&) = delete;
    stander& operator=(const stander&) = delete;
    void start() { self.start(stand(this)); }

    static asio::awaitable<void> stand(stander* s) {
        std::function<asio::awaitable<void>(leadership)> lead = [s](leadership l) { return work(s, std::move(l)); };
        s->end = co_await s->elector->run(std::move(lead));
    }
    static asio::awaitable<void> work(stander* s, leadership l) {
        co_await asio::this_coro::throw_if_cancelled(false);
        s->terms.push_back(l.token());
        s->office.emplace(l);
        s->working = true;
        if (s->returns_after) {
            co_await s->self.clock->sleep_for(*s->returns_after);
        } else {
            bool asked = false;
            while (!asked) {
                const bool slept = co_await s->self.clock->sleep_for(1h);
                asked = !slept;
            }
            // Unwinding that cannot be cut short.
            s->told = s->self.clock->now();
            const auto until = s->self.clock->now() + s->unwinding;
            co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
            while (s->self.clock->now() < until) co_await s->self.clock->sleep_until(until);
        }
        s->working = false;
        if (s->throws) throw std::runtime_error("the work is broken");
    }

    world& all;
    replica& self;
    std::optional<leader_elector> elector;
    std::optional<election_end> end;
    std::vector<fencing_token> terms;
    std::optional<leadership> office;
    std::vector<std::string> seen, events;
    bool working = false, throws = false;
    clock::time_point told;
    std::chrono::nanoseconds unwinding{};
    std::optional<std::chrono::nanoseconds> returns_after;
};

inline leader_election_options options(std::string identity) {
    leader_election_options o(space, "lock");
    o.identity(std::move(identity));
    return o;
}

/// Checks after each step that no two replicas work at the same time.
inline void watch_over(world& w, std::vector<stander*> all) {
    w.after_each = [all = std::move(all)] {
        int working = 0;
        for (const auto* s : all) working += s->working;
        REQUIRE(working <= 1);
    };
}

inline bool about_leases(const testing::request_info& i) {
    return i.resource == "leases";
}

inline testing::fault hang() {
    return testing::fault(testing::fault::kind::stall_after).on(about_leases).repeat(1'000'000);
}
inline testing::fault refuse_with(int code) {
    return testing::fault(testing::fault::kind::status).on(about_leases).repeat(1'000'000).with_code(code);
}

inline boost::json::value lease(world& w) {
    return w.server->get("leases.coordination.k8s.io", space, "lock");
}

inline std::vector<std::string> verbs(world& w) {
    std::vector<std::string> v;
    for (const auto& q : w.server->requests())
        if (about_leases(q)) v.push_back(q.verb);
    return v;
}

} // namespace lease_test
