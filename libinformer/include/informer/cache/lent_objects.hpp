// What a read of the cache finds.
#pragma once

#include <informer/object/object.hpp>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace informer {

/// Objects lent by a snapshot: an array of handles that are not counted one by one. The list holds the snapshot
/// instead: one count, where 10,000 objects would take 10,000, each in memory of its own.
///
/// Reads like a `const std::vector<object>`, and converts to a `std::vector<object>` of counted handles.
/// *Thread safety*: like a container: any thread may read one list. *Lifetime*: the objects, and views of them, are
/// valid while the list or a snapshot of that state is held; a copy of an object lives on its own. A list that is kept
/// for long keeps the whole state that it was read from: keep copies of the few objects that matter. *Complexity*:
/// adding an object stores a pointer; copying a list is O(size) and touches no object; dropping it is O(1) unless it is
/// the last to hold the state.
class lent_objects {
public:
    using value_type = object;
    using const_iterator = const object*;
    using iterator = const_iterator;
    using size_type = std::size_t;

    lent_objects() noexcept = default;
    /// Empty; `holder` keeps what will be added.
    explicit lent_objects(std::shared_ptr<const void> holder) noexcept : holder_(std::move(holder)) {}
    lent_objects(const lent_objects& o) : holder_(o.holder_) {
        reserve(o.size_);
        for (const object& x : o) add(x);
    }
    lent_objects(lent_objects&& o) noexcept { swap(o); }
    lent_objects& operator=(lent_objects o) noexcept {
        swap(o);
        return *this;
    }
    ~lent_objects() {
        if (first_) std::allocator<object>().deallocate(first_, capacity_); // they hold no count to give back
    }
    void swap(lent_objects& o) noexcept {
        holder_.swap(o.holder_);
        std::swap(first_, o.first_);
        std::swap(size_, o.size_);
        std::swap(capacity_, o.capacity_);
    }

    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    const object& operator[](std::size_t i) const& noexcept { return first_[i]; }
    const object& front() const& noexcept { return *first_; }
    const object& back() const& noexcept { return first_[size_ - 1]; }
    /// On a temporary list: a handle of its own.
    object operator[](std::size_t i) const&& noexcept { return first_[i]; }
    object front() const&& noexcept { return *first_; }
    object back() const&& noexcept { return first_[size_ - 1]; }
    const_iterator begin() const noexcept { return first_; }
    const_iterator end() const noexcept { return first_ + size_; }

    /// Handles that live on their own.
    operator std::vector<object>() const { return {begin(), end()}; }

    void reserve(std::size_t n) {
        if (n <= capacity_) return;
        object* const larger = std::allocator<object>().allocate(n);
        for (std::size_t i = 0; i < size_; ++i) std::construct_at(larger + i, first_[i].root());
        if (first_) std::allocator<object>().deallocate(first_, capacity_);
        first_ = larger;
        capacity_ = n;
    }
    /// Adds an object that the holder keeps.
    void add(const object& o) {
        if (size_ == capacity_) reserve(size_ < 8 ? 16 : size_ * 2);
        std::construct_at(first_ + size_, o.root()); // adopts a count that is not its own, and is never destroyed
        ++size_;
    }
    /// Removes the objects for which `f` is true; returns how many.
    template <class F>
    friend std::size_t erase_if(lent_objects& l, F f) {
        const std::size_t before = std::exchange(l.size_, 0);
        for (std::size_t i = 0; i < before; ++i) {
            detail::root* const r = l.first_[i].root();
            if (!f(std::as_const(l.first_[i]))) std::construct_at(l.first_ + l.size_++, r);
        }
        return before - l.size_;
    }

private:
    std::shared_ptr<const void> holder_;
    object* first_ = nullptr;
    std::size_t size_ = 0, capacity_ = 0;
};

} // namespace informer
