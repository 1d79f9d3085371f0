// The store of the embedded server: tables of rendered, immutable states under one version counter, and a history per
// table, from which watches resume and old states are rebuilt. No sockets, no JSON trees, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace informer::testing::detail {

/// One state of one object, rendered once and shared by the table, the history and the answers that send it.
struct stored_object {
    std::uint64_t version = 0;
    std::string name_space, name, uid;
    /// The JSON text after kind and apiVersion: `"metadata":{…},"spec":{…}}`. Kind and apiVersion depend on the API
    /// version of the request and are absent in lists of built-in kinds, so the sender adds them (or only `{`).
    std::string text;
    std::size_t version_at = 0; ///< where the digits of the resource version begin in `text`
    std::vector<std::pair<std::string, std::string>> labels;
    std::vector<std::string> fields; ///< values of the selectable fields, in the table's order
    bool terminating = false;
    bool has_finalizers = false;

    /// "namespace/name" or "name": the order of lists.
    std::string key() const { return name_space.empty() ? name : name_space + "/" + name; }
    /// `text` with another resource version in it.
    std::string text_at_version(std::uint64_t other) const;
};
using stored = std::shared_ptr<const stored_object>;

/// One write. For a removal, `now` is the last state with the version of the removal; for a creation, `before` is null.
struct change {
    enum class kind { added, modified, removed };
    kind what = kind::added;
    std::uint64_t version = 0;
    stored now, before;
};

/// A field that selectors may name, and its path.
struct selectable_field {
    std::string label;             ///< "spec.nodeName"
    std::vector<std::string> path; ///< {"spec", "nodeName"}
    std::string absent;            ///< the value for selectors if the field is absent: "", "0", "false"
};

/// All objects of one resource, shared by all its API versions.
struct table {
    std::map<std::string, stored, std::less<>> objects; ///< by key
    std::deque<change> history;
    std::uint64_t first = 0;   ///< absolute number of history.front()
    std::uint64_t dropped = 0; ///< version of the last change that left the history
    std::vector<selectable_field> selectable;

    std::uint64_t end() const noexcept { return first + history.size(); }
    const change& at(std::uint64_t number) const { return history[static_cast<std::size_t>(number - first)]; }
    /// Number of the first change after `version`.
    std::uint64_t position_after(std::uint64_t version) const;
    stored find(std::string_view key) const;
};

class object_store {
public:
    /// At least one change is kept: without any history, open watches could send nothing.
    object_store(std::size_t history_limit, std::uint64_t first_version);

    std::uint64_t current() const noexcept { return current_; }
    /// The version of the write that is being prepared.
    std::uint64_t next() const noexcept { return current_ + 1; }
    /// Oldest version that lists and watches may start from.
    std::uint64_t oldest(const table& t) const noexcept;

    /// Stores a state whose version is `next()`.
    void put(table& t, stored now);
    /// Removes an object; `last` is its last state, rendered with version `next()`.
    void erase(table& t, stored last);
    /// Makes lists and watches from older versions impossible; open watches can still send the history.
    void compact() noexcept { compacted_ = current_; }

    /// The objects whose key is after `after` and starts with `prefix`, as they were at `version`, in order; null when
    /// `version` is too old. Costs one step for each object in the range and for each change since.
    std::optional<std::vector<stored>> state_at(const table& t, std::uint64_t version, std::string_view prefix,
                                                std::string_view after) const;

    /// Called after each write.
    void on_change(std::function<void(table&)> f) { on_change_ = std::move(f); }
    /// Calls the `on_change` function for another reason: perhaps the table is no longer served.
    void touched(table& t) {
        if (on_change_) on_change_(t);
    }

    /// As after a restored backup: `objects` become the state of `t`; later writes are forgotten.
    void go_back(table& t, std::map<std::string, stored, std::less<>> objects, std::uint64_t version);
    void go_back_to(std::uint64_t version) noexcept;

private:
    void remember(table& t, change c);

    std::size_t history_limit_;
    std::uint64_t current_, compacted_;
    std::function<void(table&)> on_change_;
};

} // namespace informer::testing::detail
