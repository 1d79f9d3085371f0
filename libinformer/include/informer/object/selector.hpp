// Label and field selectors, as kubectl and the API write them.
#pragma once

#include <informer/error.hpp>
#include <informer/object/object.hpp>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace informer {

/// Finds the value of a label or field; nullopt when absent.
using selector_lookup = std::function<std::optional<std::string>(std::string_view key)>;

/// `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1,j<2` (apimachinery labels).
class label_selector {
public:
    enum class op { equals, not_equals, in, not_in, exists, not_exists, greater, less };
    struct requirement {
        std::string key;
        op operation = op::exists;
        std::vector<std::string> values;
        friend bool operator==(const requirement&, const requirement&) = default;
    };
    label_selector() = default; ///< everything
    /// Throws `error(errc::bad_selector)` with position; the overload with `failure&` reports in `f`, which is empty on
    /// success.
    static label_selector parse(std::string_view s);
    static label_selector parse(std::string_view s, failure& f);
    /// A LabelSelector in an object, such as `o["spec"]["selector"]` of a Deployment: matchLabels and matchExpressions.
    /// As in client-go, a missing or null one is `nothing()`, and an empty one (`{}`) is everything. Throws
    /// `error(errc::bad_selector)` for what the API would refuse, and for members that a LabelSelector does not have;
    /// the overload with `failure&` reports in `f`, and then returns `nothing()`.
    static label_selector from(const value& selector);
    static label_selector from(const value& selector, failure& f);
    /// A plain map, such as that of a Service, a ReplicationController or a nodeSelector: requires each of these
    /// labels. As in client-go, everything matches if it is empty or missing. A Service without a selector does not
    /// mean everything, so check for that first.
    static label_selector from_map(const value& labels);
    static label_selector from_map(const value& labels, failure& f);
    /// Matches no object. Its text matches none either when it is sent to a server; client-go's text is empty and
    /// matches all.
    static label_selector nothing();
    bool matches(const selector_lookup& lookup) const;
    bool matches(const object& o) const;
    /// The same for the value of `metadata.labels`; nothing is copied.
    bool matches_labels(const value& labels) const;
    bool everything() const noexcept { return requirements_.empty(); }
    const std::vector<requirement>& requirements() const noexcept { return requirements_; }
    std::string str() const; ///< canonical: sorted by key
    friend bool operator==(const label_selector&, const label_selector&) = default;

private:
    explicit label_selector(std::vector<requirement> all);
    std::vector<requirement> requirements_;
};

/// `a.b=c,d!=e,f==g` with `\` escapes (apimachinery fields). Paths are dotted: metadata.name, spec.nodeName.
class field_selector {
public:
    struct requirement {
        std::string path;
        bool equal = true;
        std::string value;
        friend bool operator==(const requirement&, const requirement&) = default;
    };
    field_selector() = default;
    static field_selector parse(std::string_view s);
    static field_selector parse(std::string_view s, failure& f);
    bool matches(const selector_lookup& lookup) const; ///< an absent field counts as ""
    /// Matches literally what the object says: an absent field is "", even where a server would put the default of its
    /// type (a server finds `spec.unschedulable=false` in a Node that does not say so).
    bool matches(const object& o) const;
    bool everything() const noexcept { return requirements_.empty(); }
    const std::vector<requirement>& requirements() const noexcept { return requirements_; }
    std::string str() const;
    friend bool operator==(const field_selector&, const field_selector&) = default;

private:
    std::vector<requirement> requirements_;
};

} // namespace informer
