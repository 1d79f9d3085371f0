#include "detail/growing_block.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace informer::detail {

namespace {

void* checked(void* p) {
    if (p == nullptr || p == MAP_FAILED) throw std::bad_alloc();
    return p;
}

} // namespace

growing_block::growing_block(growing_block&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

growing_block& growing_block::operator=(growing_block&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

growing_block::~growing_block() {
    if (mapped())
        ::munmap(data_, size_);
    else
        std::free(data_);
}

void growing_block::resize(std::size_t size) {
    const bool map = size >= least_mapped;
    if (!map && !mapped()) {
        data_ = checked(std::realloc(data_, std::max<std::size_t>(size, 1)));
    } else if (map && mapped()) {
        data_ = checked(::mremap(data_, size_, size, MREMAP_MAYMOVE));
    } else {
        growing_block other;
        other.data_ = checked(map ? ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                  : std::malloc(std::max<std::size_t>(size, 1)));
        other.size_ = size;
        if (size_ != 0) std::memcpy(other.data_, data_, std::min(size, size_));
        *this = std::move(other);
    }
    size_ = size;
}

} // namespace informer::detail
