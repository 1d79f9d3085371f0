// Memory that grows without a long pause.
#pragma once

#include <cstddef>

namespace informer::detail {

/// A small block comes from the heap. From 1 MiB on it is mapped and grows by being remapped, whatever the heap would
/// do (glibc copies blocks of up to 32 MiB once one of this size was freed).
class growing_block {
public:
    growing_block() = default;
    growing_block(growing_block&& other) noexcept;
    growing_block& operator=(growing_block&& other) noexcept;
    ~growing_block();

    void* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    /// Keeps the content that fits; new bytes are indeterminate. If it throws std::bad_alloc, the block is unchanged.
    void resize(std::size_t size);

private:
    bool mapped() const noexcept { return size_ >= least_mapped; }
    static constexpr std::size_t least_mapped = 1024 * 1024;
    void* data_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace informer::detail
