#include <informer/object/resource_version.hpp>

#include <algorithm>

namespace informer {

namespace {

bool is_decimal(std::string_view s) noexcept {
    return !s.empty() && std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string_view without_leading_zeros(std::string_view s) noexcept {
    const auto first = s.find_first_not_of('0');
    return first == std::string_view::npos ? std::string_view() : s.substr(first);
}

} // namespace

bool resource_version::comparable() const noexcept {
    return is_decimal(text_);
}

std::partial_ordering operator<=>(const resource_version& a, const resource_version& b) noexcept {
    if (a.text_ == b.text_) return std::partial_ordering::equivalent;
    if (!a.comparable() || !b.comparable()) return std::partial_ordering::unordered;
    const auto x = without_leading_zeros(a.text_);
    const auto y = without_leading_zeros(b.text_);
    if (x.size() != y.size()) return x.size() <=> y.size();
    return x.compare(y) <=> 0;
}

} // namespace informer
