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
    idle, ///< `run()` has not been called yet
    /// A list or watch-list is under way (for the first one, until its result is in the cache), or will be as soon as
    /// the last state has been delivered (`held_up_by`).
    listing,
    watching,    ///< synced and following
    backing_off, ///< the last attempt failed; waiting to try again. Also while lists work and watches do not
    parked,      ///< the resource does not exist (404) or may not be read (401, 403, no credential): tried again rarely
    stopped,
};
std::string_view to_string(informer_phase p) noexcept;
inline std::ostream& operator<<(std::ostream& o, informer_phase p) {
    return o << to_string(p);
}

/// A copy of the state. Never holds secrets.
struct informer_status {
    std::string resource; ///< "pods", "deployments.apps in ns1"
    /// `informer_options::name()`, or the resource and its selectors: "pods, labels app=web"
    std::string name;
    informer_phase phase = informer_phase::idle;
    bool synced = false; ///< the cache was complete once
    /// The error of the last failed attempt, kept until an attempt succeeds. The error of a watch that was cut and
    /// continued at once is kept until the next relist, or for two minutes. If there is none
    /// (`if (!status.last_error)`), its text is "success".
    failure last_error;
    std::string last_error_phase;                          ///< list, watch-list, open, stream, decode
    std::chrono::system_clock::time_point last_error_at{}; ///< the epoch of the clock if there is none
    std::uint64_t attempts = 0;                            ///< failed in a row
    /// When the server is asked again, while the informer waits for that; otherwise the epoch of the clock.
    std::chrono::system_clock::time_point next_attempt{};
    std::chrono::system_clock::time_point since{}; ///< when the phase began
    /// When bytes last came from the server, whatever they said, even a refusal; the epoch of the clock before any.
    std::chrono::system_clock::time_point last_contact{};
    /// When the server last showed that the cache is not behind it: an event, a bookmark or a whole state came, or a
    /// check of the newest version found none that is newer. The epoch of the clock before any. If nothing changes,
    /// bookmarks come about every minute. For a server that sends none, the check comes once the watch has lasted its
    /// time (5 to 10 minutes by default), followed by a list if others' objects have made the server's version newer.
    /// If this time is older than that, changes may be missing, whatever the phase. The same is true while a subscriber
    /// holds up the informer (`overflow_policy::back_pressure`).
    std::chrono::system_clock::time_point confirmed{};
    /// The subscription (or controller) that all others wait for now: it uses `overflow_policy::back_pressure` and is
    /// full. Empty: none.
    std::string held_up_by;
    std::uint64_t epoch = 1; ///< grows when the server goes back in time
    std::size_t objects = 0;
    /// Pool and index, with their free room and tables, which are most of it in a small cache. The objects take
    /// `pool.node_bytes`.
    std::uint64_t bytes = 0;
    informer::resource_version resource_version; ///< of the cache; see `shared_informer::wait_until`
    // totals since the start
    std::uint64_t lists = 0, watch_lists = 0, watches = 0, relists = 0;
    /// Events of watches only. What a relist finds is counted only in the metric `informer_events_total`.
    std::uint64_t events_added = 0, events_modified = 0, events_deleted = 0, bookmarks = 0;
    std::uint64_t bytes_received = 0;
    /// The longest time that reading, applying or indexing held the executor. The time that handlers take is not
    /// counted.
    std::chrono::nanoseconds longest_slice{};
    std::size_t quarantined = 0;
    std::vector<bad_object> quarantine; ///< at most 16 of them
    /// Objects of the cache that were not in the last list and may be gone: the list had items that could not be read
    /// and did not say which objects they are. Lists are repeated, at most 15 to 30 minutes apart, until one shows
    /// whether they are gone. Only lists update this count: what a watch tells of such an object meanwhile does not
    /// lower it.
    std::size_t unproven = 0;
    /// How often an index function threw. Such an object is in the cache, but that index does not find it.
    std::uint64_t index_errors = 0;
    failure last_index_error; ///< `errc::index_function_failed`; names the index and the object
    pool_statistics pool;
};

} // namespace informer
