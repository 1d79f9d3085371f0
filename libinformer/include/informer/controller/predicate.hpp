// Predicates: which events matter. They look at the old and the new object and remember nothing.
#pragma once

#include <informer/cache/event.hpp>
#include <informer/object/selector.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace informer {

/// A condition on an event; `&&`, `||` and `!` combine them. If one throws, that counts as an error of its controller
/// and the event is let through: too much work is better than too little.
///
/// *Thread safety*: that of its function; the predicates below are pure.
class predicate {
public:
    using function = std::function<bool(const event&)>;
    /// Lets everything through.
    predicate() = default;
    predicate(function f) : function_(std::move(f)) {} // NOLINT(google-explicit-constructor): a lambda is a predicate
    bool operator()(const event& e) const { return !function_ || function_(e); }

    friend predicate operator&&(predicate a, predicate b);
    friend predicate operator||(predicate a, predicate b);
    friend predicate operator!(predicate p);

private:
    function function_;
};

/// The usual predicates. Those named "changed" test updates, and let additions and deletions through. A controller
/// shows them each change by itself. Other subscriptions merge updates when they fall behind: then "old" is the state
/// that was delivered before.
namespace predicates {

/// `metadata.generation` differs: the spec changed, or deletion began. Status updates do not count. Not for kinds whose
/// server keeps no generation (ConfigMaps, Secrets, Events …): none of their updates pass. Your own writes of the
/// status do not pass either: a reconcile that comes before the cache has them compares with the old state, and no
/// event puts that right. So wait for them: `patch_status` with the cache, `shared_informer::wait_until`. The same
/// holds for `labels_changed` and the like.
predicate generation_changed();
/// Drops the repetitions of a resync.
predicate resource_version_changed();
predicate labels_changed();
predicate annotations_changed();
predicate finalizers_changed();
/// The selector matches the new object or, in an update, the old one: an object that leaves the selection passes once.
predicate matches(label_selector selector);
predicate in_namespaces(std::vector<std::string> names);

} // namespace predicates
} // namespace informer
