#include <informer/testing/manual_clock.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <atomic>
#include <map>

namespace informer::testing {

struct manual_clock::state {
    struct sleeper {
        sleeper() = default;
        asio::steady_timer* timer = nullptr;
        bool due = false;
    };
    using sleepers = std::multimap<time_point, sleeper*>;

    // Not zero, so that a time before the start is a valid time, too.
    std::atomic<duration::rep> now{duration(std::chrono::hours(1000)).count()};
    std::atomic<std::chrono::system_clock::rep> wall{0};
    sleepers asleep;

    time_point current() const noexcept { return time_point(duration(now.load())); }
    void wake_due();

    // Removes the sleeper from the list, also when its coroutine frame is destroyed instead of resumed.
    class bed {
    public:
        bed(sleepers& all, time_point when, sleeper& who) : all_(all), who_(who), at_(all.emplace(when, &who)) {}
        bed(const bed&) = delete;
        bed& operator=(const bed&) = delete;
        ~bed() {
            if (!who_.due) all_.erase(at_);
        }

    private:
        sleepers& all_;
        sleeper& who_;
        sleepers::iterator at_;
    };

    static asio::awaitable<bool> sleep(std::shared_ptr<state> s, time_point when);
};

void manual_clock::state::wake_due() {
    while (!asleep.empty() && asleep.begin()->first <= current()) {
        sleeper* const who = asleep.begin()->second;
        asleep.erase(asleep.begin());
        who->due = true;
        who->timer->cancel();
    }
}

asio::awaitable<bool> manual_clock::state::sleep(std::shared_ptr<state> s, time_point when) {
    const auto asked = co_await asio::this_coro::cancellation_state;
    if (asked.cancelled() != asio::cancellation_type::none) co_return false;
    if (when <= s->current()) co_return true;
    const auto executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor, asio::steady_timer::time_point::max());
    sleeper me;
    me.timer = &timer;
    const bed in_bed(s->asleep, when, me);
    const auto [ec] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    static_cast<void>(ec);
    co_return me.due;
}

manual_clock::manual_clock(std::chrono::system_clock::time_point wall) : state_(std::make_shared<state>()) {
    set_wall(wall);
}

manual_clock::~manual_clock() = default;

manual_clock::time_point manual_clock::now() const {
    return state_->current();
}

std::chrono::system_clock::time_point manual_clock::wall() const {
    return std::chrono::system_clock::time_point(std::chrono::system_clock::duration(state_->wall.load()));
}

asio::awaitable<bool> manual_clock::sleep_until(time_point when) {
    return state::sleep(state_, when);
}

void manual_clock::advance(duration by) {
    if (by <= duration::zero()) return;
    const auto passed = std::min(by, time_point::max() - now()); // now() is never negative, so no overflow
    state_->now += passed.count();
    using wall_duration = std::chrono::system_clock::duration;
    const auto on_wall = std::chrono::duration_cast<wall_duration>(passed).count();
    constexpr auto last = wall_duration::max().count();
    state_->wall = state_->wall > last - on_wall ? last : state_->wall + on_wall;
    state_->wake_due();
}

void manual_clock::set(time_point when) {
    if (when > now()) advance(when - now());
}

void manual_clock::set_wall(std::chrono::system_clock::time_point wall) {
    state_->wall = wall.time_since_epoch().count();
}

std::size_t manual_clock::waiters() const {
    return state_->asleep.size();
}

std::optional<manual_clock::time_point> manual_clock::next_deadline() const {
    if (state_->asleep.empty()) return std::nullopt;
    return state_->asleep.begin()->first;
}

} // namespace informer::testing
