// Decides which events are written, and as what: series, aggregation, spam limits. Sans-io.
#pragma once

#include <informer/object/object.hpp>
#include <informer/runtime.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace informer {

/// What an event is about, as written to `regarding` and `related`.
class event_subject {
public:
    event_subject() = default;
    explicit event_subject(const object& o);
    bool empty() const noexcept { return name.empty(); }
    friend bool operator==(const event_subject&, const event_subject&) = default;
    std::string api_version, kind, name_space, name, uid, resource_version;
    std::string field_path; ///< the part of the object: "spec.containers{web}"
};

/// An event as it was recorded.
class event_record {
public:
    std::string type = "Normal"; ///< or "Warning"
    std::string reason, action, note;
    event_subject regarding, related;
    /// Annotations of the Event itself, for what belongs together (a trace's id). The first event of a series sets
    /// them.
    std::map<std::string, std::string> annotations;
};

/// Limits of what is written. Constants: client-go, tools/record (EventCorrelator) and tools/events.
class event_limits {
public:
    event_limits() {}
    /// How many events of one subject and type are written at once, and how long until there is room for one more
    /// (zero: there always is).
    event_limits& burst(unsigned n) {
        burst_ = n;
        return *this;
    }
    event_limits& refill(std::chrono::nanoseconds d) {
        refill_ = d;
        return *this;
    }
    /// At how many different notes of otherwise equal events they begin to be combined: the n-th and all later new
    /// ones become one series, until none came for `similar_within`.
    event_limits& similar(unsigned n) {
        similar_ = n;
        return *this;
    }
    event_limits& similar_within(std::chrono::nanoseconds d) {
        similar_within_ = d;
        return *this;
    }
    /// A series that goes on is written again every `refresh`, and is over after a silence of `series_over`.
    event_limits& refresh(std::chrono::nanoseconds d) {
        refresh_ = d;
        return *this;
    }
    event_limits& series_over(std::chrono::nanoseconds d) {
        series_over_ = d;
        return *this;
    }
    /// How many series, and how many subjects, are remembered; the least recently seen are forgotten first.
    event_limits& memory(std::size_t entries) {
        memory_ = entries;
        return *this;
    }

    unsigned burst_ = 25;
    std::chrono::nanoseconds refill_ = std::chrono::minutes(5);
    unsigned similar_ = 10;
    std::chrono::nanoseconds similar_within_ = std::chrono::minutes(10);
    std::chrono::nanoseconds refresh_ = std::chrono::minutes(30);
    std::chrono::nanoseconds series_over_ = std::chrono::minutes(6);
    std::size_t memory_ = 4096;
};

/// Takes what was recorded and when; answers with what to write.
///
/// - The first event of its kind (subject, part of it, type, reason, action, note) is created. A second one within
///   `series_over` makes it a series, which is written at once, then every `refresh` while it grows, and once more when
///   it is over or has to be forgotten for lack of memory.
/// - If otherwise equal events have `similar` different notes, without a silence of over `similar_within` between them,
///   the last of these and all later new ones become one event: its note is that of the first of them, after "(combined
///   from similar events): ".
/// - Events of one subject and type have a budget of `burst`, refilled by one every `refill`; what exceeds it is
///   dropped and counted. Only creations count, as a series costs the server next to nothing.
///
/// *Thread safety*: none. *Complexity*: `record` O(1); `tick` and `next_due` look at every remembered series. Memory is
/// bounded by `memory` entries per table; texts are kept in full.
class event_correlator {
public:
    explicit event_correlator(event_limits limits = event_limits());
    ~event_correlator();
    event_correlator(const event_correlator&) = delete;
    event_correlator& operator=(const event_correlator&) = delete;

    /// One request to the server.
    class write {
    public:
        bool create = false; ///< otherwise a patch of the series alone
        std::string name;    ///< of the Event
        event_record event;
        std::chrono::system_clock::time_point first, last;
        std::uint64_t count = 1; ///< 1: not a series
    };
    /// Usually one write or none; two if an old series was over, or had to be forgotten, when a new one began.
    std::vector<write> record(event_record e, clock::time_point now, std::chrono::system_clock::time_point wall);
    /// What has become due; call it at `next_due()`.
    std::vector<write> tick(clock::time_point now);
    clock::time_point next_due() const; ///< time_point::max() if nothing is due
    /// The server does not have this event (any more), so the next one of its kind is created.
    void forget(const std::string& name);

    std::uint64_t dropped() const noexcept; ///< events over the spam limit
    std::size_t remembered() const noexcept;

private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

} // namespace informer
