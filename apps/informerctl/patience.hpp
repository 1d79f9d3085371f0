// How long watch and sync wait for their first complete state.
#pragma once

#include <informer/cache/status.hpp>
#include <informer/error.hpp>
#include <informer/runtime.hpp>

#include <chrono>

namespace informerctl {

/// Errors that a retry does not cure: no server, or no way to it; not allowed; not found; not trusted.
inline bool is_refusal(const informer::failure& f) {
    using informer::condition;
    using informer::errc;
    // A proxy may refuse the tunnel (connect_failed), or answer in the server's place (407).
    if (f == errc::connect_failed || (f.status() != nullptr && f.status()->code == 407)) return true;
    return f == condition::unauthorized || f == condition::forbidden || f == condition::not_found ||
           f == errc::connection_refused || f == errc::tls_failed || f == errc::resolve_failed ||
           f == errc::bad_configuration || f == errc::bad_request || f == errc::invalid ||
           f == errc::exec_plugin_failed;
}

/// Before the first sync, a refusal ends the command at once. Any other error ends it when it lasts: at the fourth
/// failed attempt in a row, or at the first one that comes more than 15 s after the start. What the informer works
/// around by itself (a watch-list that the server does not know, for instance) is no failed attempt.
class patience {
public:
    explicit patience(const informer::clock& c) : clock_(&c), started_(c.now()) {}

    /// For `on_state_change`. True when the command must end with `why()`; only while nothing was synced.
    bool over(const informer::informer_status& now) {
        if (now.synced || now.attempts == 0 || now.phase == informer::informer_phase::stopped) return false;
        if (!is_refusal(now.last_error) && now.attempts < most_attempts && clock_->now() - started_ <= longest)
            return false;
        why_ = now.last_error;
        return true;
    }
    const informer::failure& why() const noexcept { return why_; }

private:
    static constexpr std::uint64_t most_attempts = 4;
    static constexpr std::chrono::seconds longest{15};

    const informer::clock* clock_;
    informer::clock::time_point started_;
    informer::failure why_;
};

} // namespace informerctl
