// Resource versions: opaque, but for comparison as decimal numbers of any length.
#pragma once

#include <compare>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace informer {

/// A resource version as the server wrote it. Two comparable ones order as decimal numbers of any length; one that is
/// no decimal number is `unordered` with everything but an equal text. Never throws, never crashes (contract).
class resource_version {
public:
    resource_version() = default;
    explicit resource_version(std::string_view s) : text_(s) {}
    const std::string& str() const noexcept { return text_; }
    bool empty() const noexcept { return text_.empty(); }
    bool comparable() const noexcept; ///< a non-empty decimal number
    friend bool operator==(const resource_version& a, const resource_version& b) noexcept { return (a <=> b) == 0; }
    friend std::partial_ordering operator<=>(const resource_version& a, const resource_version& b) noexcept;
    friend std::ostream& operator<<(std::ostream& o, const resource_version& v) { return o << v.text_; }

private:
    std::string text_;
};

} // namespace informer
