#include <informer/cache/delta_queue.hpp>
#include <informer/detail/async.hpp>

#include <algorithm>
#include <iterator>

namespace informer {

delta_queue::delta_queue(asio::any_io_executor executor, std::size_t capacity)
    : capacity_(std::max<std::size_t>(capacity, 1)), filled_(std::make_unique<detail::async_event>(executor)),
      drained_(std::make_unique<detail::async_event>(executor)) {}

delta_queue::~delta_queue() = default;

bool delta_queue::push(delta d) {
    if (closed_) return false;
    deltas_.push_back(std::move(d));
    peak_ = std::max(peak_, deltas_.size());
    if (deltas_.size() == 1) filled_->notify();
    return true;
}

asio::awaitable<bool> delta_queue::room() {
    while (!closed_ && deltas_.size() >= capacity_) {
        const bool drained = co_await drained_->wait();
        if (!drained) co_return false;
    }
    co_return !closed_;
}

asio::awaitable<std::vector<delta>> delta_queue::pop(std::size_t max) {
    max = std::max<std::size_t>(max, 1); // none would say that it is closed
    std::vector<delta> out;
    while (deltas_.empty()) {
        if (closed_) co_return out;
        const bool filled = co_await filled_->wait();
        if (!filled) co_return out;
    }
    const bool was_full = deltas_.size() >= capacity_;
    if (deltas_.size() <= max) {
        out.swap(deltas_);
        deltas_.reserve(out.size()); // the next slice is probably as long
    } else {
        const auto end = deltas_.begin() + static_cast<std::ptrdiff_t>(max);
        out.assign(std::make_move_iterator(deltas_.begin()), std::make_move_iterator(end));
        deltas_.erase(deltas_.begin(), end);
    }
    if (was_full && deltas_.size() < capacity_) drained_->notify();
    co_return out;
}

void delta_queue::close() {
    closed_ = true;
    filled_->notify();
    drained_->notify();
}

} // namespace informer
