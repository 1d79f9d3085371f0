#include "controller/lease_record.hpp"

#include <informer/object/json.hpp>
#include <informer/object/rfc3339.hpp>

#include <boost/json/object.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <random>

namespace informer::detail {

namespace json = boost::json;

namespace {

json::object& object_at(json::object& parent, std::string_view key) {
    json::value& v = parent[key];
    return v.is_object() ? v.as_object() : v.emplace_object();
}

void put(json::object& lease, const std::map<std::string, std::string>& labels, const lease_record& r) {
    json::object& metadata = object_at(lease, "metadata");
    if (!labels.empty()) {
        json::object& into = object_at(metadata, "labels");
        for (const auto& [name, value] : labels) into[name] = value;
    }
    json::object& spec = object_at(lease, "spec");
    spec["holderIdentity"] = r.holder;
    spec["leaseDurationSeconds"] = r.duration.count();
    spec["acquireTime"] = r.acquire_time;
    spec["renewTime"] = r.renew_time;
    spec["leaseTransitions"] = r.transitions;
}

} // namespace

lease_record::lease_record(const object& lease) {
    const value spec = lease["spec"];
    holder = spec["holderIdentity"].string_or_empty().str();
    const std::int64_t seconds = spec["leaseDurationSeconds"].int64_or(0);
    duration = std::chrono::seconds(std::clamp<std::int64_t>(seconds, 0, std::numeric_limits<std::int32_t>::max()));
    acquire_time = spec["acquireTime"].string_or_empty().str();
    renew_time = spec["renewTime"].string_or_empty().str();
    transitions =
        std::clamp<std::int64_t>(spec["leaseTransitions"].int64_or(0), 0, std::numeric_limits<std::int32_t>::max() - 1);
}

api_resource leases() {
    return api_resource("coordination.k8s.io", "v1", "leases", "Lease", true);
}

std::string renewal_times::next(std::chrono::system_clock::time_point wall, std::string_view seen) {
    constexpr std::chrono::microseconds step(1);
    const auto read = std::chrono::floor<std::chrono::microseconds>(wall);
    const bool go_along = read > last_ || last_ - read >= std::chrono::seconds(1);
    last_ = go_along ? read : last_ + step;
    std::string text = rfc3339(last_, 6);
    if (text == seen) text = rfc3339(last_ += step, 6);
    return text;
}

json::value make_lease(const object_key& key, const std::map<std::string, std::string>& labels,
                       const lease_record& record) {
    json::object lease{{"apiVersion", "coordination.k8s.io/v1"},
                       {"kind", "Lease"},
                       {"metadata", json::object{{"name", key.name}, {"namespace", key.name_space}}}};
    put(lease, labels, record);
    return lease;
}

json::value change_lease(const object& base, const std::map<std::string, std::string>& labels,
                         const lease_record& record) {
    json::value lease = to_value(base);
    if (!lease.is_object()) lease.emplace_object();
    put(lease.as_object(), labels, record);
    return lease;
}

std::chrono::seconds whole_seconds(std::chrono::nanoseconds d) {
    return std::chrono::ceil<std::chrono::seconds>(d);
}

std::string wrong_times(std::chrono::nanoseconds lease_duration, std::chrono::nanoseconds renew_deadline,
                        std::chrono::nanoseconds retry_period, std::chrono::nanoseconds request_timeout) {
    if (retry_period < std::chrono::milliseconds(1)) return "the retry period must be positive (at least 1 ms)";
    // client-go's JitterFactor.
    if (double(renew_deadline.count()) <= 1.2 * double(retry_period.count()))
        return "the renew deadline must be longer than 1.2 times the retry period";
    if (lease_duration <= renew_deadline) return "the lease duration must be longer than the renew deadline";
    if (lease_duration > std::chrono::hours(24 * 365)) return "the lease duration must not exceed a year";
    if (request_timeout.count() < 0) return "the request time-out must not be negative";
    return {};
}

clock::duration lease_record::counts(std::chrono::nanoseconds otherwise) const {
    return ticks(duration.count() > 0 ? std::chrono::nanoseconds(duration) : otherwise);
}

std::string host_label() {
    std::array<char, 256> name{};
    if (gethostname(name.data(), name.size() - 1) != 0) return "host";
    std::string label;
    for (const char* c = name.data(); *c != '\0' && label.size() < 40; ++c) {
        // Not by the locale's letters: the result goes into a DNS label.
        const bool upper = *c >= 'A' && *c <= 'Z', other = (*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9');
        label += upper ? static_cast<char>(*c - 'A' + 'a') : other ? *c : '-';
    }
    const auto first = label.find_first_not_of('-');
    const auto last = label.find_last_not_of('-');
    return first == std::string::npos ? "host" : label.substr(first, last - first + 1);
}

std::string random_digits(std::size_t digits) {
    std::random_device device;
    std::string s;
    while (s.size() < digits) s += "0123456789abcdef"[device() % 16];
    return s;
}

} // namespace informer::detail
