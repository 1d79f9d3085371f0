// Sets of fields of an object, as metadata.managedFields has them in `fieldsV1`.
#pragma once

#include <boost/json/fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace informer::testing::detail {

/// A tree of path elements, each written as in fieldsV1: `f:spec`, `k:{"name":"web"}` (an item by its keys), `v:"x"`
/// (an item of a set). A node is a member of the set (`here`), or on the path to a member, or both.
class field_set {
public:
    bool here = false;

    bool empty() const noexcept { return !here && children_.empty(); }
    field_set& at(std::string_view element); ///< added if it is absent
    const field_set* find(std::string_view element) const;
    void drop(std::string_view element);

    void add(const field_set& other);
    void subtract(const field_set& other);
    field_set common_with(const field_set& other) const;
    friend bool operator==(const field_set& a, const field_set& b) = default;

    struct child;
    const std::vector<child>& children() const noexcept { return children_; }

    /// Paths in the set as the server writes them: `.spec.containers[name="web"].image`, `.metadata.finalizers[="x"]`.
    std::vector<std::string> paths() const;

    boost::json::object to_json() const;
    /// Leaves out what it cannot read.
    static field_set from_json(const boost::json::object& fields);

private:
    void add_paths(const std::string& before, std::vector<std::string>& to) const;
    std::vector<child> children_; ///< sorted
};

/// One path element as `paths` writes it.
std::string shown_element(const std::string& element);

struct field_set::child {
    std::string element;
    field_set set;
    friend bool operator==(const child& a, const child& b) = default;
};

} // namespace informer::testing::detail
