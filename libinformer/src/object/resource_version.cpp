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

void resource_version::make_far(std::string_view s) {
    auto* const f = new far_text{1, std::string(s)};
    std::memcpy(bytes_, &f, sizeof f);
    bytes_[room] = elsewhere;
}

void resource_version::leave_far() noexcept {
    if (detail::count_down(far().holders)) delete &far();
}

bool resource_version::comparable() const noexcept {
    return is_decimal(text());
}

std::partial_ordering operator<=>(const resource_version& a, const resource_version& b) noexcept {
    if (a.text() == b.text()) return std::partial_ordering::equivalent;
    if (!a.comparable() || !b.comparable()) return std::partial_ordering::unordered;
    const auto x = without_leading_zeros(a.text());
    const auto y = without_leading_zeros(b.text());
    if (x.size() != y.size()) return x.size() <=> y.size();
    return x.compare(y) <=> 0;
}

} // namespace informer
