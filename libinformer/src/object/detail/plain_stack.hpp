// A stack of small things that nobody has to destroy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace informer::detail {

/// Room is made before by `need`: `push` cannot fail, and is a store or two, where a vector checks its capacity again.
template <class T>
class plain_stack {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

public:
    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    std::size_t capacity() const noexcept { return capacity_; }
    T& back() noexcept { return data_[size_ - 1]; }
    T* begin() noexcept { return data_.get(); }
    T* end() noexcept { return data_.get() + size_; }
    const T* begin() const noexcept { return data_.get(); }
    const T* end() const noexcept { return data_.get() + size_; }

    /// Throws std::bad_alloc.
    void need(std::size_t n) {
        if (capacity_ - size_ < n) [[unlikely]]
            grow(n);
    }
    /// Makes the element in its place: a copy would wait until each of its parts is written.
    template <class... Parts>
    T& push(Parts... parts) noexcept {
        return *::new (&data_[size_++]) T{parts...};
    }
    T pop() noexcept { return data_[--size_]; }
    void resize_down(std::size_t n) noexcept { size_ = n; }
    void clear() noexcept { size_ = 0; }

private:
    void grow(std::size_t n) {
        const std::size_t capacity = std::max(size_ + n, 2 * capacity_ + 16);
        auto bigger = std::make_unique_for_overwrite<T[]>(capacity);
        std::copy_n(data_.get(), size_, bigger.get());
        data_ = std::move(bigger);
        capacity_ = capacity;
    }

    std::unique_ptr<T[]> data_;
    std::size_t size_ = 0, capacity_ = 0;
};

} // namespace informer::detail
