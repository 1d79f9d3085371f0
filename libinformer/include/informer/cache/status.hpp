// What an informer says about itself. Nothing hides.
#pragma once

#include <informer/object/document_pool.hpp>
#include <informer/source/list_watch.hpp>

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace informer {

enum class informer_phase {
    idle,     ///< `run()` was not called yet
    listing,  ///< list or watch-list under way; of a first one also until what came of it is in the cache
    watching, ///< synced and following
    backing_off, ///< the last attempt failed; waiting to try again. Also where lists work and watches do not, for as long as that lasts
    parked, ///< the resource does not exist (404) or may not be read (401, 403, no credential): tried again rarely
    stopped,
};
std::string_view to_string(informer_phase p) noexcept;
inline std::ostream& operator<<(std::ostream& o, informer_phase p) {
    return o << to_string(p);
}

/// A picture of the state; never holds secrets.
struct informer_status {
    std::string resource; ///< "pods", "deployments.apps in ns1"
    /// `informer_options::name()`, or the resource and its selectors: "pods, labels app=web"
    std::string name;
    informer_phase phase = informer_phase::idle;
    bool synced = false; ///< the cache was complete once
    /// Of the last failed attempt, kept until an attempt succeeds; of a watch that was cut and went on at once until the next relist, or
    /// for two minutes. Where there is none (`if (!status.last_error)`) its words are "success".
    failure last_error;
    std::string last_error_phase;                          ///< list, watch-list, open, stream, decode
    std::chrono::system_clock::time_point last_error_at{}; ///< the epoch of the clock where there is none
    std::uint64_t attempts = 0;                            ///< failed in a row
    /// When the server is asked again, while the informer waits for that; else the epoch of the clock.
    std::chrono::system_clock::time_point next_attempt{};
    std::chrono::system_clock::time_point since{}; ///< of the phase
    /// Last bytes from the server, whatever they said, be it that it refuses us; the epoch of the clock before any.
    std::chrono::system_clock::time_point last_contact{};
    /// When the server last showed that the cache is not behind it: an event or a bookmark came, a whole state, or a look at the newest
    /// version found none that is newer; the epoch of the clock before any. Where nothing changes bookmarks come about every minute. From
    /// a server that sends none the look comes once the watch has lasted its time (5 to 10 minutes by default), and where others' objects
    /// have made its version newer, a list. Older than that, changes may be missing, whatever the phase; so while a subscriber holds up
    /// the informer (`overflow_policy::back_pressure`).
    std::chrono::system_clock::time_point confirmed{};
    /// The subscription (or controller) that all others wait for now: it is under `overflow_policy::back_pressure`, and full. Empty: none.
    std::string held_up_by;
    std::uint64_t epoch = 1; ///< grows when the server went back in time
    std::size_t objects = 0;
    /// Pool plus index, with their free room and tables, which are most of it in a small cache: what objects take is `pool.node_bytes`.
    std::uint64_t bytes = 0;
    informer::resource_version resource_version; ///< of the cache; see `shared_informer::wait_until`
    // totals since the start
    std::uint64_t lists = 0, watch_lists = 0, watches = 0, relists = 0;
    /// Of watches: what a relist finds is in the metric `informer_events_total` only.
    std::uint64_t events_added = 0, events_modified = 0, events_deleted = 0, bookmarks = 0;
    std::uint64_t bytes_received = 0;
    /// Longest time the executor was held by reading, applying and indexing. What handlers take of it is theirs, and not counted.
    std::chrono::nanoseconds longest_slice{};
    std::size_t quarantined = 0;
    std::vector<bad_object> quarantine; ///< at most 16 of them
    /// Objects of the cache that were not in the last list, and may be gone: it had items that could not be read and did not say which
    /// they are. Lists are repeated, at most 15 to 30 minutes apart, until one tells. Counted by lists only: what a watch tells of such an
    /// object meanwhile does not lower it.
    std::size_t unproven = 0;
    /// How often an index function threw: such an object is in the cache, but that index does not find it.
    std::uint64_t index_errors = 0;
    failure last_index_error; ///< `errc::index_function_failed`; names the index and the object
    pool_statistics pool;
};

} // namespace informer
