// Sharing keys by Leases, sans-io: the logic is told what happened and what time it is, and answers what to do next and
// what is owned.
#pragma once

#include <informer/controller/key_sharding.hpp>
#include <informer/detail/split_mix.hpp>

#include "controller/lease_record.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace informer {

struct shard_view::data {
    bool active = false;
    std::vector<std::string> members;
    std::vector<std::uint64_t> weights; ///< hashes of the members' names, in their order
    std::size_t self = 0;               ///< index of this replica, or members.size()
    std::uint64_t generation = 0;
};

namespace detail {

/// A Lease of the group, as a list shows it.
class listed_lease {
public:
    listed_lease() = default;
    explicit listed_lease(const object& lease);
    std::string name, version, uid;
    lease_record record;
};

/// One membership, from joining to leaving. The owner carries out what `next()` returns and reports the outcome. Times
/// are those of the owner's monotonic clock.
class shard_logic {
public:
    using time_point = clock::time_point;
    using duration = clock::duration;

    enum class action {
        wait,    ///< until `until`, or until something else is reported
        create,  ///< our Lease, with `desired()`
        update,  ///< our Lease, with `desired()`, over the version seen last
        list,    ///< the group's Leases, consistently
        collect, ///< delete the dead Lease `target`, if it is still at that version
        leave,   ///< delete our Lease
        over,
    };
    struct step {
        step(action a, time_point u) : what(a), until(u) {}
        action what;
        time_point until; ///< for a request: give up then and report `failed`
        listed_lease target;
    };

    /// `member` is the name of our Lease; no other process has ever used it.
    shard_logic(shard_group_options options, std::string member, std::uint64_t seed);

    step next(time_point now);
    /// Whether the request under way has become pointless.
    bool abandon(time_point now) const noexcept;

    // ---- outcomes of requests; `sent` is when they were begun
    void written(time_point sent, time_point now, const lease_record& r);
    void listed(time_point sent, time_point now, const std::vector<listed_lease>& leases, resource_version version);
    /// The same for a list that is cut off: with so many Leases nobody owns anything. Those of the dead are deleted all
    /// the same, or the group could never recover by itself.
    void overcrowded(time_point sent, time_point now, const std::vector<listed_lease>& some);
    void removed(time_point now);
    void failed(time_point now, const failure& why);

    // ---- what else happened
    void stop(time_point now);
    void drained() noexcept { drained_ = true; } ///< after stop(): none of our work is under way any more

    /// The record to write now. Each call returns another renewal time.
    lease_record desired(std::chrono::system_clock::time_point wall);
    const std::string& member() const noexcept { return member_; }
    /// Whether anything is owned at `now`.
    bool active(time_point now) const noexcept;
    /// Until when that holds if no further answer comes.
    time_point valid_until() const noexcept;
    /// When `view()` changes by itself, as ownership begins or ends.
    time_point next_change(time_point now) const noexcept;
    /// Returns the same handle as long as its content is the same.
    const shard_view& view(time_point now);
    const resource_version& token() const noexcept { return token_; }
    bool joined() const noexcept { return joined_; }

private:
    struct peer {
        listed_lease lease;
        time_point seen_at{}; ///< when its last change was seen
        bool live = true;
        bool note(const listed_lease& l, bool fresh, time_point now);
        bool may_be_deleted(time_point unchanged_at, std::chrono::nanoseconds duration) const;
    };
    using peers = std::map<std::string, peer>;
    enum class stage { write, list, collect, pause };

    void advance(time_point now);
    void lapse() noexcept;
    time_point active_from() const noexcept;
    std::optional<listed_lease> garbage(time_point now);
    std::optional<listed_lease> garbage_of_crowd();
    step request(time_point now, action what);

    shard_group_options options_;
    std::string member_;
    detail::split_mix random_;
    stage stage_ = stage::write;
    action pending_ = action::wait;
    time_point round_at_{}, pause_until_{}, request_until_{};

    bool exists_ = false;    ///< our Lease is there, as far as we know
    bool tried_ = false;     ///< we have requested it at least once: it may exist
    bool joined_ = false;    ///< the Lease has been renewed in time since `joined_at_`
    bool activated_ = false; ///< the wait after joining is over: later members wait for us
    time_point joined_at_{}, renewed_{};
    lease_record own_;
    renewal_times times_;
    bool seen_ = false;          ///< a list since we joined shows our Lease
    time_point seen_at_{};       ///< when the last such list was sent
    peers peers_;                ///< all other Leases of the group
    peers crowd_;                ///< if there are too many for a list: those that it shows
    time_point crowd_seen_at_{}; ///< when the last list of them was sent
    resource_version token_;

    bool leaving_ = false, drained_ = false, over_ = false;
    time_point leave_until_{};
    std::optional<listed_lease> doomed_;

    shard_view view_;
    std::uint64_t generation_ = 0;
    bool members_changed_ = true;
};

} // namespace detail

} // namespace informer
