// Lease objects (coordination.k8s.io/v1), as leader election and key sharding read and write them.
#pragma once

#include <informer/object/api_resource.hpp>
#include <informer/object/object.hpp>
#include <informer/runtime.hpp>

#include <boost/json/value.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace informer::detail {

/// What the specification of a Lease says. Times are kept as text: nobody compares another's wall clock with his own, a
/// record is only ever compared with what it said before.
class lease_record {
public:
    lease_record() = default;
    /// Whatever is missing or of another type is empty; durations are cut to what an int32 holds.
    explicit lease_record(const object& lease);

    /// How long the record counts after its last change; `otherwise` when it does not say.
    clock::duration counts(std::chrono::nanoseconds otherwise) const;

    std::string holder;
    std::chrono::seconds duration{};
    std::string acquire_time, renew_time;
    std::int64_t transitions = 0;

    friend bool operator==(const lease_record&, const lease_record&) = default;
};

api_resource leases();

/// The times that are written into one Lease. No two are alike, also where the wall clock stands still or is set back by less than a
/// second: others look for change alone, and need not see each write.
class renewal_times {
public:
    /// In microseconds; `seen` is what the Lease says so far.
    std::string next(std::chrono::system_clock::time_point wall, std::string_view seen);

private:
    using micros = std::chrono::sys_time<std::chrono::microseconds>;
    micros last_ = micros::min();
};

/// A new Lease.
boost::json::value make_lease(const object_key& key, const std::map<std::string, std::string>& labels,
                              const lease_record& record);
/// `base` with another record. Labels of ours are put in; what others have written (labels, annotations, owners, further
/// members of the specification) and the resource version, which makes the update conditional, stay.
boost::json::value change_lease(const object& base, const std::map<std::string, std::string>& labels,
                                const lease_record& record);

/// The seconds that a record promises: rounded up, so that others never wait for less than its writer counts on.
std::chrono::seconds whole_seconds(std::chrono::nanoseconds d);

inline clock::duration ticks(std::chrono::nanoseconds d) {
    return std::chrono::duration_cast<clock::duration>(d);
}

/// What is wrong with the times of a Lease, in words; empty when nothing is.
std::string wrong_times(std::chrono::nanoseconds lease_duration, std::chrono::nanoseconds renew_deadline,
                        std::chrono::nanoseconds retry_period, std::chrono::nanoseconds request_timeout);

/// The host's name, cut to what a label of a DNS name may hold, or "host".
std::string host_label();
/// `digits` random hexadecimal digits, from the system.
std::string random_digits(std::size_t digits);

} // namespace informer::detail
