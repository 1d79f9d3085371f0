// The decisions of key sharding, as a simulation of many replicas on a bad network.
#include "controller/shard_logic.hpp"
#include "lease_scene.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace informer;
using namespace informer::detail;
using namespace informer::testing;
using action = shard_logic::action;

namespace {

/// The API server: one state, changed and read in an instant (linearizable).
struct store {
    struct entry {
        listed_lease lease;
        std::uint64_t version = 0;
    };
    std::map<std::string, entry> leases;
    std::uint64_t version = 1000, uids = 0;
};

class simulation;

struct sim_replica {
    sim_replica(std::string name, shard_group_options o, double r, std::uint64_t seed)
        : logic(std::move(o), std::move(name), seed), rate(r) {}

    shard_logic logic;
    double rate;
    double paused_until = -1; ///< in simulated time, in seconds
    bool dead = false, over = false, leaving = false;
    bool waiting = false; ///< for an answer
    std::uint64_t request = 0;
    clock::time_point request_until;
    std::uint64_t own_version = 0;
    /// per key: when the replica ceased to own it, unless by leaving; -1: it owns the key or never did
    std::vector<double> ended;
    std::vector<bool> owns;

    clock::time_point at(double t) const {
        return start + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(t * rate));
    }
    bool runs(double t) const { return !dead && !over && t >= paused_until; }
};

/// Everything happens in steps of 25 ms. Requests take a random time to the server and back, may be lost on either way,
/// and may be answered after the replica gave them up.
class simulation {
public:
    simulation(std::uint64_t seed, double spread, std::chrono::nanoseconds request_timeout = 0s)
        : random_(seed), spread_(spread), request_timeout_(request_timeout) {
        for (int i = 0; i < keys; ++i) names_.push_back("ns/key-" + std::to_string(i));
    }

    static constexpr int keys = 24;
    static constexpr double step = 0.025;

    double now = 0;
    double loss = 0, slowest = 0.05; ///< share of lost messages; longest delay of a message, in seconds
    bool down = false, no_lists = false, no_writes = false;
    std::vector<std::unique_ptr<sim_replica>> replicas;
    int most_owners = 0;
    double narrowest = 1e9; ///< least time between the end of one owner and the beginning of the next
    double longest_gap = 0; ///< longest time that a key had no owner, since `forget()`

    sim_replica& join() {
        const auto name = "r" + std::to_string(next_name_++);
        const double rate = uniform(1 - spread_, 1 + spread_);
        replicas.push_back(std::make_unique<sim_replica>(name, options(), rate, random_()));
        replicas.back()->ended.assign(keys, -1);
        replicas.back()->owns.assign(keys, false);
        return *replicas.back();
    }
    double uniform(double a, double b) { return std::uniform_real_distribution<double>(a, b)(random_); }
    std::size_t pick(std::size_t n) { return std::size_t(random_() % n); }

    void run(double seconds) {
        for (const double until = now + seconds; now < until;) {
            now += step;
            deliver();
            for (auto& r : replicas)
                if (r->runs(now)) turn(*r);
            judge();
        }
    }
    void forget() {
        longest_gap = 0;
        orphaned_.assign(keys, now);
    }
    /// Every key has exactly one owner now.
    bool complete() const {
        for (int k = 0; k < keys; ++k) {
            int n = 0;
            for (const auto& r : replicas) n += r->owns[std::size_t(k)];
            if (n != 1) return false;
        }
        return true;
    }
    std::size_t leases() const { return store_.leases.size(); }
    shard_group_options options() const {
        shard_group_options o("ns", "g");
        o.identity("me").request_timeout(request_timeout_);
        return o;
    }

private:
    struct message {
        double at;
        std::function<void()> what;
    };

    void later(double delay, std::function<void()> what) { messages_.push_back(message{now + delay, std::move(what)}); }
    bool lost() { return down || uniform(0, 1) < loss; }

    void deliver() {
        std::vector<message> later, due;
        for (message& m : messages_) (m.at > now ? later : due).push_back(std::move(m));
        messages_ = std::move(later);
        for (auto& m : due) m.what();
    }

    void turn(sim_replica& r) {
        const auto t = r.at(now);
        for (auto& m : std::exchange(r_inbox_[&r], {})) m();
        if (r.leaving) {
            r.logic.stop(t);
            r.logic.drained();
        }
        r.logic.view(t);
        if (r.waiting && (t >= r.request_until || r.logic.abandon(t))) {
            r.waiting = false;
            ++r.request;
            r.logic.failed(t, failure(errc::request_timeout, "simulated"));
        }
        for (int i = 0; i < 10 && !r.waiting; ++i) {
            const auto s = r.logic.next(t);
            if (s.what == action::wait) return;
            if (s.what == action::over) {
                r.over = true;
                return;
            }
            send(r, s);
        }
    }

    void send(sim_replica& r, const shard_logic::step& s) {
        r.waiting = true;
        r.request_until = s.until;
        const auto number = ++r.request;
        const auto sent = r.at(now);
        if (lost() || (s.what == action::list ? no_lists : no_writes)) return;
        auto* who = &r;
        const auto record = r.logic.desired(wall + std::chrono::milliseconds(std::int64_t(now * 1000)));
        const auto expected = r.own_version;
        later(uniform(0, slowest), [this, who, s, number, sent, record, expected] {
            if (down) return;
            auto answer = serve(*who, s, record, expected, sent);
            if (lost()) return;
            later(uniform(0, slowest), [this, who, number, answer] {
                r_inbox_[who].push_back([who, number, answer, this] {
                    if (!who->waiting || who->request != number) return;
                    who->waiting = false;
                    answer(who->at(now));
                });
            });
        });
    }

    /// Carries the request out. The function that it returns reports the answer to the replica.
    std::function<void(clock::time_point)> serve(sim_replica& r, const shard_logic::step& s, const lease_record& record,
                                                 std::uint64_t expected, clock::time_point sent) {
        auto* who = &r;
        const auto fail = [who](int code, std::string reason) {
            return [who, f = refused(code, std::move(reason))](clock::time_point t) { who->logic.failed(t, f); };
        };
        const auto name = s.what == action::collect ? s.target.name : r.logic.member();
        const auto found = store_.leases.find(name);
        switch (s.what) {
        case action::create:
        case action::update: {
            const bool fresh = s.what == action::create;
            if (fresh && found != store_.leases.end()) return fail(409, "AlreadyExists");
            if (!fresh && found == store_.leases.end()) return fail(404, "NotFound");
            if (!fresh && found->second.version != expected) return fail(409, "Conflict");
            auto& e = store_.leases[name];
            if (fresh) e.lease.uid = std::to_string(++store_.uids);
            e.version = ++store_.version;
            e.lease.name = name;
            e.lease.version = std::to_string(e.version);
            e.lease.record = record;
            return [who, sent, record, v = e.version](clock::time_point t) {
                who->own_version = v;
                who->logic.written(sent, t, record);
            };
        }
        case action::list: {
            std::vector<listed_lease> all;
            std::uint64_t own = 0;
            for (const auto& [n, e] : store_.leases) {
                all.push_back(e.lease);
                if (n == r.logic.member()) own = e.version;
            }
            const resource_version v(std::to_string(store_.version));
            return [who, sent, all, own, v](clock::time_point t) {
                who->own_version = own;
                who->logic.listed(sent, t, all, v);
            };
        }
        case action::collect:
            if (found == store_.leases.end()) return fail(404, "NotFound");
            if (found->second.lease.version != s.target.version) return fail(409, "Conflict");
            store_.leases.erase(found);
            ++store_.version;
            return [who](clock::time_point t) { who->logic.removed(t); };
        case action::leave:
            if (found == store_.leases.end()) return fail(404, "NotFound");
            store_.leases.erase(found);
            ++store_.version;
            return [who](clock::time_point t) { who->logic.removed(t); };
        case action::wait:
        case action::over: break;
        }
        return fail(500, "InternalError");
    }

    /// Looks at all replicas at once. A paused one is asked, too: by its clock it may still own what it owned.
    void judge() {
        orphaned_.resize(keys, now);
        for (std::size_t k = 0; k < keys; ++k) {
            int owners = 0;
            for (auto& r : replicas) {
                if (r->dead || r->over) {
                    end(*r, k, r->over || r->leaving);
                    continue;
                }
                const auto t = r->at(now);
                const shard_view seen = last_view(*r); // also of one that owns nothing: a pause may begin now
                const bool owns = r->logic.active(t) && seen.owns(names_[k]);
                if (owns && !r->owns[k]) begin(*r, k);
                if (!owns) end(*r, k, r->leaving);
                r->owns[k] = owns;
                owners += owns;
            }
            most_owners = std::max(most_owners, owners);
            if (owners != 0) orphaned_[k] = now;
            longest_gap = std::max(longest_gap, now - orphaned_[k]);
        }
    }
    /// The view of a replica. A paused one must not do anything, so its view is the last one that it had.
    shard_view last_view(sim_replica& r) {
        if (r.runs(now)) views_[&r] = r.logic.view(r.at(now));
        return views_[&r];
    }
    void begin(sim_replica& me, std::size_t k) {
        for (auto& r : replicas)
            if (r.get() != &me && r->ended[k] >= 0) narrowest = std::min(narrowest, now - r->ended[k]);
        me.ended[k] = -1;
    }
    void end(sim_replica& r, std::size_t k, bool clean) {
        if (r.owns[k]) r.ended[k] = clean ? -1 : now;
        r.owns[k] = false;
    }

    std::mt19937_64 random_;
    double spread_;
    std::chrono::nanoseconds request_timeout_;
    store store_;
    std::vector<message> messages_;
    std::map<sim_replica*, std::vector<std::function<void()>>> r_inbox_;
    std::map<sim_replica*, shard_view> views_;
    std::vector<std::string> names_;
    std::vector<double> orphaned_;
    int next_name_ = 0;
};

constexpr double D = 15, R = 10, P = 2;

} // namespace

TEST_CASE("sharding: never two owners, whatever is paused, killed, lost or slow; in the end each key soon has one") {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        INFO("seed " << seed);
        const double spread = seed % 3 == 0 ? 0.1 : seed % 3 == 1 ? 0.0 : 0.02;
        simulation s(seed, spread, seed % 2 == 0 ? 8s : 0s);
        for (int i = 0; i < 3; ++i) s.join();
        for (int event = 0; event < 30; ++event) {
            std::vector<sim_replica*> alive;
            for (auto& r : s.replicas)
                if (!r->dead && !r->over && !r->leaving) alive.push_back(r.get());
            sim_replica* one = alive.empty() ? nullptr : alive[s.pick(alive.size())];
            switch (s.pick(11)) {
            case 0:
                if (alive.size() < 6) s.join();
                break;
            case 1:
                if (one && alive.size() > 1) one->dead = true;
                break;
            case 2:
                if (one && alive.size() > 1) one->leaving = true;
                break;
            case 3:
                if (one) one->paused_until = s.now + s.uniform(0, 40);
                break;
            case 4: s.loss = s.uniform(0, 0.6); break;
            case 5: s.slowest = s.uniform(0, 6); break;
            case 6: s.down = !s.down; break;
            case 7:
                s.loss = 0;
                s.slowest = 0.05;
                s.down = s.no_lists = s.no_writes = false;
                break;
            case 8: s.no_lists = !s.no_lists; break;
            case 9: s.no_writes = !s.no_writes; break;
            default: break;
            }
            s.run(s.uniform(0, 20));
            REQUIRE(s.most_owners <= 1);
        }
        // All faults end.
        s.loss = 0;
        s.slowest = 0.05;
        s.down = s.no_lists = s.no_writes = false;
        for (auto& r : s.replicas) r->paused_until = -1;
        if (std::all_of(s.replicas.begin(), s.replicas.end(),
                        [](const auto& r) { return r->dead || r->over || r->leaving; }))
            s.join();
        s.run((2 * D + 3.6 * P + 8 + 1) / (1 - spread)); // the 8 s are for a request that still hangs
        CHECK(s.complete());
        CHECK(s.most_owners == 1);
        // The time between two owners, in which the work of the first can end: H, less what the clocks differ by.
        CHECK(s.narrowest >= D / (1 + spread) - R / (1 - spread) - 2 * s.step);
        // And it stays so.
        s.forget();
        s.run(30);
        CHECK(s.longest_gap == 0);
        CHECK(s.complete());
    }
}

TEST_CASE("sharding: a join leaves no key without owner for longer than stated") {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        simulation s(seed, 0);
        s.join();
        s.join();
        s.run(2 * D);
        REQUIRE(s.complete());
        s.forget();
        s.join();
        s.run(3 * D);
        CHECK(s.complete());
        CHECK(s.longest_gap > 0);
        CHECK(s.longest_gap <= D + 1.2 * P + 4 * 0.1 + 2 * s.step);
    }
}

TEST_CASE("sharding: a clean leave leaves no key without owner for longer than stated") {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        simulation s(seed, 0);
        for (int i = 0; i < 3; ++i) s.join();
        s.run(3 * D);
        REQUIRE(s.complete());
        s.forget();
        s.replicas[seed % 3]->leaving = true;
        s.run(D);
        CHECK(s.complete());
        CHECK(s.leases() == 2);
        CHECK(s.longest_gap <= 1.2 * P + 4 * 0.1 + 2 * s.step);
    }
}

TEST_CASE("sharding: a crash leaves no key without owner for longer than stated, and its Lease is collected") {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        simulation s(seed, 0);
        for (int i = 0; i < 3; ++i) s.join();
        s.run(3 * D + s.uniform(0, 3));
        REQUIRE(s.complete());
        s.forget();
        s.replicas[seed % 3]->dead = true;
        s.run(2 * D);
        CHECK(s.complete());
        CHECK(s.longest_gap > R);
        CHECK(s.longest_gap <= D + 2.4 * P + 4 * 0.1 + 2 * s.step);
        CHECK(s.leases() == 3);
        s.run(3 * D);
        CHECK(s.leases() == 2);
    }
}

TEST_CASE("sharding: a pause ends ownership by the replica's own clock, and it joins again when it wakes") {
    simulation s(3, 0);
    for (int i = 0; i < 3; ++i) s.join();
    s.run(3 * D);
    REQUIRE(s.complete());
    s.forget();
    s.replicas[0]->paused_until = s.now + 60;
    s.run(55);
    CHECK(s.complete());
    CHECK(s.longest_gap <= D + 2.4 * P + 4 * 0.1 + 2 * s.step);
    CHECK(s.most_owners == 1);
    CHECK(std::none_of(s.replicas[0]->owns.begin(), s.replicas[0]->owns.end(), [](bool b) { return b; }));
    s.run(5 + 2 * D);
    CHECK(s.complete());
    CHECK(std::any_of(s.replicas[0]->owns.begin(), s.replicas[0]->owns.end(), [](bool b) { return b; }));
    CHECK(s.most_owners == 1);
}

TEST_CASE("sharding: an absence of the API server ends all ownership, which is back within the bound") {
    simulation s(4, 0);
    for (int i = 0; i < 3; ++i) s.join();
    s.run(3 * D);
    s.down = true;
    s.run(R + 0.1);
    for (auto& r : s.replicas) CHECK(std::none_of(r->owns.begin(), r->owns.end(), [](bool b) { return b; }));
    s.run(30);
    s.down = false;
    s.forget();
    s.run(2 * D);
    CHECK(s.complete());
    // A request that is hanging has to time out first.
    CHECK(s.longest_gap <= D + 1.2 * P + 2 * 2.5 + 4 * 0.1);
    CHECK(s.most_owners == 1);
}
