// A clock that tests turn by hand.
#pragma once

#include <informer/runtime.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

namespace informer::testing {

/// Time stands still until `advance()` or `set()`. Nobody has to wait for a real second to test an hour.
///
/// *Thread safety*: `now()` and `wall()` from any thread; everything else, the sleepers included, on one thread (a
/// single-threaded `io_context`). *Order*: sleepers wake by deadline, those with equal deadlines in the order in which
/// they fell asleep. They wake when the `io_context` runs, so a sleeper that sleeps again counts from the time that was
/// set: to see each tick of a periodic task, advance in steps of its period and let it run in between. *Lifetime*:
/// sleepers may outlive the clock object.
class manual_clock final : public informer::clock {
public:
    /// 2024-01-01T00:00:00Z
    static constexpr std::chrono::system_clock::time_point default_wall =
        std::chrono::sys_days(std::chrono::year(2024) / std::chrono::January / 1);

    explicit manual_clock(std::chrono::system_clock::time_point wall = default_wall);
    ~manual_clock() override;
    manual_clock(const manual_clock&) = delete;
    manual_clock& operator=(const manual_clock&) = delete;

    time_point now() const override;
    std::chrono::system_clock::time_point wall() const override;
    asio::awaitable<bool> sleep_until(time_point when) override;

    /// Lets time pass and wakes the sleepers that are due. Negative durations do nothing; both clocks stop at the end
    /// of their range.
    void advance(duration by);
    /// As `advance(when - now())`: time never goes back.
    void set(time_point when);
    /// Moves the wall clock alone, also backwards (an operator set the date); it goes on in step with `advance()`.
    void set_wall(std::chrono::system_clock::time_point wall);

    /// The number of sleepers.
    std::size_t waiters() const;
    /// When the next sleeper is due.
    std::optional<time_point> next_deadline() const;

private:
    struct state;
    std::shared_ptr<state> state_;
};

} // namespace informer::testing
