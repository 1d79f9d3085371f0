// libinformer: structured concurrency: children that are cancelled and joined.
#pragma once

#include <informer/runtime.hpp>

#include <boost/asio/awaitable.hpp>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace informer {

/// Owns coroutines. Every `co_spawn` of the library goes through a group, which binds the completion to the child's
/// executor. Otherwise Asio would emit its cancellation on the caller's thread, while the child may be running.
///
/// *Thread safety*: none; use it on its executor. *Lifetime*: the destructor asks the children to stop but cannot wait
/// for them: `co_await join()` first. The children share its state, so early destruction is safe: `on_error` is
/// destroyed with the group, and nobody learns how the children end after that. Like every Asio object, the group must
/// not outlive its execution context. *Errors*: an exception that leaves a child is passed to `on_error` (default:
/// `join()` rethrows it). The cancellation of a child that was asked to stop does not count as one.
class task_group {
public:
    explicit task_group(asio::any_io_executor executor);
    task_group(const task_group&) = delete;
    task_group& operator=(const task_group&) = delete;
    ~task_group();

    /// Starts a child on the group's executor (by post, never inline). After `stop()` the child is dropped without
    /// being started.
    void spawn(asio::awaitable<void> child);
    /// Calls `make` there and keeps it until the coroutine that it returned has ended, so a lambda coroutine may use
    /// its captures. (The captures of `group.spawn([x]() -> asio::awaitable<void> { … }())` are gone when it begins.)
    template <class F>
    requires std::is_invocable_r_v<asio::awaitable<void>, F&> void spawn(F make) { spawn(call(std::move(make))); }
    /// As above, for a child that must run on another executor.
    void spawn_on(asio::any_io_executor executor, asio::awaitable<void> child);
    /// Called on the group's executor for each exception that leaves a child, instead of keeping the first for
    /// `join()`.
    void on_error(std::function<void(std::exception_ptr)> handler);
    /// Emits terminal cancellation to all children. Idempotent.
    void stop();
    bool stopped() const noexcept;
    std::size_t size() const noexcept;
    /// Waits until no child is left. Not cancellable by design: call `stop()` first to end the children. Rethrows the
    /// first exception of a child, once.
    ///
    /// A coroutine that may itself have been cancelled must `co_await asio::this_coro::throw_if_cancelled(false);`
    /// before `co_await group.join()`. Otherwise Asio throws at that `co_await`, before `join()` begins, and the
    /// children would outlive what they refer to.
    ///
    /// The same holds for every coroutine of the library: what its header says about cancellation holds once it has
    /// begun. A caller that was cancelled before gets no further than the `co_await`, unless it has awaited the same.
    /// The `co_await` throws a `boost::system::system_error` (`operation_aborted`, which equals `condition::cancelled`,
    /// as `errc::cancelled` does). A shutdown must not be skipped like that (`informer_factory::shutdown`,
    /// `http::server::stop`, `work_queue::drain`): these begin when they are called, but a cancelled coroutine needs
    /// that statement to wait for them.
    asio::awaitable<void> join();

private:
    template <class F>
    static asio::awaitable<void> call(F make) {
        asio::awaitable<void> child = make();
        co_await std::move(child);
    }

    struct state;
    std::shared_ptr<state> state_;
};

} // namespace informer
