// Leader election and key sharding: replicas with clocks of their own; one is cut off, as if it were killed, or leaves.
#include "cluster.hpp"

#include <informer/controller/key_sharding.hpp>
#include <informer/controller/leader_election.hpp>
#include <informer/object/rfc3339.hpp>

#include <boost/asio/this_coro.hpp>

#include <cmath>
#include <set>

using namespace informer;
using namespace informer::conformance;
using namespace std::chrono_literals;

namespace {

constexpr auto patience = 60s;

/// A clock with another date and another rate than the system's.
class skewed_clock final : public informer::clock {
public:
    skewed_clock(std::chrono::nanoseconds wall_offset, double rate) : offset_(wall_offset), rate_(rate) {}
    time_point now() const override { return began_ + scaled(real_->now() - began_, rate_); }
    std::chrono::system_clock::time_point wall() const override {
        return real_->wall() + std::chrono::duration_cast<std::chrono::system_clock::duration>(offset_);
    }
    asio::awaitable<bool> sleep_until(time_point when) override {
        if (when == time_point::max()) return real_->sleep_until(when);
        return real_->sleep_until(began_ + scaled(when - began_, 1 / rate_));
    }

private:
    static duration scaled(duration d, double by) {
        return std::chrono::duration_cast<duration>(
            std::chrono::duration<double, duration::period>(std::ceil(double(d.count()) * by)));
    }
    std::shared_ptr<informer::clock> real_ = system_clock();
    time_point began_ = real_->now();
    std::chrono::nanoseconds offset_;
    double rate_;
};

leader_election_options election(const cluster& c, std::string who) {
    leader_election_options o(c.name_space(), "conformance-lock");
    o.identity(std::move(who)).lease_duration(3s).renew_deadline(2s).retry_period(300ms).label("conformance", "yes");
    return o;
}

/// One replica that stands for election.
struct stander {
    stander(const cluster& c, const kubernetes::client& client, std::string who,
            std::shared_ptr<informer::clock> time = system_clock())
        : rt(c.runtime()) {
        rt.with_clock(std::move(time));
        elector = std::make_unique<leader_elector>(rt, client, election(c, std::move(who)));
    }

    runtime rt;
    std::unique_ptr<leader_elector> elector;
    bool working = false, over = false;
    std::vector<fencing_token> tokens;
    std::optional<election_end> end;

    static asio::awaitable<void> work(std::shared_ptr<stander> s, leadership l) {
        co_await asio::this_coro::throw_if_cancelled(false);
        s->tokens.push_back(l.token());
        s->working = true;
        co_await s->rt.clock().sleep_for(1h);
        s->working = false;
    }
    static asio::awaitable<void> stand(std::shared_ptr<stander> s) {
        std::function<asio::awaitable<void>(leadership)> lead = [s](leadership l) { return work(s, std::move(l)); };
        s->end = co_await s->elector->run(std::move(lead));
        s->over = true;
    }
};

/// Checks every 2 ms whether two replicas lead at the same time.
struct overseer {
    std::vector<std::shared_ptr<stander>> all;
    bool two = false;
    static asio::awaitable<void> watch(std::shared_ptr<overseer> o, std::shared_ptr<informer::clock> time) {
        for (bool going = true; going;) {
            int working = 0;
            for (const auto& s : o->all) working += s->working;
            o->two |= working > 1;
            going = co_await time->sleep_for(2ms);
        }
    }
};

asio::awaitable<object> read_lock(std::shared_ptr<cluster> c) {
    const api_resource leases("coordination.k8s.io", "v1", "leases", "Lease", true);
    const object_key key(c->name_space(), "conformance-lock");
    auto lease = co_await c->client().get(leases, key);
    co_return lease;
}

asio::awaitable<void> two_replicas(std::shared_ptr<cluster> c, std::shared_ptr<informer::clock> a_time,
                                   std::shared_ptr<informer::clock> b_time) {
    const auto a = std::make_shared<stander>(*c, c->fragile(), "a", std::move(a_time));
    const auto b = std::make_shared<stander>(*c, c->client(), "b", std::move(b_time));
    const auto seen = std::make_shared<overseer>();
    seen->all = {a, b};
    task_group group_a(c->runtime().executor()), group_b(c->runtime().executor()), watching(c->runtime().executor());
    watching.spawn(overseer::watch(seen, system_clock()));
    group_a.spawn(stander::stand(a));
    const std::function<bool()> a_works = [&] { return a->working; };
    const bool first = co_await testing::eventually(a_works, patience);
    REQUIRE(first);
    group_b.spawn(stander::stand(b));
    // b stands by for longer than a Lease lasts.
    co_await c->runtime().clock().sleep_for(5s);
    CHECK(a->working);
    CHECK_FALSE(b->working);
    CHECK(b->elector->leader() == "a");
    const auto held = co_await read_lock(c);
    CHECK(held.at_pointer("/spec/holderIdentity").as_string() == "a");
    CHECK(held.at_pointer("/spec/leaseDurationSeconds").as_int64() == 3);
    CHECK(held.at_pointer("/metadata/labels/conformance").as_string() == "yes");

    // a is cut off: no release reaches the server.
    const auto cut = std::chrono::steady_clock::now();
    c->proxy().refuse(true);
    c->proxy().cut_all(true);
    const std::function<bool()> b_works = [&] { return b->working; };
    const bool second = co_await testing::eventually(b_works, patience);
    REQUIRE(second);
    // a renewed the Lease at most 0.3 s before the cut, and for b the Lease lasts 3 s from the moment it saw that
    CHECK(std::chrono::steady_clock::now() - cut > 2s);
    CHECK_FALSE(a->working);
    const std::function<bool()> a_over = [&] { return a->over; };
    const bool ended = co_await testing::eventually(a_over, patience);
    CHECK(ended);
    CHECK(a->end == election_end::lost);
    CHECK(a->tokens.front().version < b->tokens.front().version);
    CHECK(a->tokens.front().transitions < b->tokens.front().transitions);

    // a stands for election again, and b leaves cleanly: a does not wait for the Lease to expire.
    c->proxy().refuse(false);
    task_group again(c->runtime().executor());
    a->over = false;
    again.spawn(stander::stand(a));
    group_b.stop();
    co_await group_b.join();
    CHECK(b->end == election_end::stopped);
    const bool third = co_await testing::eventually(a_works, patience);
    CHECK(third);
    again.stop();
    co_await again.join();
    co_await group_a.join();
    const auto released = co_await read_lock(c);
    CHECK(released.at_pointer("/spec/holderIdentity").string_or_empty().empty());
    CHECK(released.at_pointer("/spec/leaseDurationSeconds").as_int64() == 1);
    watching.stop();
    co_await watching.join();
    CHECK_FALSE(seen->two);
}

asio::awaitable<void> killed(std::shared_ptr<cluster> c) {
    co_await two_replicas(c, system_clock(), system_clock());
}

asio::awaitable<void> skewed(std::shared_ptr<cluster> c) {
    const auto ahead = std::make_shared<skewed_clock>(5h, 0.85);
    const auto behind = std::make_shared<skewed_clock>(-7h, 1.1);
    co_await two_replicas(c, ahead, behind);
}

// --- sharding

struct sharer {
    sharer(const cluster& c, const kubernetes::client& client, std::string who) {
        shard_group_options o(c.name_space(), "conformance");
        o.identity(std::move(who)).lease_duration(3s).renew_deadline(2s).retry_period(300ms);
        group = std::make_unique<shard_group>(c.runtime(), client, o);
    }
    std::unique_ptr<shard_group> group;
    std::set<int> owned() const {
        std::set<int> s;
        for (int i = 0; i < 50; ++i)
            if (group->owns("key-" + std::to_string(i))) s.insert(i);
        return s;
    }
};

struct census {
    std::vector<std::shared_ptr<sharer>> all;
    bool two = false;
    std::size_t total() {
        std::set<int> seen;
        std::size_t n = 0;
        for (const auto& s : all) {
            const auto owned = s->owned();
            n += owned.size();
            seen.insert(owned.begin(), owned.end());
        }
        two |= n != seen.size();
        return n;
    }
    static asio::awaitable<void> watch(std::shared_ptr<census> c) {
        const auto time = system_clock();
        for (bool going = true; going;) {
            c->total();
            going = co_await time->sleep_for(5ms);
        }
    }
};

asio::awaitable<void> hand_over(std::shared_ptr<cluster> c) {
    const auto a = std::make_shared<sharer>(*c, c->client(), "a");
    const auto b = std::make_shared<sharer>(*c, c->fragile(), "b");
    const auto d = std::make_shared<sharer>(*c, c->client(), "d");
    const auto all = std::make_shared<census>();
    all->all = {a, b, d};
    const auto executor = c->runtime().executor();
    task_group group_a(executor), group_b(executor), group_d(executor), watching(executor);
    watching.spawn(census::watch(all));
    group_a.spawn(a->group->run());
    const std::function<bool()> complete = [&] { return all->total() == 50; };
    const bool alone = co_await testing::eventually(complete, patience);
    REQUIRE(alone);

    group_b.spawn(b->group->run());
    group_d.spawn(d->group->run());
    const std::function<bool()> shared = [&] {
        return !a->owned().empty() && !b->owned().empty() && !d->owned().empty() && all->total() == 50;
    };
    const bool joined = co_await testing::eventually(shared, patience);
    REQUIRE(joined);
    CHECK(a->group->view().members() == d->group->view().members());

    group_d.stop();
    co_await group_d.join();
    const std::function<bool()> by_two = [&] { return d->owned().empty() && all->total() == 50; };
    const bool left = co_await testing::eventually(by_two, patience);
    CHECK(left);

    c->proxy().refuse(true);
    c->proxy().cut_all(true);
    const std::function<bool()> by_one = [&] { return b->owned().empty() && a->owned().size() == 50; };
    const bool crashed = co_await testing::eventually(by_one, patience);
    CHECK(crashed);
    c->proxy().refuse(false);
    const std::function<bool()> back = [&] { return !b->owned().empty() && all->total() == 50; };
    const bool returned = co_await testing::eventually(back, patience);
    CHECK(returned);

    group_a.stop();
    group_b.stop();
    co_await group_a.join();
    co_await group_b.join();
    watching.stop();
    co_await watching.join();
    CHECK_FALSE(all->two);
    const api_resource leases("coordination.k8s.io", "v1", "leases", "Lease", true);
    list_options ours;
    ours.labels(std::string(shard_group_options::label_key) + "=conformance");
    const auto rest = co_await c->client().list(leases, c->name_space(), ours);
    CHECK(rest.items.empty());
}

/// Somebody, or a tool that knows only renewTime, leaves our Lease without its acquireTime.
asio::awaitable<void> without_acquire_time(std::shared_ptr<cluster> c) {
    const api_resource leases("coordination.k8s.io", "v1", "leases", "Lease", true);
    const object_key key(c->name_space(), "conformance-lock");
    boost::json::value ours{{"metadata", {{"name", key.name}, {"namespace", key.name_space}}},
                            {"spec",
                             {{"holderIdentity", "a"},
                              {"leaseDurationSeconds", 3600},
                              {"renewTime", rfc3339(c->runtime().clock().wall(), 6)}}}};
    co_await c->client().create(leases, std::move(ours));
    const auto a = std::make_shared<stander>(*c, c->client(), "a");
    task_group group(c->runtime().executor());
    group.spawn(stander::stand(a));
    const std::function<bool()> works = [&] { return a->working; };
    const bool leads = co_await testing::eventually(works, patience);
    REQUIRE(leads);
    for (int i = 0; i < 2; ++i) {
        boost::json::value removal{{"spec", {{"acquireTime", nullptr}}}};
        co_await c->client().patch(leases, key, kubernetes::patch_type::merge, std::move(removal));
        bool there = false;
        for (int tries = 0; !there && tries < 200; ++tries) {
            const auto held = co_await read_lock(c);
            there = !held.at_pointer("/spec/acquireTime").string_or_empty().str().empty();
            if (!there) co_await c->runtime().clock().sleep_for(50ms);
        }
        CHECK(there);
        CHECK(a->working);
    }
    group.stop();
    co_await group.join();
}

} // namespace

TEST_CASE("a leader whose Lease has lost its acquireTime goes on", "[conformance][leader_election]") {
    run_case(without_acquire_time);
}
TEST_CASE("of two replicas one leads; when it is killed the other leads after the lease duration, and they never lead "
          "together",
          "[conformance][leader_election]") {
    run_case(killed);
}
TEST_CASE("clocks hours apart and of other rates do not matter to leader election", "[conformance][leader_election]") {
    run_case(skewed);
}
TEST_CASE("replicas that share keys hand them over on join, leave and crash, and never own one together",
          "[conformance][leader_election][sharding]") {
    run_case(hand_over);
}
