#include "controller/election_logic.hpp"

#include <informer/detail/async.hpp>

#include <algorithm>
#include <random>

namespace informer::detail {

namespace {

constexpr auto never = clock::time_point::max();

/// Whether a failed write may have been carried out all the same: not if the connection was refused, or the server
/// refused the write (a 5xx is no refusal).
bool ambiguous(const failure& f) {
    return f.status() ? f.status()->code >= 500 : f != errc::connection_refused;
}

} // namespace

election_logic::election_logic(leader_election_options options, std::uint64_t seed)
    : options_(std::move(options)), random_(seed), next_try_(time_point::min()) {}

election_logic::duration election_logic::jittered() {
    std::uniform_real_distribution<double> share(0.0, leader_election_options::jitter);
    const auto extra =
        std::chrono::duration<double, std::nano>(double(options_.retry_period_.count()) * share(random_));
    return ticks(options_.retry_period_ + std::chrono::duration_cast<std::chrono::nanoseconds>(extra));
}

bool election_logic::expired(time_point now) const noexcept {
    return now - observed_at_ >= observed_.counts(options_.lease_duration_);
}

void election_logic::later(time_point when) noexcept {
    pending_.reset();
    next_try_ = when;
}

void election_logic::lose(std::string why) {
    phase_ = phase::lost;
    end_ = election_end::lost;
    why_lost_ = std::move(why);
    pending_.reset();
}

void election_logic::lose_if_expired(time_point now) {
    if (phase_ == phase::leading && now >= valid_until_) lose("the Lease could not be renewed in time");
}

void election_logic::give_up(time_point now, election_end how) {
    end_ = how;
    pending_.reset();
    if (!options_.release_on_stop_) {
        phase_ = phase::over;
        return;
    }
    phase_ = phase::releasing;
    release_until_ = now + ticks(options_.renew_deadline_);
    next_try_ = now;
}

void election_logic::advance(time_point now) {
    // If the work ended in time, a late call does not make that a loss: the last request may have taken long to unwind.
    const bool over_in_time = !working_ && (stopping_ || finished_);
    if (!over_in_time) lose_if_expired(now);
    switch (phase_) {
    case phase::candidate:
        if (!stopping_) break;
        if (unsure_)
            give_up(now, election_end::stopped);
        else
            phase_ = phase::over;
        break;
    case phase::leading:
        // Also if the Lease was acquired after stop(), so that no work was started.
        if (!working_ && stopping_)
            give_up(now, election_end::stopped);
        else if (finished_)
            give_up(now, election_end::finished);
        break;
    case phase::lost:
        if (working_) break;
        if (options_.re_elect_ && !stopping_) {
            phase_ = phase::candidate;
            end_ = election_end::stopped;
            later(now);
        } else {
            phase_ = phase::over;
        }
        break;
    case phase::releasing:
        if (now >= release_until_) phase_ = phase::over;
        break;
    case phase::over: break;
    }
}

election_logic::step election_logic::next(time_point now) {
    advance(now);
    switch (phase_) {
    case phase::over: return step(action::over, now);
    case phase::lost: return step(action::wait, now < expires() ? expires() : never);
    case phase::candidate:
    case phase::leading:
    case phase::releasing: break;
    }
    if (!pending_) {
        const auto end = phase_ == phase::leading ? valid_until_ : phase_ == phase::releasing ? release_until_ : never;
        if (now < next_try_) return step(action::wait, std::min(next_try_, end));
        started_ = now;
        optimistic_ = phase_ == phase::leading;
        pending_ = optimistic_ ? action::update : action::get;
        request_until_ = time_point::min();
    }
    if (request_until_ == time_point::min()) {
        request_until_ = detail::later(now, ticks(options_.effective_request_timeout()));
        if (phase_ == phase::leading) request_until_ = std::min(request_until_, valid_until_);
        if (phase_ == phase::releasing) request_until_ = std::min(request_until_, release_until_);
    }
    return step(*pending_, request_until_);
}

bool election_logic::abandon(time_point now) {
    switch (phase_) {
    case phase::candidate: return stopping_;
    case phase::leading: return now >= valid_until_ || finished_ || (!working_ && stopping_);
    case phase::releasing: return now >= release_until_;
    case phase::lost:
    case phase::over: break;
    }
    return true;
}

void election_logic::found(time_point now, const lease_record& r) {
    if (!observed_any_ || r != observed_) {
        observed_any_ = true;
        observed_ = r;
        observed_at_ = now;
    }
    request_until_ = time_point::min();
    const bool ours = r.holder == options_.identity_;
    switch (phase_) {
    case phase::candidate:
        if (!r.holder.empty() && !ours && !expired(now)) {
            unsure_ = false;
            later(now + jittered());
        } else {
            pending_ = action::update;
        }
        break;
    case phase::leading:
        if (!ours) {
            lose(r.holder.empty() ? "somebody cleared the Lease" : "the Lease is held by " + r.holder);
        } else {
            ++slow_paths_;
            pending_ = action::update;
            optimistic_ = false;
        }
        break;
    case phase::releasing:
        if (ours)
            pending_ = action::update;
        else
            phase_ = phase::over;
        break;
    case phase::lost:
    case phase::over: break;
    }
}

void election_logic::missing() {
    request_until_ = time_point::min();
    if (phase_ == phase::releasing)
        phase_ = phase::over;
    else
        pending_ = action::create;
}

void election_logic::written(time_point sent, time_point now, const lease_record& r, fencing_token token) {
    observed_any_ = true;
    observed_ = r;
    observed_at_ = now;
    switch (phase_) {
    case phase::candidate:
        phase_ = phase::leading;
        token_ = std::move(token);
        [[fallthrough]];
    case phase::leading:
        // Counted from the sending; other replicas count from when they saw the change, which is later.
        renewed_ = sent;
        valid_until_ = sent + ticks(options_.renew_deadline_);
        unsure_ = false;
        later(sent + ticks(options_.retry_period_));
        break;
    case phase::releasing: phase_ = phase::over; break;
    case phase::lost:
    case phase::over: break;
    }
}

void election_logic::failed(time_point now, const failure& why) {
    const auto what = std::exchange(pending_, std::nullopt);
    request_until_ = time_point::min();
    switch (phase_) {
    case phase::candidate:
        if (what != action::get && ambiguous(why)) unsure_ = true;
        later(now + jittered());
        break;
    case phase::leading:
        if (optimistic_) {
            optimistic_ = false;
            pending_ = action::get;
        } else {
            later(std::max(now, started_ + ticks(options_.retry_period_)));
        }
        break;
    case phase::releasing:
        if (what == action::update && why == errc::conflict)
            pending_ = action::get;
        else
            later(now + ticks(options_.retry_period_));
        break;
    case phase::lost:
    case phase::over: break;
    }
}

lease_record election_logic::desired(std::chrono::system_clock::time_point wall) {
    lease_record r;
    r.renew_time = times_.next(wall, observed_.renew_time);
    r.acquire_time = r.renew_time;
    r.transitions = observed_.transitions;
    if (phase_ == phase::releasing) {
        r.duration = std::chrono::seconds(1); // client-go's; the server demands more than 0
        return r;
    }
    r.holder = options_.identity_;
    r.duration = whole_seconds(options_.lease_duration_);
    const bool fresh = pending_ == action::create;
    const bool still_ours = phase_ == phase::leading || (!fresh && observed_.holder == options_.identity_);
    // Somebody may have taken the time out of the Lease, and the server refuses an empty one.
    if (still_ours && !observed_.acquire_time.empty()) r.acquire_time = observed_.acquire_time;
    if (still_ours) return r;
    if (fresh)
        r.transitions = 0;
    else
        ++r.transitions;
    return r;
}

void election_logic::work_over(time_point now) {
    lose_if_expired(now); // if it has, the work may have run longer than the Lease was ours
    working_ = false;
    finished_ = phase_ == phase::leading && !stopping_;
}

failure election_logic::check(time_point now, duration tolerance) const {
    std::string_view wrong;
    if (phase_ == phase::leading && now > detail::later(observed_at_ + ticks(options_.lease_duration_), tolerance))
        wrong = "expired, and we have neither renewed it nor stopped leading";
    else if (phase_ == phase::lost && working_ && now > detail::later(expires(), tolerance))
        wrong = "was lost and has expired, and the leading work has not ended";
    if (wrong.empty()) return {};
    return failure(errc::deadline_exceeded, "leader election: the Lease " + options_.name_space_ + "/" +
                                                options_.name_ + " " + std::string(wrong));
}

} // namespace informer::detail
