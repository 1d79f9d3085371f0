#include "kubernetes/merge_keys.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <utility>

namespace informer::kubernetes::detail {

namespace {

constexpr std::size_t deepest = 32;
constexpr std::size_t most = 500'000; // a thousand users with one base take 10,000

/// yaml-cpp tags what is quoted with "!" and what is plain with "?".
bool is_merge(const YAML::Node& key) {
    return key.IsScalar() && key.Scalar() == "<<" && (key.Tag() == "?" || key.Tag() == "tag:yaml.org,2002:merge");
}

} // namespace

void merge_keys::resolve(const YAML::Node& map) {
    if (!why_.empty() || !map.IsMap()) return;
    std::vector<std::pair<YAML::Node, YAML::Node>> merges;
    for (const auto& entry : map)
        if (is_merge(entry.first)) merges.emplace_back(entry.first, entry.second);
    if (merges.empty()) return;
    if (open_.size() >= deepest) return refuse(merges.front().first, "merge keys (<<) are nested too deeply");

    YAML::Node into(map); // the same node
    for (const auto& [key, from] : merges) into.remove(key);
    names known;
    for (const auto& entry : into)
        if (entry.first.IsScalar()) known.insert(entry.first.Scalar());
    open_.push_back(into);
    for (const auto& [key, from] : merges) {
        if (from.IsMap()) {
            take(into, key, from, known);
        } else if (from.IsSequence()) {
            for (const YAML::Node& one : from) take(into, key, one, known);
        } else {
            refuse(key, "a merge key (<<) must have a map or a list of maps");
        }
    }
    open_.pop_back();
}

void merge_keys::take(YAML::Node& into, const YAML::Node& key, const YAML::Node& from, names& known) {
    if (!from.IsMap()) refuse(key, "a merge key (<<) must have a map or a list of maps");
    if (std::any_of(open_.begin(), open_.end(), [&from](const YAML::Node& n) { return n.is(from); }))
        refuse(key, "a merge key (<<) names the map that it stands in");
    if (!why_.empty() || !counted(key)) return;
    resolve(from);
    for (const auto& entry : from) {
        if (!why_.empty() || !counted(key)) return;
        // A key that is no text cannot be compared; whoever reads the map refuses it.
        if (!entry.first.IsScalar() || known.insert(entry.first.Scalar()).second)
            into.force_insert(YAML::Node(entry.first), YAML::Node(entry.second));
    }
}

bool merge_keys::counted(const YAML::Node& key) {
    if (++taken_ > most) refuse(key, "merge keys (<<) take more than " + std::to_string(most) + " members");
    return taken_ <= most;
}

void merge_keys::refuse(const YAML::Node& key, std::string_view what) {
    if (!why_.empty()) return;
    why_ = what;
    line_ = key.Mark().line + 1;
}

} // namespace informer::kubernetes::detail
