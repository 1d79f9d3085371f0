#include <informer/kubernetes/discovery.hpp>

#include "kubernetes/discovery_names.hpp"
#include "root/ascii.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace informer::kubernetes {

namespace detail {

using informer::detail::lower;

namespace {

/// How well a name fits, best first: a name that is the plural of one resource means that resource, even if it is a
/// short name of another.
enum fit { plural, singular_or_kind, short_name, none };

fit fit_of(const api_resource& r, const std::string& name) {
    if (name.empty()) return none; // would match a resource whose singular name is not known
    if (lower(r.plural) == name) return plural;
    if (lower(r.singular) == name || lower(r.kind) == name) return singular_or_kind;
    const bool is_short = std::any_of(r.short_names.begin(), r.short_names.end(),
                                      [&name](const std::string& s) { return lower(s) == name; });
    return is_short ? short_name : none;
}

enum class group_match { exact, prefix };

bool fits_group(const api_resource& r, const asked_name& asked, group_match how) {
    if (!asked.version.empty() && r.version != asked.version) return false;
    if (!asked.has_group) return true;
    return how == group_match::exact ? lower(r.group) == asked.group : lower(r.group).starts_with(asked.group);
}

const api_resource* best(const std::vector<api_resource>& all, const asked_name& asked, group_match how) {
    const api_resource* found = nullptr;
    fit so_far = none;
    for (const auto& r : all) {
        if (!fits_group(r, asked, how)) continue;
        const fit f = fit_of(r, asked.resource);
        if (f < so_far) {
            so_far = f;
            found = &r;
        }
    }
    return found;
}

/// Levenshtein's distance, with a swap of neighbours counted once (optimal string alignment).
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
    std::iota(last.begin(), last.end(), std::size_t(0));
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before[j - 2] + 1);
        }
        std::swap(before, last);
        std::swap(last, row);
    }
    return last[b.size()];
}

} // namespace

std::vector<asked_name> readings(std::string_view name) {
    constexpr auto npos = std::string::npos;
    const std::string text = lower(name);
    const auto first = text.find('.');
    if (first == npos) return {asked_name{text, "", "", false}};
    const std::string resource = text.substr(0, first), rest = text.substr(first + 1);
    std::vector<asked_name> all;
    if (rest.empty()) return {asked_name{resource, "", "", true}}; // "pods.": the core group
    all.push_back(asked_name{resource, "", rest, true});
    const auto second = rest.find('.');
    if (second != npos)
        all.push_back(asked_name{resource, rest.substr(0, second), rest.substr(second + 1), true});
    else
        all.push_back(asked_name{resource, rest, "", true}); // "pods.v1"
    return all;
}

const api_resource* match(const std::vector<api_resource>& all, const std::vector<asked_name>& asked) {
    for (const auto how : {group_match::exact, group_match::prefix})
        for (const auto& a : asked)
            if (how == group_match::exact || !a.group.empty())
                if (const auto* found = best(all, a, how)) return found;
    return nullptr;
}

bool is_certain(const api_resource& found, const std::vector<asked_name>& asked) {
    return std::any_of(asked.begin(), asked.end(), [&found](const asked_name& a) {
        return a.has_group ? a.group == found.group : found.group.empty() && fit_of(found, a.resource) == plural;
    });
}

std::vector<std::string> nearest(const std::vector<api_resource>& all, std::string_view name) {
    constexpr std::size_t most = 3, longest = 253;
    const std::string whole = lower(name.substr(0, longest));
    const std::string bare = whole.substr(0, whole.find('.'));
    const bool qualified = bare.size() != whole.size();
    const std::size_t tolerance = std::max<std::size_t>(1, whole.size() / 3);
    std::multimap<std::size_t, std::string> by_distance;
    for (const auto& r : all) {
        const std::string shown = r.group_resource();
        std::size_t d = distance(whole, lower(shown));
        if (qualified) {
            if (bare == lower(r.plural)) d = std::min(d, tolerance); // right name, wrong group
        } else {
            d = std::min({d, distance(whole, lower(r.plural)), distance(whole, lower(r.singular)),
                          distance(whole, lower(r.kind))});
            for (const auto& s : r.short_names)
                if (whole.size() > 2) d = std::min(d, distance(whole, lower(s))); // two letters are near to any name
        }
        const bool known =
            std::any_of(by_distance.begin(), by_distance.end(), [&](const auto& e) { return e.second == shown; });
        if (d <= tolerance && !known) by_distance.emplace(d, shown);
    }
    std::vector<std::string> names;
    for (const auto& [d, shown] : by_distance)
        if (names.size() < most) names.push_back(shown);
    return names;
}

} // namespace detail

api_resource discovery::find(std::string_view name, failure& f) const {
    f = failure();
    if (const auto* found = detail::match(resources, detail::readings(name))) return *found;
    std::string what = "the server has no resource \"" + std::string(name.substr(0, 256)) + "\"";
    const auto close = detail::nearest(resources, name);
    for (std::size_t i = 0; i < close.size(); ++i)
        what += (i == 0 ? " (did you mean " : i + 1 == close.size() ? " or " : ", ") + close[i];
    if (!close.empty()) what += "?)";
    if (!problems.empty())
        what += " (could not read " + problems.front() +
                (problems.size() > 1 ? " and " + std::to_string(problems.size() - 1) + " more" : "") + ")";
    f = failure(errc::unknown_resource, what);
    return {};
}

const api_resource* discovery::find(std::string_view group, std::string_view version, std::string_view plural) const {
    const auto found = std::find_if(resources.begin(), resources.end(), [&](const api_resource& r) {
        return r.group == group && r.version == version && r.plural == plural;
    });
    return found == resources.end() ? nullptr : &*found;
}

const api_resource* discovery::find_kind(std::string_view api_version, std::string_view kind) const {
    const auto found = std::find_if(resources.begin(), resources.end(), [&](const api_resource& r) {
        return r.kind == kind && r.api_version() == api_version;
    });
    return found == resources.end() ? nullptr : &*found;
}

} // namespace informer::kubernetes
