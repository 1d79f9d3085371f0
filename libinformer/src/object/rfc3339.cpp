#include <informer/object/rfc3339.hpp>

#include "object/rfc3339_clamped.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

namespace informer {

std::string rfc3339(std::chrono::system_clock::time_point t, int digits) {
    const auto second = std::chrono::floor<std::chrono::seconds>(t);
    const auto day = std::chrono::floor<std::chrono::days>(second);
    const std::chrono::year_month_day date(day);
    const std::chrono::hh_mm_ss time(second - day);
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()),
                  static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                  static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                  static_cast<int>(time.seconds().count()));
    std::string out(text.data());
    if (digits > 0) {
        auto rest = std::chrono::nanoseconds(t.time_since_epoch() % std::chrono::seconds(1)).count();
        if (rest < 0) rest += 1'000'000'000; // t - second may not fit near time_point::min()
        std::snprintf(text.data(), text.size(), ".%09d", static_cast<int>(rest));
        out.append(text.data(), static_cast<std::size_t>(std::min(digits, 9)) + 1);
    }
    return out + 'Z';
}

std::optional<std::chrono::system_clock::time_point> detail::parse_rfc3339_clamped(std::string_view s) noexcept {
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
    const std::chrono::year_month_day date(std::chrono::year(static_cast<int>(year)), std::chrono::month(month),
                                           std::chrono::day(day));
    if (!date.ok() || hour > 23 || minute > 59 || second > 60) return {};
    std::size_t at = 19;
    std::int64_t nanoseconds = 0;
    if (at < s.size() && s[at] == '.') {
        std::int64_t unit = 100'000'000;
        const std::size_t first = ++at;
        for (; at < s.size() && s[at] >= '0' && s[at] <= '9'; ++at, unit /= 10) nanoseconds += unit * (s[at] - '0');
        if (at == first) return {};
    }
    std::int64_t offset = 0;
    const bool utc = at + 1 == s.size() && (s[at] | 32) == 'z';
    if (!utc) {
        unsigned hours, minutes;
        if (at + 6 != s.size() || (s[at] != '+' && s[at] != '-') || s[at + 3] != ':') return {};
        if (!number(at + 1, 2, hours) || !number(at + 4, 2, minutes) || hours > 23 || minutes > 59) return {};
        offset = (std::int64_t{hours} * 60 + minutes) * (s[at] == '-' ? -60 : 60);
    }
    const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
    const std::int64_t seconds =
        days * 86'400 + std::int64_t{hour} * 3600 + std::int64_t{minute} * 60 + second - offset;
    using time_point = std::chrono::system_clock::time_point; // nanoseconds in 64 bits
    if (seconds < -9'200'000'000) return time_point::min();
    if (seconds > 9'200'000'000) return time_point::max();
    return time_point(std::chrono::duration_cast<std::chrono::system_clock::duration>(
        std::chrono::seconds(seconds) + std::chrono::nanoseconds(nanoseconds)));
}

std::optional<std::chrono::system_clock::time_point> parse_rfc3339(std::string_view s) noexcept {
    using time_point = std::chrono::system_clock::time_point;
    auto t = detail::parse_rfc3339_clamped(s);
    if (t && (*t == time_point::min() || *t == time_point::max())) t.reset();
    return t;
}

} // namespace informer
