// Shared informers: one copy per kind.
#pragma once

#include <informer/cache/shared_informer.hpp>
#include <informer/source/list_watch.hpp>

#include <memory>
#include <string>

namespace informer {

/// A counted reference to a shared informer. Releasing the last one stops the informer's watch and frees its memory
/// (what listers and snapshots hold of the cache stays readable). Keep a handle for as long as you want events or fresh
/// reads: a subscription, or a copy of the `shared_informer`, does not keep the informer running, and ends with it. A
/// temporary handle cannot be used.
///
/// *Thread safety*: handles may be copied and released on any thread, even after the factory and its executor are gone.
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

/// Hands out shared informers. An informer's identity is its resource, namespace, selectors, part, projection, whether
/// it is metadata only, and whether managedFields are kept. Equal requests share one informer. A request for one
/// namespace reuses a live informer of all namespaces with otherwise equal options. What the handle that `get()` returns
/// delivers and reads is of its namespace all the same: its `lister()`, `get(key)`, subscriptions and handlers. Only
/// `snapshot()`, `until`, `wait_until` and `status()` are those of the whole informer.
///
/// An informer of all namespaces that has not synced and may not be read (403) is not reused for one namespace, which
/// perhaps may be read. That is known only after it was tried: a client that may read only some namespaces should not
/// ask for all of them first.
///
/// A request with a `transform` is never shared, because functions cannot be compared.
///
/// Observe a shared informer with `observe()`: `on_error` and its siblings would replace what others have set.
///
/// *Thread safety*: none; use it on the runtime's executor. *Executor*: the runtime's. *Lifetime*:
/// `co_await shutdown()` before the executor is destroyed; it stops and joins the informers. Nothing starts by itself:
/// `get()` starts the informer that it returns, and a read never starts one. If a resource is not cached,
/// `lister(resource)` throws an `error(errc::not_cached)` that says so.
class informer_factory {
public:
    /// `make` is `client.list_watches()`, for example. Throws `error(errc::bad_configuration)` if there is none.
    informer_factory(runtime r, list_watch_factory make);
    ~informer_factory();
    informer_factory(const informer_factory&) = delete;
    informer_factory& operator=(const informer_factory&) = delete;

    /// The shared informer, started. Throws `error(errc::stopped)` after `shutdown()`. Of options that are not part of
    /// the identity (name, page size, back-off …), those of the first request win. Indexes are added; of two functions
    /// under one name, the first stays (functions cannot be compared). If the informer is already filled, they are
    /// added as by `shared_informer::add_index`: await `synced()` or `h->index_ready(…)` before you read them. Also
    /// throws what the constructor of `shared_informer` and `make` throw.
    [[nodiscard]] informer_handle get(const api_resource& resource, std::string name_space = {},
                                      informer_options options = informer_options());
    /// A lister of a live informer without selectors, of this namespace or of all. An informer with a projection or a
    /// transform, or one that may not be read, is used only if no other has the whole objects. If there is none, the
    /// error says what is cached: other namespaces, or a selection, a part or metadata only, which only the handle of
    /// that informer reads.
    informer::lister lister(const api_resource& resource, std::string name_space = {}) const;
    /// Waits for every informer started so far that is still held, and for the indexes that were requested with it.
    /// Throws an error with the names of those that failed and their last errors. An informer that ended before it had
    /// synced, because it was stopped or by an exception of its own (no memory), has failed. After `shutdown()` all
    /// have: `error(errc::stopped)`.
    asio::awaitable<void> synced(clock::duration at_most);
    std::vector<informer_status> status() const;
    /// Calls `shared_informer::retry_now` for each: for a caller that knows that the server is back.
    void retry_now();
    /// Stops all informers when it is called, not only when it is awaited, and waits until their coroutines are gone.
    /// So it must be called on the runtime's executor: `co_spawn(executor, factory.shutdown(), …)` calls it where
    /// `co_spawn` is called. Idempotent. *Cancellation*: none, it waits to the end. But a coroutine that may itself
    /// have been cancelled must first `co_await asio::this_coro::throw_if_cancelled(false);`, or it does not wait at
    /// all: see `task_group::join`.
    asio::awaitable<void> shutdown();

private:
    struct impl;
    std::shared_ptr<impl> impl_;
};

} // namespace informer
