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

/// The specification of a Lease. Times are kept as text: no replica compares another's wall clock with its own; a
/// record is only compared with its earlier state.
class lease_record {
public:
    lease_record() = default;
    /// Members that are missing or of another type are empty; numbers are cut to what an int32 holds.
    explicit lease_record(const object& lease);

    /// How long the record counts after its last change; `otherwise` if it has no duration.
    clock::duration counts(std::chrono::nanoseconds otherwise) const;

    std::string holder;
    std::chrono::seconds duration{};
    std::string acquire_time, renew_time;
    std::int64_t transitions = 0;

    friend bool operator==(const lease_record&, const lease_record&) = default;
};

api_resource leases();

/// The renewal times that are written into one Lease. No two are equal, even if the wall clock stands still or is set
/// back by less than a second: other replicas look only for a change, and may not see every write.
class renewal_times {
public:
    /// In microseconds; `seen` is the renewal time that the Lease has so far.
    std::string next(std::chrono::system_clock::time_point wall, std::string_view seen);

private:
    using micros = std::chrono::sys_time<std::chrono::microseconds>;
    micros last_ = micros::min();
};

/// A new Lease.
boost::json::value make_lease(const object_key& key, const std::map<std::string, std::string>& labels,
                              const lease_record& record);
/// `base` with another record. Our labels are added; what others have written (labels, annotations, owners, further
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
