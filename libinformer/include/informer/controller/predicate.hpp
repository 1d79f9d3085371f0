// Which events matter. They look at the old and the new object and remember nothing.
#pragma once

#include <informer/cache/event.hpp>
#include <informer/object/selector.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace informer {

/// A condition on an event; `&&`, `||` and `!` combine them. One that throws counts as an error of its controller and the
/// event is let through: work too much rather than too little.
///
/// *Thread safety*: as its function; those below are pure.
class predicate {
public:
    using function = std::function<bool(const event&)>;
    /// Everything.
    predicate() = default;
    predicate(function f) : function_(std::move(f)) {} // NOLINT(google-explicit-constructor): a lambda is a predicate
    bool operator()(const event& e) const { return !function_ || function_(e); }

    friend predicate operator&&(predicate a, predicate b);
    friend predicate operator||(predicate a, predicate b);
    friend predicate operator!(predicate p);

private:
    function function_;
};

/// The usual ones. Those named "changed" are about updates and let additions and deletions through. A controller shows them each
/// change by itself. Other subscriptions that fell behind merge updates: then "old" is what was told before.
namespace predicates {

/// `metadata.generation` differs: the spec changed, or deletion began. Status updates do not count. Not for kinds whose
/// server keeps no generation (ConfigMaps, Secrets, Events …): none of their updates pass.
/// Nor do your own writes of the status: a reconcile that comes before the cache has them compares with what was before, and no event
/// puts that right. Wait for them: `patch_status` with the cache, `shared_informer::wait_until`. So with `labels_changed` and its like.
predicate generation_changed();
/// Drops the repetitions of a resync.
predicate resource_version_changed();
predicate labels_changed();
predicate annotations_changed();
predicate finalizers_changed();
/// The selector matches the new object or, in an update, the old one: an object that leaves the selection is told, once.
predicate matches(label_selector selector);
predicate in_namespaces(std::vector<std::string> names);

} // namespace predicates
} // namespace informer
