// Several replicas share the keys of one controller: each key has one owner, found by hashing over the live replicas.
#pragma once

#include <informer/error.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/object/resource_version.hpp>
#include <informer/runtime.hpp>

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace informer {

/// The index of the member that owns `key`; members.size() if there are none. Uses rendezvous (highest random weight)
/// hashing, so a member that joins or leaves moves only the keys that it gets or had. The function is the same in every
/// process, on every machine and in every release (FNV-1a and SplitMix64, 64 bits), and does not depend on the order of
/// members. *Complexity*: linear in the text of members and key.
std::size_t rendezvous_owner(const std::vector<std::string>& members, std::string_view key);

/// Which keys are whose, as one replica saw it at one time. Cheap to copy, immutable. *Thread safety*: all calls from
/// any thread.
class shard_view {
public:
    struct data;
    shard_view() noexcept = default;
    explicit shard_view(std::shared_ptr<const data> d) noexcept : data_(std::move(d)) {}
    /// Whether this replica owned anything at all: it had joined, and its Lease and its view were valid.
    bool active() const noexcept;
    /// Whether `key` was this replica's. *Complexity*: linear in the key's length plus the number of members.
    bool owns(std::string_view key) const noexcept;
    /// Names of the live members' Leases, sorted; this replica is among them while it is active.
    const std::vector<std::string>& members() const noexcept;
    /// Grows with each view of one `run()`; the next `run()` starts again.
    std::uint64_t generation() const noexcept;
    friend bool operator==(const shard_view& a, const shard_view& b) noexcept { return a.data_ == b.data_; }

private:
    std::shared_ptr<const data> data_;
};

/// The argument of `on_change`. Code that works on keys then looks at all keys for which `gained` holds
/// (`controller_options::sharded_by` does).
class shard_change {
public:
    shard_change(shard_view b, shard_view a) : before(std::move(b)), after(std::move(a)) {}
    shard_view before, after;
    bool gained(std::string_view key) const noexcept { return after.owns(key) && !before.owns(key); }
    bool lost(std::string_view key) const noexcept { return before.owns(key) && !after.owns(key); }
};

/// Options of a group; durations as in leader election: 15 s, 10 s, 2 s.
class shard_group_options {
public:
    /// Replicas of the same group in the same namespace share keys. `group` is the value of the label `label_key` on
    /// their Leases, and the prefix of the Leases' names.
    shard_group_options(std::string name_space, std::string group)
        : name_space_(std::move(name_space)), group_(std::move(group)) {}
    /// Part of the Lease's name, for people (default: the host's name). Need not be unique: random digits follow.
    shard_group_options& identity(std::string s) {
        identity_ = std::move(s);
        return *this;
    }
    shard_group_options& lease_duration(std::chrono::nanoseconds d) {
        lease_duration_ = d;
        return *this;
    }
    shard_group_options& renew_deadline(std::chrono::nanoseconds d) {
        renew_deadline_ = d;
        return *this;
    }
    shard_group_options& retry_period(std::chrono::nanoseconds d) {
        retry_period_ = d;
        return *this;
    }
    /// The time-out of one request; default (zero): a quarter of the renew deadline, at least 1 s.
    shard_group_options& request_timeout(std::chrono::nanoseconds d) {
        request_timeout_ = d;
        return *this;
    }
    /// Called for each change of what this replica owns, on the executor, after `owns()` shows it. Must not block. What
    /// it throws is logged.
    shard_group_options& on_change(std::function<void(const shard_change&)> f) {
        on_change_ = std::move(f);
        return *this;
    }

    /// Returns errc::bad_configuration, naming what is wrong. Required: lease duration > renew deadline > 1.2 × retry
    /// period > 0; group and identity (if given) are parts of DNS names.
    failure check() const;
    std::chrono::nanoseconds effective_request_timeout() const;

    static constexpr std::string_view label_key = "libinformer.io/shard-group";
    static constexpr double jitter = 0.2;             ///< rounds come every retry period to 1.2 times that
    static constexpr std::size_t most_members = 1000; ///< Leases of a group; with more of them nobody owns anything

    std::string name_space_, group_, identity_;
    std::chrono::nanoseconds lease_duration_ = std::chrono::seconds(15);
    std::chrono::nanoseconds renew_deadline_ = std::chrono::seconds(10);
    std::chrono::nanoseconds retry_period_ = std::chrono::seconds(2);
    std::chrono::nanoseconds request_timeout_{};
    std::function<void(const shard_change&)> on_change_;
};

/// How `shard_group::run_owned` ended.
enum class owned_end {
    done,      ///< the work returned; the key was ours until then, or was handed over only after that
    not_owned, ///< the key is not ours: the work was not started
    lost,      ///< the key was lost; the work was cancelled and has ended
    cancelled, ///< the caller was cancelled while the key was ours; the work was cancelled too, and has ended
};

/// This replica's part in a group that shares keys.
///
/// Each replica holds a Lease of its own, renews it, and lists the Leases of the group (every retry period, with a
/// consistent read). Others count it as a member while its Lease changes, by their own monotonic clocks; wall clocks do
/// not matter. Replicas list rather than watch because a watch that lags looks like one where nothing happens, while
/// the answer to a consistent list proves the state at the time of the request. The bounds below rest on that. The
/// price is one small list per replica and retry period.
///
/// With `lease_duration` D, `renew_deadline` R, `retry_period` P, H = D - R (15, 10, 2 and 5 s) and q the time that a
/// request takes:
///
/// *Never two*. No two replicas own a key at the same time. A replica owns keys only while less than R has passed since
/// it sent its last successful renewal and its last successful list. Others count it as a member until D after they saw
/// its last change, and do not take over without a list that was sent after that. A replica that joins, or joins again
/// after its Lease lapsed, owns nothing before D after its Lease was stored, when all others have seen it or stopped
/// (at once if no other Lease is live). Between the end of one owner and the beginning of the next H passes, unless the
/// first left cleanly and had finished. Conditions: clocks run at rates that differ by less than D / R (that much of H
/// is then used up), the API server's reads are consistent, and nobody else deletes the Leases: after a deletion two
/// replicas may own a key for up to R. The same can happen after a machine was suspended, or a virtual machine stopped,
/// because CLOCK_MONOTONIC stands still meanwhile (it does not when only a process is paused). If a process is paused
/// between `owns()` and its next step, only a store that knows `token()` can refuse that step.
///
/// *Never none for long*. While the API server answers, a key whose owner changes has a new one:
/// - on a join: within D + 1.2 P + 4 q of the joining Lease being stored (only keys that move to the new member wait);
/// - on a clean leave: within 1.2 P + 2 q of its end;
/// - on a crash, or a pause longer than R: within D + 2.4 P + 4 q; a process that wakes from the pause joins again
///   (except after a suspended machine, see above);
/// - after an API server's absence longer than R, which ends all ownership: within D + 1.2 P + 4 q of its return.
/// A change during the wait for another can add to that wait, since each join starts its own D.
///
/// *Work under way*: `run_owned` runs work as long as the key is ours. After a loss the work may finish for H / 2, is
/// then cancelled, and has H / 2 to unwind before another replica may own the key (work that takes longer is logged as
/// an error).
///
/// Leases of crashed replicas are deleted after 3 D without a change, by the member that would own their name. With
/// more than `most_members` Leases, dead ones included, nobody owns anything until members have deleted enough of the
/// dead. (A replica that always crashes before it is 3 D old deletes none.)
/// *Metrics*: `informer_shard_members{group}`, `informer_shard_active{group}`.
/// *Thread safety*: none; use it on the runtime's executor. *Lifetime*: `run()` and `run_owned()` keep what they need.
/// Like the client, the group must not outlive the execution context.
class shard_group {
public:
    /// Throws `error(errc::bad_configuration)`.
    shard_group(runtime r, kubernetes::client c, shard_group_options options);
    ~shard_group();
    shard_group(const shard_group&) = delete;
    shard_group& operator=(const shard_group&) = delete;

    /// Joins the group and stays a member. *Cancellation*: terminal; the replica owns nothing from then on. `run()`
    /// waits for work that `run_owned` runs (it is cancelled after H / 2), deletes the Lease (for at most R) and
    /// returns. *Errors*: already_running. No answer of the API server is an error here: requests are tried again, and
    /// a failure is logged once for each kind of request and failure until that kind succeeds. May be called again
    /// after it ended.
    asio::awaitable<void> run();

    /// Whether `key` is ours at this instant, by our monotonic clock, even if the executor did not run (a paused
    /// process). Keys are any bytes; namespaces as keys keep the objects of one namespace together.
    bool owns(std::string_view key) const noexcept;
    /// What we own, by the last look at the group.
    const shard_view& view() const noexcept;
    /// Calls `f` for changes too, as `shard_group_options::on_change`, until the returned handle is destroyed (on the
    /// executor).
    [[nodiscard]] std::shared_ptr<void> listen(std::function<void(const shard_change&)> f);
    /// For stores that refuse outdated writers (see `fencing_token`): the resource version of the list that our view
    /// rests on. A later owner of a key never has a smaller one.
    const resource_version& token() const noexcept;
    /// The name of our Lease; "" before the first `run()`.
    const std::string& member() const noexcept;
    /// The latest failure of a request; empty once one of its kind succeeded, or a round of requests went without a
    /// failure.
    const failure& last_error() const noexcept;

    /// Runs `work` if `key` is ours, and cancels it (terminal) if the key is lost; see above. *Cancellation*: if the
    /// caller is cancelled, cancels the work, waits for it and returns `cancelled`. *Errors*: what the work throws,
    /// except the cancellation that came from here.
    asio::awaitable<owned_end> run_owned(std::string key, asio::awaitable<void> work);

private:
    struct impl;
    std::shared_ptr<impl> impl_;
};

} // namespace informer
