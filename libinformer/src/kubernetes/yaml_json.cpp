#include "kubernetes/yaml_json.hpp"

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace informer::kubernetes::detail {

namespace {

namespace json = boost::json;

class translation {
public:
    explicit translation(merge_keys& merges) : merges_(merges) {}
    std::string why;

    json::value of(const YAML::Node& n, int depth = 0) {
        constexpr int deepest = 30;
        ++size_;
        if (depth > deepest) why = "nested too deeply";
        if (n.IsScalar()) size_ += n.Scalar().size();
        if (size_ > largest_as_json) why = "larger than 64 KiB";
        if (!why.empty()) return nullptr;
        if (n.IsMap()) {
            merges_.resolve(n);
            why = merges_.why();
            json::object o;
            for (const auto& entry : n) {
                if (!why.empty()) break;
                if (!entry.first.IsScalar()) {
                    why = "a key that is no string";
                    break;
                }
                size_ += entry.first.Scalar().size();
                o[entry.first.Scalar()] = of(entry.second, depth + 1);
            }
            return o;
        }
        if (n.IsSequence()) {
            json::array a;
            for (const auto& entry : n) {
                if (!why.empty()) break;
                a.push_back(of(entry, depth + 1));
            }
            return a;
        }
        if (!n.IsScalar()) return nullptr;
        if (n.Tag() != "?" && !is_plain_type(n.Tag())) return json::string(n.Scalar()); // quoted, or explicitly tagged
        bool b = false;
        if (YAML::convert<bool>::decode(n, b)) return b;
        if (const auto i = integer_of(n.Scalar())) return *i;
        double d = 0;
        if (read_whole(n.Scalar(), d, std::chars_format::general) && std::isfinite(d)) return d;
        return json::string(n.Scalar());
    }

private:
    /// A type that the value has by its looks, too ("!!int 5").
    static bool is_plain_type(const std::string& tag) {
        constexpr std::string_view core = "tag:yaml.org,2002:";
        const bool is_core = tag.starts_with(core);
        const std::string_view type = is_core ? std::string_view(tag).substr(core.size()) : std::string_view();
        return type == "int" || type == "float" || type == "bool" || type == "null";
    }
    // Not with yaml-cpp's conversions: they follow the process's locale, in which 1.500 may mean 1500.
    template <class Number, class How>
    static bool read_whole(std::string_view s, Number& to, How how) {
        if (s.starts_with('+') && !s.starts_with("+-")) s.remove_prefix(1);
        const auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), to, how);
        return ec == std::errc() && end == s.data() + s.size();
    }
    static std::optional<std::int64_t> integer_of(std::string_view s) {
        std::int64_t i = 0;
        const bool negative = s.starts_with('-');
        std::string_view digits = s.substr(negative || s.starts_with('+') ? 1 : 0);
        if (digits.size() < 2 || digits.front() != '0') return read_whole(s, i, 10) ? std::optional(i) : std::nullopt;
        const bool hexadecimal = digits[1] == 'x' || digits[1] == 'X';
        digits.remove_prefix(hexadecimal || digits[1] == 'o' ? 2 : 1);
        if (digits.starts_with('-') || digits.starts_with('+') || !read_whole(digits, i, hexadecimal ? 16 : 8))
            return std::nullopt;
        return negative ? -i : i;
    }

    merge_keys& merges_;
    std::size_t size_ = 0;
};

} // namespace

std::string yaml_to_json(const YAML::Node& n, merge_keys& merges, std::string& why) {
    translation t(merges);
    const json::value v = t.of(n);
    why = std::move(t.why);
    return why.empty() ? json::serialize(v) : std::string();
}

std::string yaml_to_json(std::string_view yaml, std::string& why) {
    if (yaml.size() > largest_as_json) { // yaml-cpp may keep 200 times as much
        why = "larger than 64 KiB";
        return {};
    }
    std::string text(yaml);
    drop_version(text);
    try {
        merge_keys merges;
        return yaml_to_json(YAML::Load(text), merges, why);
    } catch (const YAML::Exception&) { // its message may quote the text
        why = "no YAML";
        return {};
    }
}

void drop_version(std::string& yaml) {
    if (yaml.starts_with("%YAML 1.")) std::fill_n(yaml.begin(), std::min(yaml.find('\n'), yaml.size()), ' ');
}

} // namespace informer::kubernetes::detail
