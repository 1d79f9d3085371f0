#include "object_store.hpp"

#include <algorithm>

namespace informer::testing::detail {

std::string stored_object::text_at_version(std::uint64_t other) const {
    const auto end = text.find('"', version_at);
    std::string out;
    out.reserve(text.size() + 8);
    out.append(text, 0, version_at);
    out += std::to_string(other);
    out.append(text, end, std::string::npos);
    return out;
}

std::uint64_t table::position_after(std::uint64_t version) const {
    const auto it = std::partition_point(history.begin(), history.end(),
                                         [version](const change& c) { return c.version <= version; });
    return first + static_cast<std::uint64_t>(it - history.begin());
}

stored table::find(std::string_view key) const {
    const auto it = objects.find(key);
    return it == objects.end() ? nullptr : it->second;
}

object_store::object_store(std::size_t history_limit, std::uint64_t first_version)
    : history_limit_(std::max<std::size_t>(history_limit, 1)), current_(first_version), compacted_(first_version) {}

std::uint64_t object_store::oldest(const table& t) const noexcept {
    return std::max(compacted_, t.dropped);
}

void object_store::remember(table& t, change c) {
    current_ = c.version;
    t.history.push_back(std::move(c));
    while (t.history.size() > history_limit_) {
        t.dropped = t.history.front().version;
        t.history.pop_front();
        ++t.first;
    }
    if (on_change_) on_change_(t);
}

void object_store::put(table& t, stored now) {
    change c;
    c.version = now->version;
    c.now = now;
    auto& place = t.objects[now->key()];
    c.what = place ? change::kind::modified : change::kind::added;
    c.before = std::exchange(place, std::move(now));
    remember(t, std::move(c));
}

void object_store::erase(table& t, stored last) {
    const auto it = t.objects.find(last->key());
    if (it == t.objects.end()) return;
    change c;
    c.what = change::kind::removed;
    c.version = last->version;
    c.before = std::move(it->second);
    c.now = std::move(last);
    t.objects.erase(it);
    remember(t, std::move(c));
}

std::optional<std::vector<stored>> object_store::state_at(const table& t, std::uint64_t version,
                                                          std::string_view prefix, std::string_view after) const {
    if (version < oldest(t)) return std::nullopt;
    const auto in_range = [&](const std::string& key) { return key.starts_with(prefix) && key > after; };
    // Undoes the changes since `version`: for each changed key, the state before the first of its changes.
    std::map<std::string, stored, std::less<>> then;
    for (auto it = t.history.rbegin(); it != t.history.rend() && it->version > version; ++it) {
        auto key = it->now->key();
        if (in_range(key)) then.insert_or_assign(std::move(key), it->before);
    }
    std::vector<stored> out;
    auto now = t.objects.lower_bound(std::max(prefix, after));
    auto old = then.begin();
    for (;;) {
        const bool more_now = now != t.objects.end() && now->first.starts_with(prefix);
        if (!more_now && old == then.end()) break;
        if (old == then.end() || (more_now && now->first < old->first)) {
            if (now->first > after) out.push_back(now->second);
            ++now;
            continue;
        }
        if (more_now && now->first == old->first) ++now;
        if (old->second) out.push_back(old->second);
        ++old;
    }
    return out;
}

void object_store::go_back(table& t, std::map<std::string, stored, std::less<>> objects, std::uint64_t version) {
    t.first = t.end();
    t.history.clear();
    t.objects = std::move(objects);
    t.dropped = version;
}

void object_store::go_back_to(std::uint64_t version) noexcept {
    current_ = version;
    compacted_ = version;
}

} // namespace informer::testing::detail
