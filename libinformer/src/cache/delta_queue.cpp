#include <informer/cache/delta_queue.hpp>
#include <informer/detail/async.hpp>

#include <algorithm>
#include <iterator>

namespace informer {

namespace {

constexpr std::size_t block = 1000; // what the consumer takes at once

} // namespace

delta_queue::delta_queue(asio::any_io_executor executor, std::size_t capacity)
    : capacity_(std::max<std::size_t>(capacity, 1)), filled_(std::make_unique<detail::async_event>(executor)),
      drained_(std::make_unique<detail::async_event>(executor)) {}

delta_queue::~delta_queue() = default;

bool delta_queue::push(delta d) {
    if (closed_) return false;
    if (last_.size() == block) {
        full_.push_back(std::move(last_));
        last_ = std::vector<delta>();
    }
    last_.push_back(std::move(d));
    peak_ = std::max(peak_, ++size_);
    if (size_ == 1) filled_->notify();
    return true;
}

asio::awaitable<bool> delta_queue::room() {
    while (!closed_ && size_ >= capacity_) {
        const bool drained = co_await drained_->wait();
        if (!drained) co_return false;
    }
    co_return !closed_;
}

asio::awaitable<std::vector<delta>> delta_queue::pop(std::size_t max) {
    max = std::max<std::size_t>(max, 1); // an empty result would mean that the queue is closed
    std::vector<delta> out;
    while (size_ == 0) {
        if (closed_) co_return out;
        const bool filled = co_await filled_->wait();
        if (!filled) co_return out;
    }
    const bool was_full = size_ >= capacity_;
    std::vector<delta>& first = full_.empty() ? last_ : full_.front();
    if (first.size() <= max) {
        out.swap(first);
        if (full_.empty())
            last_.reserve(out.size()); // the next slice is probably as long
        else
            full_.pop_front();
    } else {
        const auto end = first.begin() + static_cast<std::ptrdiff_t>(max);
        out.assign(std::make_move_iterator(first.begin()), std::make_move_iterator(end));
        first.erase(first.begin(), end);
    }
    size_ -= out.size();
    if (was_full && size_ < capacity_) drained_->notify();
    co_return out;
}

void delta_queue::close() {
    closed_ = true;
    filled_->notify();
    drained_->notify();
}

} // namespace informer
