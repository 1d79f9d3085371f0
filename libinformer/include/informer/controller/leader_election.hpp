// Leader election on a Lease: of several replicas one works, the others stand by.
#pragma once

#include <informer/error.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/object/resource_version.hpp>
#include <informer/runtime.hpp>

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace informer {

/// What to hand to a store that must not obey a leader of the past: it remembers the largest `version` it was shown and
/// refuses smaller ones. Versions of one Lease grow as decimal numbers; each leader's is larger than its predecessors'.
class fencing_token {
public:
    fencing_token() = default;
    fencing_token(informer::resource_version v, std::int64_t t) : version(std::move(v)), transitions(t) {}
    /// The Lease's resource version when it was acquired.
    informer::resource_version version;
    /// How often the Lease had changed hands (`spec.leaseTransitions`). Starts again when somebody deletes the Lease.
    std::int64_t transitions = 0;
};

/// One term of office, given to the leading work. Cheap to copy; may outlive the elector.
///
/// *Thread safety*: all calls from any thread.
class leadership {
public:
    struct term;
    explicit leadership(std::shared_ptr<const term> t) noexcept : term_(std::move(t)) {}
    /// Whether the Lease is ours at this instant, by our own monotonic clock: false from the moment the renew deadline
    /// has passed, also where the executor did not run (a paused process), and before the work is cancelled. Ask before
    /// each step that must not be done by two. Between the question and the step a process may still be paused: only
    /// the fencing token helps there.
    bool held() const noexcept;
    const fencing_token& token() const noexcept;
    const std::string& identity() const noexcept;

private:
    std::shared_ptr<const term> term_;
};

/// Options of an election; the constants are client-go's recommended ones (tools/leaderelection and Kubernetes' own
/// components): 15 s, 10 s, 2 s, jitter 1.2.
class leader_election_options {
public:
    /// Where the Lease lies.
    leader_election_options(std::string name_space, std::string name)
        : name_space_(std::move(name_space)), name_(std::move(name)) {}
    /// Who we are; must differ between all processes that share the Lease (two of the same identity both lead).
    /// Default: the host's name and 16 random digits.
    leader_election_options& identity(std::string s) {
        identity_ = std::move(s);
        return *this;
    }
    /// How long others wait after the last change that they saw of the Lease before they take it. Written into the
    /// Lease in whole seconds, rounded up.
    leader_election_options& lease_duration(std::chrono::nanoseconds d) {
        lease_duration_ = d;
        return *this;
    }
    /// A leader that could not renew for this long stops leading.
    leader_election_options& renew_deadline(std::chrono::nanoseconds d) {
        renew_deadline_ = d;
        return *this;
    }
    /// Between two renewals; candidates ask every `retry_period` to 2.2 times that.
    leader_election_options& retry_period(std::chrono::nanoseconds d) {
        retry_period_ = d;
        return *this;
    }
    /// Of one request; default (zero): half the renew deadline, at least 1 s, so that one hanging request does not
    /// cost the leadership.
    leader_election_options& request_timeout(std::chrono::nanoseconds d) {
        request_timeout_ = d;
        return *this;
    }
    /// Whether the Lease is given up when `run()` ends while it is ours (then the next leader need not wait). Default on:
    /// it happens after the leading work has ended, so it is safe.
    leader_election_options& release_on_stop(bool on) {
        release_on_stop_ = on;
        return *this;
    }
    /// Whether `run()` stands for election again after it lost the Lease. Default off: `run()` returns `lost`.
    leader_election_options& re_elect(bool on = true) {
        re_elect_ = on;
        return *this;
    }
    /// Labels to put on the Lease; those of others stay.
    leader_election_options& label(std::string key, std::string value) {
        labels_[std::move(key)] = std::move(value);
        return *this;
    }
    /// Told the holder's identity once for each change that we see: the first one, ourselves, and "" when the Lease was
    /// given up. Called on the executor; must not block. What it throws is logged.
    leader_election_options& on_new_leader(std::function<void(const std::string& identity)> f) {
        on_new_leader_ = std::move(f);
        return *this;
    }
    /// Told what client-go records as an event on the Lease (type Normal, reason LeaderElection): "ID became leader",
    /// "ID stopped leading". For an event recorder. As `on_new_leader` otherwise.
    leader_election_options& on_event(std::function<void(const object& lease, const std::string& message)> f) {
        on_event_ = std::move(f);
        return *this;
    }

    /// errc::bad_configuration, naming what is wrong: lease duration > renew deadline > 1.2 × retry period > 0, namespace and
    /// name not empty.
    failure check() const;
    /// With the default filled in.
    std::chrono::nanoseconds effective_request_timeout() const;

    static constexpr double jitter = 1.2; ///< client-go's JitterFactor

    std::string name_space_, name_, identity_;
    std::chrono::nanoseconds lease_duration_ = std::chrono::seconds(15);
    std::chrono::nanoseconds renew_deadline_ = std::chrono::seconds(10);
    std::chrono::nanoseconds retry_period_ = std::chrono::seconds(2);
    std::chrono::nanoseconds request_timeout_{};
    bool release_on_stop_ = true, re_elect_ = false;
    std::map<std::string, std::string> labels_;
    std::function<void(const std::string&)> on_new_leader_;
    std::function<void(const object&, const std::string&)> on_event_;
};

/// How `leader_elector::run` ended. `lost` is said wherever the work still ran when the Lease ran out, also where it had been told to end
/// by then: at a server that hangs nothing can be renewed. Who was stopping anyway need not take it for a failure.
enum class election_end {
    stopped,  ///< `run()` was cancelled; the work, if it ran, has ended, and the Lease was given up (see below)
    finished, ///< the leading work returned by itself; the Lease was given up (see below)
    lost,     ///< the Lease was lost (renew deadline, or somebody else holds it); the work was cancelled and has ended
};
std::string_view to_string(election_end e) noexcept;

/// Stands for election and runs the leading work while elected.
///
/// What is promised, with `lease_duration` D, `renew_deadline` R and `retry_period` P (15, 10, 2 s):
/// - The work is a coroutine. It is cancelled (terminal) at the latest R after the sending of the last renewal that
///   succeeded, measured by our own monotonic clock, whether or not the API server answers; it is joined before the
///   Lease is given up, and until it has ended on a clean stop the Lease goes on being renewed.
/// - Nobody else takes the Lease before D has passed since he saw its last change. So the work has D - R to unwind after
///   a loss before another may lead (work that takes longer is logged as an error; it can only be fenced off), and
///   clocks may differ in rate by D / R. What wall clocks show does not matter.
/// - An API server that refuses for R - 2P, whatever it says of later (Retry-After), or keeps silent for R - P less a request's
///   time-out, costs no leadership. After a crash another leads within D + 4.4 P and the time of its requests, after a clean stop within 2.2 P.
/// - After a loss nothing is given up: the Lease has expired by the time it could be.
/// - An acquisition whose outcome is unknown when `run()` is stopped is undone.
/// - The Lease is given up, and such an acquisition undone, as far as the server can be reached within R and `release_on_stop` is on.
/// The process should not share the executor with work that blocks for seconds, and the client may be one of its own: a
/// renewal that waits behind a large list is late. CLOCK_MONOTONIC stands still while a machine is suspended or a virtual
/// one is stopped (not while a process is); for up to R after that only the fencing token protects. A Lease that somebody
/// deletes by hand protects nothing for R.
///
/// *Metrics*: `leader_election_master_status{name}` (1 while the work may run) and `leader_election_slowpath_total{name}`
/// (renewals that had to read the Lease first), as client-go's.
/// *Thread safety*: none; use it on the runtime's executor. *Lifetime*: `run()` keeps what it needs, and lets the work go at its end:
/// it may own the elector. Neither may outlive the execution context, as the client may not.
class leader_elector {
public:
    /// Throws `error(errc::bad_configuration)`, see `leader_election_options::check`.
    leader_elector(runtime r, kubernetes::client c, leader_election_options options);
    ~leader_elector();
    leader_elector(const leader_elector&) = delete;
    leader_elector& operator=(const leader_elector&) = delete;

    /// Waits to be elected, runs `lead`, renews meanwhile. May be called again after it ended.
    ///
    /// *Cancellation*: terminal; cancels the work, waits for it, gives the Lease up (for at most R) and returns `stopped`, or
    /// `lost` where the Lease ran out before the work had ended;
    /// before the election it returns at once, but where an acquisition may have succeeded without our knowing: that is undone
    /// first (for at most R). *Errors*: already_running; bad_configuration (no `lead`); what the work throws
    /// comes out after the Lease was given up (cancellation that we caused apart). What the API server answers is never an
    /// error here: it is tried again, and logged once for each kind of request and failure until that kind succeeds.
    /// *Lifetime*: what `lead` is given lives as long as the work.
    asio::awaitable<election_end> run(std::function<asio::awaitable<void>(const leadership&)> lead);

    /// Whether the Lease is ours now; see `leadership::held`.
    bool is_leader() const noexcept;
    /// The holder that we saw last; "" when nobody was seen.
    const std::string& leader() const noexcept;
    const std::string& identity() const noexcept;
    /// For a health end point (client-go's HealthzAdaptor): a failure when we lead by a Lease that expired more than
    /// `tolerance` ago, or when the leading work still goes on then though it was told to end: we hang, and another may lead.
    /// Who does not lead is healthy.
    failure check(std::chrono::nanoseconds tolerance = std::chrono::seconds(20)) const;
    /// What a request failed with last; empty once one of its kind succeeded, or a round of requests went without a failure.
    const failure& last_error() const noexcept;

private:
    struct impl;
    std::shared_ptr<impl> impl_;
};

} // namespace informer
