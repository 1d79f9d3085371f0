// A stack of handles that own a count each.
#pragma once

#include "growing_block.hpp"
#include "node.hpp"

#include <cstdint>

namespace informer::detail {

/// `need` makes room before a count is taken, so that `push` cannot fail.
class handle_stack {
public:
    std::uint32_t size() const noexcept { return size_; }
    std::uint32_t capacity() const noexcept { return capacity_; }
    handle* at(std::uint32_t i) noexcept { return data_ + i; }
    const handle* at(std::uint32_t i) const noexcept { return data_ + i; }
    handle back() const noexcept { return data_[size_ - 1]; }
    void need(std::uint32_t n) {
        if (capacity_ - size_ < n) grow(n);
    }
    void push(handle h) noexcept { data_[size_++] = h; }
    void resize_down(std::uint32_t n) noexcept { size_ = n; }
    void forget_if_large() noexcept {
        if (capacity_ > 262'144) *this = handle_stack();
    }

private:
    void grow(std::uint32_t n);
    growing_block block_;
    handle* data_ = nullptr; ///< in `block_`
    std::uint32_t size_ = 0, capacity_ = 0;
};

} // namespace informer::detail
