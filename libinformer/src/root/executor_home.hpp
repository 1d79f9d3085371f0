// An executor that becomes empty when its execution context ends: objects that may outlive the context hold this, not
// the executor.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <memory>

namespace informer::detail {

namespace asio = boost::asio;

/// A strand must not outlive its context: its destructor takes a lock that the context owned. So the context, when it
/// is destroyed, finds and empties every copy that may be kept longer.
///
/// *Thread safety*: `dispatch()`, `post()` and the destructor on any thread, also during the destruction of the
/// context; `executor()` not during it.
class executor_home {
public:
    explicit executor_home(asio::any_io_executor e);
    executor_home(const executor_home&) = delete;
    executor_home& operator=(const executor_home&) = delete;
    ~executor_home();

    /// Empty once the context is gone.
    const asio::any_io_executor& executor() const noexcept { return executor_; }
    /// Dispatches `f`. False if the context is gone or being destroyed; then nothing was done.
    bool dispatch(std::function<void()> f);
    /// The same by post.
    bool post(std::function<void()> f);

private:
    class service;
    struct all;
    class visit;

    asio::any_io_executor executor_;
    std::shared_ptr<all> in_; ///< of the context
    executor_home *previous_ = nullptr, *next_ = nullptr;
};

} // namespace informer::detail
