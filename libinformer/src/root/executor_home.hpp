// An executor for as long as its execution context is there: what may outlive the context holds this, not the executor.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <memory>

namespace informer::detail {

namespace asio = boost::asio;

/// A strand must not outlive its context: its destructor takes a lock that the context owned. So a copy that somebody may keep
/// longer is found by the context when it is destroyed, and emptied.
///
/// *Thread safety*: `dispatch()`, `post()` and the destructor on any thread, also beside the destruction of the context; `executor()` not
/// beside that.
class executor_home {
public:
    explicit executor_home(asio::any_io_executor e);
    executor_home(const executor_home&) = delete;
    executor_home& operator=(const executor_home&) = delete;
    ~executor_home();

    /// Empty once the context is gone.
    const asio::any_io_executor& executor() const noexcept { return executor_; }
    /// Dispatches `f`; false, and nothing was done, where the context is gone or going.
    bool dispatch(std::function<void()> f);
    /// Posts it.
    bool post(std::function<void()> f);

private:
    class service;
    struct all;
    class visit;

    asio::any_io_executor executor_;
    std::shared_ptr<all> in_; ///< of its context
    executor_home *previous_ = nullptr, *next_ = nullptr;
};

} // namespace informer::detail
