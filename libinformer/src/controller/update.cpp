#include <informer/controller/update.hpp>

#include <informer/detail/async.hpp>
#include <informer/detail/split_mix.hpp>
#include <informer/object/json.hpp>

#include "kubernetes/json_tools.hpp"

#include <boost/asio/this_coro.hpp>
#include <boost/json.hpp>

#include <random>
#include <utility>

namespace informer {

namespace json = boost::json;

namespace {

/// Waits before the next attempt. False: the wait was cancelled.
asio::awaitable<bool> pause(runtime rt, conflict_retry how) {
    detail::split_mix random(rt.draw_seed());
    const double share = std::uniform_real_distribution<double>(0.0, 0.1)(random);
    const bool slept = co_await rt.clock().sleep_for(detail::stretched(how.delay_, share));
    co_return slept;
}

/// A change may build the object anew. Without a version that would replace whatever is there by then.
failure put_version_read(json::value& o, const object& read) {
    const object_key key = kubernetes::detail::key_of(o);
    if (key.name.empty() || key != read.key())
        return failure(errc::bad_configuration, "what the change made is not named as the object that was read");
    if (const auto version = read.resource_version(); !version.empty())
        o.get_object()["metadata"].get_object()["resourceVersion"] = version.str();
    return failure();
}

asio::awaitable<object> update_loop(runtime rt, kubernetes::client c, api_resource resource, object_key key,
                                    object_change change, kubernetes::write_options options,
                                    failure& f) { // lint: law2 the caller keeps it
    if (!change) {
        f = failure(errc::bad_configuration,
                    "update " + resource.group_resource() + " " + key.str() + ": no function that changes it");
        co_return object();
    }
    const conflict_retry how;
    // The status is part of the whole object, and a client may be allowed to read that but not the status subresource.
    // Other subresources are objects of another kind.
    kubernetes::get_options read;
    if (options.subresource_ != "status") read.subresource(options.subresource_);
    for (unsigned made = 1;; ++made) {
        object current = co_await c.get(resource, key, read, f);
        if (f) co_return object();
        json::value wanted = to_value(current);
        if (!change(wanted)) co_return current;
        f = put_version_read(wanted, current);
        if (f) f = f.within("update " + resource.group_resource() + " " + key.str());
        if (f) co_return object();
        object stored = co_await c.update(resource, std::move(wanted), options, f);
        if (!(f == errc::conflict)) co_return stored;
        if (made >= how.attempts_) co_return object();
        const bool slept = co_await pause(rt, how);
        if (slept) continue;
        f = failure(errc::cancelled, "update " + resource.group_resource() + " " + key.str() + ": wait to try again");
        co_return object();
    }
}

asio::awaitable<object> throwing_update(runtime rt, kubernetes::client c, api_resource resource, object_key key,
                                        object_change change, kubernetes::write_options options) {
    failure f;
    object stored = co_await update_loop(std::move(rt), std::move(c), std::move(resource), std::move(key),
                                         std::move(change), std::move(options), f);
    throw_on(f);
    co_return stored;
}

asio::awaitable<object> status_patch(kubernetes::client c, api_resource resource, object current, json::value wanted,
                                     kubernetes::write_options options, failure& f) { // lint: law2 the caller keeps it
    f = failure();
    if (!wanted.is_object()) {
        f = failure(errc::bad_configuration, "status of " + resource.group_resource() + " " + current.key().str() +
                                                 ": what is wanted is no object");
        co_return object();
    }
    const value now = current["status"];
    const json::value had = now.exists() ? to_value(now) : json::value(json::object());
    json::value difference = make_merge_patch(had, wanted);
    if (difference.is_object() && difference.get_object().empty()) co_return current;
    json::object patch;
    patch["status"] = std::move(difference);
    const object_key key = current.key();
    options.subresource("status");
    object stored = co_await c.patch(resource, key, kubernetes::patch_type::merge, std::move(patch), options, f);
    co_return stored;
}

asio::awaitable<object> status_read_back(kubernetes::client c, api_resource resource, object current,
                                         json::value wanted, informer_handle cache, kubernetes::write_options options,
                                         failure& f) { // lint: law2 the caller keeps it
    const std::string doing = "status of " + resource.group_resource() + " " + current.key().str();
    if (!cache || cache->resource().group_resource() != resource.group_resource()) {
        f = failure(errc::bad_configuration, doing + ": no cache of that to read it back from");
        co_return object();
    }
    if (!cache->has_synced()) { // `current` is from another cache, which nobody would wait for
        f = failure(errc::bad_configuration,
                    doing + ": this cache has nothing yet: give the one that the object was read from, of the same "
                            "namespace and options");
        co_return object();
    }
    object stored = co_await status_patch(std::move(c), std::move(resource), std::move(current), std::move(wanted),
                                          std::move(options), f);
    if (f) co_return object();
    try {
        co_await cache->wait_until(stored.resource_version(), read_back_limit);
    } catch (const error& e) {
        f = e.failure().within(doing + ": written, but not read back");
    }
    co_return stored;
}

asio::awaitable<object> throwing_read_back(kubernetes::client c, api_resource resource, object current,
                                           json::value wanted, informer_handle cache,
                                           kubernetes::write_options options) {
    failure f;
    object stored = co_await status_read_back(std::move(c), std::move(resource), std::move(current), std::move(wanted),
                                              std::move(cache), std::move(options), f);
    throw_on(f);
    co_return stored;
}

asio::awaitable<object> throwing_status_patch(kubernetes::client c, api_resource resource, object current,
                                              json::value wanted, kubernetes::write_options options) {
    failure f;
    object stored = co_await status_patch(std::move(c), std::move(resource), std::move(current), std::move(wanted),
                                          std::move(options), f);
    throw_on(f);
    co_return stored;
}

asio::awaitable<void> attempts(runtime rt, std::function<asio::awaitable<void>()> attempt, conflict_retry how) {
    if (!attempt) throw error(errc::bad_configuration, "retry on conflict: no attempt");
    for (unsigned made = 1;; ++made) {
        std::exception_ptr conflict;
        try {
            auto working = attempt();
            co_await std::move(working);
        } catch (const error& e) {
            if (!(e.failure() == errc::conflict)) throw;
            conflict = std::current_exception();
        }
        if (!conflict) co_return;
        if (made >= how.attempts_) std::rethrow_exception(conflict);
        const bool slept = co_await pause(rt, how);
        if (!slept) throw error(errc::cancelled, "try again after a conflict");
    }
}

} // namespace

asio::awaitable<void> retry_on_conflict(runtime rt, std::function<asio::awaitable<void>()> attempt,
                                        conflict_retry how) {
    return attempts(std::move(rt), std::move(attempt), how);
}

asio::awaitable<object> update_with_retry(runtime rt, kubernetes::client c, api_resource resource, object_key key,
                                          object_change change, kubernetes::write_options options, failure& f) {
    return update_loop(std::move(rt), std::move(c), std::move(resource), std::move(key), std::move(change),
                       std::move(options), f);
}

asio::awaitable<object> update_with_retry(runtime rt, kubernetes::client c, api_resource resource, object_key key,
                                          object_change change, kubernetes::write_options options) {
    return throwing_update(std::move(rt), std::move(c), std::move(resource), std::move(key), std::move(change),
                           std::move(options));
}

asio::awaitable<object> patch_status(kubernetes::client c, api_resource resource, object current, json::value wanted,
                                     kubernetes::write_options options, failure& f) {
    return status_patch(std::move(c), std::move(resource), std::move(current), std::move(wanted), std::move(options),
                        f);
}

asio::awaitable<object> patch_status(kubernetes::client c, api_resource resource, object current, json::value wanted,
                                     kubernetes::write_options options) {
    return throwing_status_patch(std::move(c), std::move(resource), std::move(current), std::move(wanted),
                                 std::move(options));
}

asio::awaitable<object> patch_status(kubernetes::client c, api_resource resource, object current, json::value wanted,
                                     informer_handle cache, kubernetes::write_options options, failure& f) {
    return status_read_back(std::move(c), std::move(resource), std::move(current), std::move(wanted), std::move(cache),
                            std::move(options), f);
}

asio::awaitable<object> patch_status(kubernetes::client c, api_resource resource, object current, json::value wanted,
                                     informer_handle cache, kubernetes::write_options options) {
    return throwing_read_back(std::move(c), std::move(resource), std::move(current), std::move(wanted),
                              std::move(cache), std::move(options));
}

} // namespace informer
