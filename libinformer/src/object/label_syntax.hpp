// The syntax of names and of label keys and values, as apimachinery checks it.
#pragma once

#include <algorithm>
#include <string_view>

namespace informer::detail {

inline bool is_alphanumeric(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// [A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?
inline bool is_label_name(std::string_view s) noexcept {
    if (s.empty() || s.size() > 63 || !is_alphanumeric(s.front()) || !is_alphanumeric(s.back())) return false;
    return std::all_of(s.begin(), s.end(),
                       [](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

inline bool is_label_value(std::string_view s) noexcept {
    return s.empty() || is_label_name(s);
}

// A label of RFC 1123 in lower case, but of any length.
inline bool is_dns_part(std::string_view s) noexcept {
    const auto outer = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
    return !s.empty() && outer(s.front()) && outer(s.back()) &&
           std::all_of(s.begin(), s.end(), [&](char c) { return outer(c) || c == '-'; });
}

inline bool is_dns_label(std::string_view s) noexcept {
    return s.size() <= 63 && is_dns_part(s);
}

// Labels between dots. As in apimachinery: 253 characters in all, no limit for a single label.
inline bool is_dns_subdomain(std::string_view s) noexcept {
    if (s.size() > 253) return false;
    for (;;) {
        const std::string_view label = s.substr(0, s.find('.'));
        if (!is_dns_part(label)) return false;
        if (label.size() == s.size()) return true;
        s.remove_prefix(label.size() + 1);
    }
}

inline bool is_label_key(std::string_view s) noexcept {
    const auto slash = s.find('/');
    if (slash == std::string_view::npos) return is_label_name(s);
    return is_dns_subdomain(s.substr(0, slash)) && is_label_name(s.substr(slash + 1));
}

} // namespace informer::detail
