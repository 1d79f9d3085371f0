// A subscription as its informer sees it: what is pushed, and what comes out as text.
#pragma once

#include "cache/subscription_state.hpp"
#include "pods.hpp"

#include <informer/cache/indexer.hpp>
#include <informer/cache/subscription.hpp>

#include <boost/asio/awaitable.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace informer::testing {

using state_ptr = std::shared_ptr<subscription::state>;

inline state_ptr make_state(subscription_options o = subscription_options()) {
    return std::make_shared<subscription::state>(std::move(o));
}

inline object pod(int version, std::string_view name = "a", std::string_view uid = "u") {
    return make_pod("ns", name, std::to_string(version), uid);
}
inline event added(object o, event_reason why = event_reason::watch) {
    return event(event_kind::added, o, object(), why);
}
inline event updated(object before, object o, event_reason why = event_reason::watch) {
    return event(event_kind::updated, o, before, why);
}
inline event deleted(object o, object before, event_reason why = event_reason::watch) {
    return event(event_kind::deleted, o, before, why);
}
inline event initial(object o) {
    event e = added(o, event_reason::snapshot);
    e.initial = true;
    return e;
}

// "ADDED a@1", "MODIFIED a@1>2", "DELETED a@2(1)": versions; in brackets the one delivered before.
inline std::string line(const event& e) {
    std::string s(to_string(e.kind));
    if (e.kind == event_kind::synced) return s + " " + e.version.str();
    s += " " + e.key().name + "@";
    const std::string before = e.previous ? e.previous.resource_version().str() : "";
    if (e.kind == event_kind::updated) s += before + ">";
    s += e.current.resource_version().str();
    if (e.kind == event_kind::deleted && !before.empty()) s += "(" + before + ")";
    return s;
}

using lines = std::vector<std::string>;

/// A subscription, and its state, which the informer has.
struct subscribed {
    explicit subscribed(subscription_options o = subscription_options())
        : state(make_state(std::move(o))), sub(state) {}
    state_ptr state;
    subscription sub;
};

inline cache_snapshot snapshot_of(int pods, indexer& cache) {
    for (int i = 0; i < pods; ++i) cache.put(pod(1, "p" + std::to_string(i)));
    cache.publish();
    return cache.snapshot();
}

/// A subscription that comes when the cache already has so many pods.
struct subscribed_late : subscribed {
    explicit subscribed_late(int pods, subscription_options o = subscription_options()) : subscribed(std::move(o)) {
        state->start(snapshot_of(pods, cache), resource_version("9"));
    }
    indexer cache;
};

// lint: law2 outlives the test
inline asio::awaitable<void> produce_with_room(state_ptr state, int events, int& pushed) {
    for (int i = 0; i < events; ++i) {
        if (state->over()) co_await state->room();
        state->push(added(pod(i, "p" + std::to_string(i))));
        ++pushed;
    }
}

} // namespace informer::testing
