// Leader election on a Lease: one of several replicas works, the others stand by.
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

/// Hand this to a store that must not obey a former leader: the store remembers the largest `version` it was shown and
/// refuses smaller ones. Versions of one Lease grow as decimal numbers; each leader's is larger than its predecessors'.
class fencing_token {
public:
    fencing_token() = default;
    fencing_token(informer::resource_version v, std::int64_t t) : version(std::move(v)), transitions(t) {}
    /// The Lease's resource version when it was acquired.
    informer::resource_version version;
    /// How often the Lease had changed hands (`spec.leaseTransitions`). Starts again if somebody deletes the Lease.
    std::int64_t transitions = 0;
};

/// One term of leadership, given to the leading work. Cheap to copy; may outlive the elector.
///
/// *Thread safety*: all calls from any thread.
class leadership {
public:
    struct term;
    explicit leadership(std::shared_ptr<const term> t) noexcept : term_(std::move(t)) {}
    /// Whether the Lease is ours at this instant, by our own monotonic clock. False from the moment the renew deadline
    /// has passed, even if the executor did not run (a paused process), and before the work is cancelled. Ask before
    /// each step that must not be done by two replicas. A process may still be paused between the question and the
    /// step: only the fencing token helps there.
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
    /// The namespace and the name of the Lease.
    leader_election_options(std::string name_space, std::string name)
        : name_space_(std::move(name_space)), name_(std::move(name)) {}
    /// Our identity; must differ between all processes that share the Lease (two with the same identity both lead).
    /// Default: the host's name and 16 random digits.
    leader_election_options& identity(std::string s) {
        identity_ = std::move(s);
        return *this;
    }
    /// How long others wait, after the last change of the Lease that they saw, before they take it. Written into the
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
    /// The time between two renewals; candidates ask every `retry_period` to 2.2 times that.
    leader_election_options& retry_period(std::chrono::nanoseconds d) {
        retry_period_ = d;
        return *this;
    }
    /// The time-out of one request; default (zero): half the renew deadline, at least 1 s, so that one hanging request
    /// does not cost the leadership.
    leader_election_options& request_timeout(std::chrono::nanoseconds d) {
        request_timeout_ = d;
        return *this;
    }
    /// Whether the Lease is given up when `run()` ends while it is ours (the next leader then need not wait). Default
    /// on. It is safe, as it happens after the leading work has ended.
    leader_election_options& release_on_stop(bool on) {
        release_on_stop_ = on;
        return *this;
    }
    /// Whether `run()` stands for election again after it lost the Lease. Default off: `run()` returns `lost`.
    leader_election_options& re_elect(bool on = true) {
        re_elect_ = on;
        return *this;
    }
    /// Labels to put on the Lease; labels that others put there stay.
    leader_election_options& label(std::string key, std::string value) {
        labels_[std::move(key)] = std::move(value);
        return *this;
    }
    /// Called with the holder's identity once for each change that we see: also for the first holder, for ourselves,
    /// and with "" when the Lease was given up. Called on the executor; must not block. What it throws is logged.
    leader_election_options& on_new_leader(std::function<void(const std::string& identity)> f) {
        on_new_leader_ = std::move(f);
        return *this;
    }
    /// Called with what client-go records as an event on the Lease (type Normal, reason LeaderElection): "ID became
    /// leader", "ID stopped leading". For an event recorder. Otherwise as `on_new_leader`.
    leader_election_options& on_event(std::function<void(const object& lease, const std::string& message)> f) {
        on_event_ = std::move(f);
        return *this;
    }

    /// Returns errc::bad_configuration, naming what is wrong. Required: lease duration > renew deadline > 1.2 × retry
    /// period > 0; namespace and name are not empty.
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

/// How `leader_elector::run` ended. It is `lost` whenever the work still ran when the Lease expired, even if the work
/// had been told to end by then: at a server that hangs nothing can be renewed. A program that was stopping anyway need
/// not treat that as a failure.
enum class election_end {
    stopped,  ///< `run()` was cancelled; the work, if it ran, has ended, and the Lease was given up (see below)
    finished, ///< the leading work returned by itself; the Lease was given up (see below)
    lost,     ///< the Lease was lost (renew deadline, or somebody else holds it); the work was cancelled and has ended
};
std::string_view to_string(election_end e) noexcept;

/// Stands for election and runs the leading work while elected.
///
/// Promises, with `lease_duration` D, `renew_deadline` R and `retry_period` P (15, 10, 2 s):
/// - The work is a coroutine. It is cancelled (terminal) at the latest R after the last successful renewal was sent,
///   measured by our own monotonic clock, whether or not the API server answers. It is joined before the Lease is given
///   up. On a clean stop the Lease goes on being renewed until the work has ended.
/// - Nobody else takes the Lease before D has passed since they saw its last change. So after a loss the work has D - R
///   to unwind before another may lead (work that takes longer is logged as an error; only fencing stops it), and
///   clocks may differ in rate by D / R. Wall clocks do not matter.
/// - An API server that refuses for R - 2P, whatever Retry-After it sends, or is silent for R - P less a request's
///   time-out, costs no leadership. After a crash another leads within D + 4.4 P plus the time of its requests, after a
///   clean stop within 2.2 P.
/// - After a loss the Lease is not given up: it has expired by the time it could be.
/// - An acquisition whose outcome is unknown when `run()` is stopped is undone.
/// - The Lease is given up, and such an acquisition undone, as far as the server can be reached within R and
///   `release_on_stop` is on.
/// The process should not share the executor with work that blocks for seconds, and the client may be one of its own,
/// because a renewal that waits behind a large list is late. CLOCK_MONOTONIC stands still while a machine is suspended
/// or a virtual one is stopped (not while a process is); for up to R after that only the fencing token protects. A
/// Lease that somebody deletes by hand protects nothing for R.
///
/// *Metrics*: `leader_election_master_status{name}` (1 while the work may run) and
/// `leader_election_slowpath_total{name}` (renewals that had to read the Lease first), as client-go's.
/// *Thread safety*: none; use it on the runtime's executor. *Lifetime*: `run()` keeps what it needs, and releases the
/// work when it ends, so the work may own the elector. Neither of them may outlive the execution context, and neither
/// may the client.
class leader_elector {
public:
    /// Throws `error(errc::bad_configuration)`, see `leader_election_options::check`.
    leader_elector(runtime r, kubernetes::client c, leader_election_options options);
    ~leader_elector();
    leader_elector(const leader_elector&) = delete;
    leader_elector& operator=(const leader_elector&) = delete;

    /// Waits to be elected, then runs `lead` and renews the Lease meanwhile. May be called again after it ended.
    ///
    /// *Cancellation*: terminal; cancels the work, waits for it, gives the Lease up (for at most R) and returns
    /// `stopped`, or `lost` if the Lease expired before the work had ended. Before the election it returns at once,
    /// unless an acquisition may have succeeded without our knowing: that is undone first (for at most R). *Errors*:
    /// already_running; bad_configuration (no `lead`). What the work throws is rethrown after the Lease was given up
    /// (except a cancellation that we caused). No answer of the API server is an error here: requests are tried again,
    /// and a failure is logged once for each kind of request and failure until that kind succeeds. *Lifetime*: the
    /// argument of `lead` lives as long as the work.
    asio::awaitable<election_end> run(std::function<asio::awaitable<void>(const leadership&)> lead);

    /// Whether the Lease is ours now; see `leadership::held`.
    bool is_leader() const noexcept;
    /// The holder that we saw last; "" if we saw none.
    const std::string& leader() const noexcept;
    const std::string& identity() const noexcept;
    /// For a health endpoint (client-go's HealthzAdaptor): a failure if we lead by a Lease that expired more than
    /// `tolerance` ago, or if the leading work still runs then although it was told to end. In both cases we hang, and
    /// another may lead. A replica that does not lead is healthy.
    failure check(std::chrono::nanoseconds tolerance = std::chrono::seconds(20)) const;
    /// The latest failure of a request; empty once one of its kind succeeded, or a round of requests went without a
    /// failure.
    const failure& last_error() const noexcept;

private:
    struct impl;
    std::shared_ptr<impl> impl_;
};

} // namespace informer
