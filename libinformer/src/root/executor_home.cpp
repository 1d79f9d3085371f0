#include "executor_home.hpp"

#include <boost/asio/dispatch.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>

#include <cstddef>
#include <mutex>
#include <thread>
#include <utility>

namespace informer::detail {

/// All homes of one context. Outlives the context if one of the homes does.
struct executor_home::all {
    std::mutex mutex;
    executor_home* first = nullptr;
    std::size_t visits = 0; ///< under way: the context's destruction waits for them
    bool gone = false;

    void add(executor_home& h) noexcept {
        h.next_ = first;
        if (first) first->previous_ = &h;
        first = &h;
    }
    void remove(executor_home& h) noexcept {
        (h.previous_ ? h.previous_->next_ : first) = h.next_;
        if (h.next_) h.next_->previous_ = h.previous_;
    }
    void shut_down() noexcept {
        std::unique_lock lock(mutex);
        gone = true;
        while (visits != 0) { // each visit is about to end: it only hands something to the executor
            lock.unlock();
            std::this_thread::yield();
            lock.lock();
        }
        for (executor_home* h = std::exchange(first, nullptr); h; h = h->next_) h->executor_ = asio::any_io_executor();
    }
};

class executor_home::service : public asio::execution_context::service {
public:
    using key_type = service;
    static inline asio::execution_context::id id;
    explicit service(asio::execution_context& c)
        : asio::execution_context::service(c), homes(std::make_shared<all>()) {}

    const std::shared_ptr<all> homes;

private:
    void shutdown() noexcept override { homes->shut_down(); }
};

/// While it lasts, the context is not destroyed.
class executor_home::visit {
public:
    explicit visit(all& a) : all_(a) {
        const std::lock_guard lock(a.mutex);
        entered_ = !a.gone;
        if (entered_) ++a.visits;
    }
    visit(const visit&) = delete;
    visit& operator=(const visit&) = delete;
    ~visit() {
        if (!entered_) return;
        const std::lock_guard lock(all_.mutex);
        --all_.visits;
    }
    explicit operator bool() const noexcept { return entered_; }

private:
    all& all_;
    bool entered_ = false;
};

executor_home::executor_home(asio::any_io_executor e) : executor_(std::move(e)) {
    if (!executor_) return;
    asio::execution_context& context = asio::query(executor_, asio::execution::context);
    in_ = asio::use_service<service>(context).homes;
    const std::lock_guard lock(in_->mutex);
    in_->add(*this);
}

executor_home::~executor_home() {
    if (!in_) return;
    // The executor is emptied under the lock, so that its context cannot be destroyed meanwhile.
    const std::lock_guard lock(in_->mutex);
    if (executor_) in_->remove(*this); // not emptied yet, though shut_down() may have begun and wait for a visit
    executor_ = asio::any_io_executor();
}

bool executor_home::dispatch(std::function<void()> f) {
    if (!in_) return false;
    const std::shared_ptr<all> keep = in_; // the called function may destroy this
    const visit there(*keep);
    if (there) asio::dispatch(executor_, std::move(f));
    return static_cast<bool>(there);
}

bool executor_home::post(std::function<void()> f) {
    if (!in_) return false;
    const std::shared_ptr<all> keep = in_;
    const visit there(*keep);
    if (there) asio::post(executor_, std::move(f));
    return static_cast<bool>(there);
}

} // namespace informer::detail
