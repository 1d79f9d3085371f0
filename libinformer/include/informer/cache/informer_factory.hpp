// Shared informers: one copy per kind.
#pragma once

#include <informer/cache/shared_informer.hpp>

#include <functional>
#include <memory>
#include <string>

namespace informer {

/// Makes the `list_watch` for a resource and namespace ("" = all); `kubernetes::client` gives one.
using list_watch_factory = std::function<std::shared_ptr<list_watch>(const api_resource&, std::string name_space)>;

/// A reference on a shared informer. The last release stops its watch and frees its memory (what listers and snapshots
/// hold of the cache stays readable). So keep it for as long as something shall be told or read anew: a subscription, or a copy of
/// the `shared_informer`, does not hold it, and ends with it. A handle that is not kept cannot be used.
///
/// *Thread safety*: handles may be copied and released on any thread, also after the factory and its executor are gone.
class informer_handle {
public:
    class entry;
    informer_handle() = default;
    explicit informer_handle(std::shared_ptr<entry> e) noexcept : entry_(std::move(e)) {}
    explicit operator bool() const noexcept { return entry_ != nullptr; }
    shared_informer& operator*() const& noexcept;
    shared_informer* operator->() const& noexcept;
    // a temporary one would stop the informer at the end of the statement
    shared_informer& operator*() const&& = delete;
    shared_informer* operator->() const&& = delete;
    void release() noexcept { entry_.reset(); }

private:
    std::shared_ptr<entry> entry_;
};

/// Hands out shared informers. Identity: resource, namespace, selectors, part, projection, metadata only or not (and managedFields kept or not); equal
/// requests share one informer; a request for one namespace reuses a live informer of all namespaces with otherwise
/// equal options (its `lister()` must then be narrowed by `in(ns)`: `get()` returns a handle whose `lister()` is).
///
/// One that has not synced and may not be read (403) is not reused for a namespace, which perhaps may be. That is known only once it
/// was tried: who is allowed to read nothing but some namespaces should not ask for all of them first.
///
/// Subscriptions and handlers of a reused wider informer are told of all its namespaces: look at `event::key()`. A request
/// with a `transform` is never shared, because functions cannot be compared.
///
/// Who shares an informer observes it with `observe()`: `on_error` and its like would take the place of what others set.
///
/// *Thread safety*: none; use it on the runtime's executor. *Executor*: the runtime's. *Lifetime*: `co_await shutdown()` before the
/// executor goes; informers are stopped and joined. Nothing starts by itself: `get()` starts the informer it returns, a read never
/// does: `lister(resource)` of what is not cached throws `error(errc::not_cached)` that says so.
class informer_factory {
public:
    /// Throws `error(errc::bad_configuration)` where there is no `make`.
    informer_factory(runtime r, list_watch_factory make);
    ~informer_factory();
    informer_factory(const informer_factory&) = delete;
    informer_factory& operator=(const informer_factory&) = delete;

    /// The shared informer, started. Throws `error(errc::stopped)` after `shutdown()`. Options that are no part of the identity
    /// (name, page size, back-off …) of the first win; indexes are added, but of two functions under one name the first stays
    /// (functions cannot be compared). To one that is full already they are added as by `shared_informer::add_index`: `synced()`,
    /// or `co_await h->index_ready(…)`, before reading them. Throws what the constructor of `shared_informer` does, and what `make`
    /// does.
    [[nodiscard]] informer_handle get(const api_resource& resource, std::string name_space = {},
                                      informer_options options = informer_options());
    /// Of a live informer without selectors, of this namespace or of all; of one with a projection or a transform, or that may not be
    /// read, only where no other has the whole objects. Where there is none the error says what is cached: other namespaces, a
    /// selection or a part, or metadata only, which the handle of that alone reads.
    informer::lister lister(const api_resource& resource, std::string name_space = {}) const;
    /// Waits for every informer started so far that is still held, and for the indexes that were asked for with it; throws with the
    /// names of those that failed and their last errors. One that ended before it had synced, be it that somebody stopped it or by
    /// an exception of its own (no memory), has failed; after `shutdown()` all have: `error(errc::stopped)`.
    asio::awaitable<void> synced(clock::duration at_most);
    std::vector<informer_status> status() const;
    /// `shared_informer::retry_now` for each: for who knows that the server is there again.
    void retry_now();
    /// Stops all informers, when it is called and not only when it is awaited, and waits until their coroutines are gone. Idempotent.
    /// *Cancellation*: none, it waits to the end; but a coroutine that may itself have been cancelled must say
    /// `co_await asio::this_coro::throw_if_cancelled(false);` before, or it does not wait at all: see `task_group::join`.
    asio::awaitable<void> shutdown();

private:
    struct impl;
    std::shared_ptr<impl> impl_;
};

} // namespace informer
