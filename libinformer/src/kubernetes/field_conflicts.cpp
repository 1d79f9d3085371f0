#include <informer/kubernetes/options.hpp>

namespace informer::kubernetes {

namespace {

/// The quoted name in `conflict with "kubectl" using apps/v1`; Go quotes it, so that it may hold escaped quotes.
std::string manager_in(std::string_view message) {
    const auto open = message.find('"');
    if (open == std::string_view::npos) return {};
    std::string name;
    for (std::size_t i = open + 1; i < message.size(); ++i) {
        if (message[i] == '"') return name;
        if (message[i] == '\\' && i + 1 < message.size()) ++i;
        name += message[i];
    }
    return {};
}

} // namespace

std::vector<field_conflict> field_conflicts(const failure& f) {
    std::vector<field_conflict> found;
    if (f != errc::conflict || f.status() == nullptr) return found;
    for (const auto& c : f.status()->causes) {
        if (c.reason != "FieldManagerConflict") continue;
        field_conflict conflict;
        conflict.field = c.field;
        conflict.manager = manager_in(c.message);
        conflict.message = c.message;
        found.push_back(std::move(conflict));
    }
    return found;
}

} // namespace informer::kubernetes
