#include <informer/object/object.hpp>

#include "detail/packed.hpp"
#include "detail/pool_core.hpp"
#include "detail/reading.hpp"

namespace informer {

informer::value object::value() const& noexcept {
    return root_ ? informer::value(root_->generation, root_->document) : informer::value();
}

namespace {

// These two come first in what a pool has read.
value api_version_of(const value& v) noexcept { return detail::member_at(v, 0, "apiVersion"); }
value kind_of(const value& v) noexcept { return detail::member_at(v, 1, "kind"); }

} // namespace

text object::api_version() const& noexcept { return api_version_of(this->value()).string_or_empty(); }

text object::kind() const& noexcept { return kind_of(this->value()).string_or_empty(); }

bool object::has_type(std::string_view api_version, std::string_view kind) const noexcept {
    const auto v = this->value();
    return detail::is_text(v.generation(), api_version_of(v).handle(), api_version) &&
           detail::is_text(v.generation(), kind_of(v).handle(), kind);
}

text object::name() const& noexcept { return root_ ? detail::string_of(root_->generation, root_->key.name) : text(); }

text object::name_space() const& noexcept {
    return root_ ? detail::string_of(root_->generation, root_->key.name_space) : text();
}

object_key object::key() const { return object_key(this->name_space().str(), this->name().str()); }

bool object::has_key(std::string_view name_space, std::string_view name) const noexcept {
    if (!root_) return name_space.empty() && name.empty();
    const detail::generation* g = root_->generation;
    return detail::is_text(g, root_->key.name, name) && detail::is_text(g, root_->key.name_space, name_space);
}

std::string object::uid() const { return this->meta().uid().str(); }

informer::resource_version object::resource_version() const { return this->meta().resource_version(); }

std::string object::to_json() const { return this->value().to_json(); }

bool object::same_as(const object& o) const noexcept {
    if (root_ == o.root_) return true;
    return root_ && o.root_ && root_->generation == o.root_->generation && root_->document == o.root_->document;
}

bool operator==(const object& a, const object& b) { return a.same_as(b) || a.value() == b.value(); }

informer::resource_version object_meta::resource_version() const {
    const text t = metadata_["resourceVersion"].string_or_empty();
    return informer::resource_version(t.view());
}

namespace {

/// RFC 3339; what it cannot read is no time.
std::optional<std::chrono::system_clock::time_point> parse_time(std::string_view s) noexcept {
    const auto number = [&](std::size_t at, std::size_t n, unsigned& out) {
        out = 0;
        if (at + n > s.size()) return false;
        for (std::size_t i = at; i < at + n; ++i) {
            if (s[i] < '0' || s[i] > '9') return false;
            out = out * 10 + static_cast<unsigned>(s[i] - '0');
        }
        return true;
    };
    unsigned year, month, day, hour, minute, second;
    if (!number(0, 4, year) || !number(5, 2, month) || !number(8, 2, day) || !number(11, 2, hour) ||
        !number(14, 2, minute) || !number(17, 2, second))
        return {};
    if (s[4] != '-' || s[7] != '-' || (s[10] | 32) != 't' || s[13] != ':' || s[16] != ':') return {};
    if (!detail::is_date(year, month, day) || hour > 23 || minute > 59 || second > 60) return {};
    std::size_t at = 19;
    std::int64_t nanoseconds = 0;
    if (at < s.size() && s[at] == '.') {
        std::int64_t unit = 100'000'000;
        const std::size_t first = ++at;
        for (; at < s.size() && s[at] >= '0' && s[at] <= '9'; ++at, unit /= 10)
            nanoseconds += unit * (s[at] - '0');
        if (at == first) return {};
    }
    std::int64_t offset = 0;
    if (at + 1 == s.size() && (s[at] | 32) == 'z') {
        ++at;
    } else if (at + 6 == s.size() && (s[at] == '+' || s[at] == '-') && s[at + 3] == ':') {
        unsigned hours, minutes;
        if (!number(at + 1, 2, hours) || !number(at + 4, 2, minutes) || hours > 23 || minutes > 59) return {};
        offset = (std::int64_t{hours} * 60 + minutes) * (s[at] == '-' ? -60 : 60);
    } else {
        return {};
    }
    const std::int64_t seconds = detail::days_from_civil(year, month, day) * 86'400 + std::int64_t{hour} * 3600 +
                                 std::int64_t{minute} * 60 + second - offset;
    // system_clock counts nanoseconds in 64 bits: 1678 to 2261.
    if (seconds < -9'200'000'000 || seconds > 9'200'000'000) return {};
    return std::chrono::system_clock::time_point(std::chrono::duration_cast<std::chrono::system_clock::duration>(
        std::chrono::seconds(seconds) + std::chrono::nanoseconds(nanoseconds)));
}

std::optional<std::chrono::system_clock::time_point> time_of(const value& v) noexcept {
    const text t = v.string_or_empty();
    return parse_time(t.view());
}

} // namespace

std::optional<std::chrono::system_clock::time_point> object_meta::creation_time() const noexcept {
    return time_of(metadata_["creationTimestamp"]);
}

std::optional<std::chrono::system_clock::time_point> object_meta::deletion_time() const noexcept {
    return time_of(metadata_["deletionTimestamp"]);
}

} // namespace informer
