// A finalizer that counts the calls of its work and its clean-up.
#pragma once

#include <informer/controller/finalizer.hpp>
#include <informer/controller/reconcile.hpp>

#include <boost/asio/awaitable.hpp>

#include <string>
#include <utility>
#include <vector>

namespace informer::testing {

/// A finalizer, and counts of what it called.
struct finalizing {
    finalizing(const kubernetes::client& c, api_resource r, std::string name)
        : mine(c, std::move(r), std::move(name)) {}
    finalizer mine;
    int applied = 0, cleaned = 0;
    object applied_to; ///< last
    reconcile_result cleanup_says;

    boost::asio::awaitable<reconcile_result> step(object current) {
        finalizer::work apply = [this](object o) -> boost::asio::awaitable<reconcile_result> {
            ++applied;
            applied_to = std::move(o);
            co_return reconcile_result::done();
        };
        finalizer::work cleanup = [this](object) -> boost::asio::awaitable<reconcile_result> {
            ++cleaned;
            co_return cleanup_says;
        };
        return mine.reconcile(std::move(current), std::move(apply), std::move(cleanup));
    }
};

inline std::vector<std::string> finalizers(const object& o) {
    std::vector<std::string> all;
    for (const value one : o.meta().finalizers()) all.push_back(one.string_or_empty().str());
    return all;
}

} // namespace informer::testing
