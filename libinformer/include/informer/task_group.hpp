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

/// Owns coroutines. Every `co_spawn` of the library goes through one (toolchain law 3): the completion is bound to the
/// child's executor, so that cancellation is emitted there.
///
/// *Thread safety*: none; use it on its executor. *Lifetime*: the destructor asks the children to stop but cannot wait:
/// `co_await join()` before. State is shared with the children, so destroying early is safe: `on_error` goes with the group, and how
/// children end after that nobody is told. But like every Asio object it must not outlive its execution context.
/// *Errors*: an exception that leaves a child is given to `on_error` (default: rethrown by `join()`); the cancellation of
/// a child that was told to stop is none.
class task_group {
public:
    explicit task_group(asio::any_io_executor executor);
    task_group(const task_group&) = delete;
    task_group& operator=(const task_group&) = delete;
    ~task_group();

    /// Starts a child on the group's executor (by post, never inline). After `stop()` the child is dropped unstarted.
    void spawn(asio::awaitable<void> child);
    /// Calls `make` there and keeps it until the coroutine that it gave has ended: a lambda coroutine may use its captures. (Those of
    /// `group.spawn([x]() -> asio::awaitable<void> { … }())` are gone when it begins.)
    template <class F>
    requires std::is_invocable_r_v<asio::awaitable<void>, F&> void spawn(F make) { spawn(call(std::move(make))); }
    /// As above, for a child that must run on another executor.
    void spawn_on(asio::any_io_executor executor, asio::awaitable<void> child);
    /// Called on the group's executor for each exception that leaves a child, instead of keeping the first for `join()`.
    void on_error(std::function<void(std::exception_ptr)> handler);
    /// Emits terminal cancellation to all children. Idempotent.
    void stop();
    bool stopped() const noexcept;
    std::size_t size() const noexcept;
    /// Waits until no child is left. Not cancellable by design: children are told to stop first. Rethrows the first
    /// exception of a child, once.
    ///
    /// A coroutine that may itself have been cancelled must say `co_await asio::this_coro::throw_if_cancelled(false);`
    /// before `co_await group.join()`: otherwise Asio throws at that `co_await`, before we are asked, and the children
    /// would outlive what they refer to.
    ///
    /// So it is with every coroutine of the library: what its header says of cancellation holds once it has begun. Who was cancelled before
    /// comes no further than the `co_await`, which throws a `boost::system::system_error` (`operation_aborted`; to be told by
    /// `condition::cancelled`, as our own `errc::cancelled` is), unless it has said the same. Ends must not be left out like that
    /// (`informer_factory::shutdown`, `http::server::stop`, `work_queue::drain`): they begin when they are called, but to wait
    /// for them takes that sentence.
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
