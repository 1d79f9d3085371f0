// What an informer delivers to its subscribers.
#pragma once

#include <informer/object/object.hpp>

#include <cstdint>
#include <ostream>
#include <string_view>

namespace informer {

enum class event_kind : std::uint8_t {
    added,
    updated,
    deleted,
    synced, ///< no object: the initial state, or a relist, is complete; only with `subscription_options::sync_marks`
};
enum class event_reason : std::uint8_t {
    snapshot, ///< initial state of a subscriber, or of the first list
    watch,    ///< a watch event
    relist,   ///< a difference that a relist revealed
    resync,   ///< the periodic repetition
};
/// "ADDED", "MODIFIED", "DELETED", "SYNCED": the words of the watch protocol.
std::string_view to_string(event_kind k) noexcept;
std::string_view to_string(event_reason r) noexcept;
inline std::ostream& operator<<(std::ostream& o, event_kind k) {
    return o << to_string(k);
}
inline std::ostream& operator<<(std::ostream& o, event_reason r) {
    return o << to_string(r);
}

/// One change of one object. Cheap to copy (two handles).
class event {
public:
    event() = default;
    event(event_kind k, object now, object before, event_reason why)
        : kind(k), reason(why), current(std::move(now)), previous(std::move(before)) {}

    event_kind kind = event_kind::added;
    event_reason reason = event_reason::watch;
    bool initial = false; ///< part of the subscriber's initial state
    /// False: deleted, and `current` is the last state that was seen before. The deletion was revealed by a relist or
    /// by another object (`uid`) with the same key, or the watch event of the deletion could not be read.
    bool final_state_known = true;
    object current;  ///< the newest state; for deleted, the last one
    object previous; ///< the state this subscriber received before; empty for added
    /// The version of a `synced` mark; otherwise that of `current`. A deletion whose event could not be read has the
    /// version of that event, if the version could be read.
    informer::resource_version version;

    object_key key() const { return current.key(); }
};

} // namespace informer
