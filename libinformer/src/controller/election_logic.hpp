// Leader election, sans-io: the logic is told what happened and what time it is, and answers what to do next.
#pragma once

#include <informer/controller/leader_election.hpp>
#include <informer/detail/split_mix.hpp>

#include "controller/lease_record.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace informer::detail {

/// One run of an election, from standing by to its end.
///
/// The owner calls `next()`, carries the step out and reports its outcome. It runs the leading work while
/// `work_wanted()`, and calls `work_over()` when the work has ended and is joined. Times are those of the owner's
/// monotonic clock; wall-clock times are only written into the Lease, never read from it.
class election_logic {
public:
    using time_point = clock::time_point;
    using duration = clock::duration;

    enum class action {
        wait,   ///< until `until`, or until something else is reported
        get,    ///< read the Lease
        create, ///< create it with `desired()`
        update, ///< write `desired()` over the version that was read or written last
        over,   ///< nothing more; see `end()`
    };
    struct step {
        step(action a, time_point u) : what(a), until(u) {}
        action what;
        time_point until; ///< for a request: give up then and report `failed`
    };

    election_logic(leader_election_options options, std::uint64_t seed);

    /// What to do now. Returns the same request until its outcome is reported.
    step next(time_point now);
    /// Whether the request under way has become pointless; then abandon it and report `failed`.
    bool abandon(time_point now);

    // ---- outcomes of requests
    void found(time_point now, const lease_record& r);
    void missing();
    /// create or update succeeded; `sent` is when it was begun.
    void written(time_point sent, time_point now, const lease_record& r, fencing_token token);
    void failed(time_point now, const failure& why);

    // ---- what else happened
    void work_over(time_point now);
    void stop() noexcept { stopping_ = true; } ///< the caller of run() wants it to end

    /// The record to write now. Each call returns another renewal time.
    lease_record desired(std::chrono::system_clock::time_point wall);
    /// Whether the leading work is to run: start it when this turns true, cancel it when this turns false.
    bool work_wanted() const noexcept { return phase_ == phase::leading && !stopping_ && !finished_; }
    /// The work was started: the election goes on only after `work_over()`.
    void work_started() noexcept { working_ = true; }
    /// Whether the Lease is ours, with or without running work.
    bool holding(time_point now) const noexcept { return holds() && now < valid_until_; }
    time_point valid_until() const noexcept { return valid_until_; }
    /// When others may take the Lease; work that still runs then is overdue.
    time_point expires() const noexcept { return renewed_ + options_.lease_duration_; }
    bool overdue(time_point now) const noexcept { return phase_ == phase::lost && working_ && now >= expires(); }
    const fencing_token& token() const noexcept { return token_; }
    /// Whether no attempt is under way, so that what was seen of the holder is final.
    bool round_over() const noexcept { return !pending_ || phase_ == phase::over; }
    const std::string& holder() const noexcept { return observed_.holder; }
    bool lost() const noexcept { return phase_ == phase::lost; }
    const std::string& why_lost() const noexcept { return why_lost_; }
    std::uint64_t slow_paths() const noexcept { return slow_paths_; }
    election_end end() const noexcept { return end_; }
    failure check(time_point now, duration tolerance) const;

private:
    enum class phase {
        candidate,
        leading, ///< also while the work is ending: renewals go on until it has ended
        lost,    ///< the Lease is not ours any more; the work has to end
        releasing,
        over,
    };
    bool holds() const noexcept { return phase_ == phase::leading; }
    bool expired(time_point now) const noexcept;
    void advance(time_point now);
    void lose(std::string why);
    void lose_if_expired(time_point now);
    void give_up(time_point now, election_end how);
    void later(time_point when) noexcept;
    duration jittered();

    leader_election_options options_;
    detail::split_mix random_;
    phase phase_ = phase::candidate;
    std::optional<action> pending_; ///< the request on its way or to be made
    bool optimistic_ = false;       ///< the pending update was not preceded by a get
    time_point started_{};          ///< when this round of requests began
    time_point request_until_{};
    time_point next_try_{};
    bool stopping_ = false, working_ = false;
    bool finished_ = false; ///< the work returned by itself
    bool unsure_ = false;   ///< an acquisition may have succeeded without our knowing

    bool observed_any_ = false;
    lease_record observed_;
    renewal_times times_;
    time_point observed_at_{};
    time_point renewed_{}, valid_until_{};
    time_point release_until_{};
    fencing_token token_;
    std::string why_lost_;
    std::uint64_t slow_paths_ = 0;
    election_end end_ = election_end::stopped;
};

} // namespace informer::detail
