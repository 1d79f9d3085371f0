#include "refusal.hpp"

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

using informer::testing::refusal;
using informer::testing::refusal_now;

constinit refusal informer::testing::refusal_now;

namespace {

bool refuses(bool mapped = false) noexcept {
    refusal& r = refusal_now;
    if (!r.on || (r.mapped_only && !mapped)) return false;
    if (r.before > 0) {
        --r.before;
        return false;
    }
    if (r.once && r.refused > 0) return false;
    ++r.refused;
    return true;
}

} // namespace

extern "C" {
void* __real_malloc(std::size_t size);
void* __real_realloc(void* p, std::size_t size);
void* __real_mmap(void* at, std::size_t size, int protection, int flags, int file, off_t offset);
void* __real_mremap(void* p, std::size_t size, std::size_t wanted, int flags);

void* __real_aligned_alloc(std::size_t alignment, std::size_t size);

void* __wrap_aligned_alloc(std::size_t alignment, std::size_t size) {
    return refusal_now.handlers && refuses() ? nullptr : __real_aligned_alloc(alignment, size);
}
void* __wrap_malloc(std::size_t size) {
    return refuses() ? nullptr : __real_malloc(size);
}
void* __wrap_realloc(void* p, std::size_t size) {
    return refuses() ? nullptr : __real_realloc(p, size);
}
void* __wrap_mmap(void* at, std::size_t size, int protection, int flags, int file, off_t offset) {
    return refuses(true) ? MAP_FAILED : __real_mmap(at, size, protection, flags, file, offset);
}
void* __wrap_mremap(void* p, std::size_t size, std::size_t wanted, int flags) {
    return refuses(true) ? MAP_FAILED : __real_mremap(p, size, wanted, flags);
}
}

namespace {

void* allocate(std::size_t size, std::size_t alignment) {
    void* const p =
        refuses() ? nullptr : __real_aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (!p) throw std::bad_alloc();
    return p;
}

} // namespace

void* operator new(std::size_t size) {
    return allocate(size, alignof(std::max_align_t));
}
void* operator new[](std::size_t size) {
    return allocate(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t a) {
    return allocate(size, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t size, std::align_val_t a) {
    return allocate(size, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept {
    std::free(p);
}
void operator delete[](void* p) noexcept {
    std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
    std::free(p);
}
void operator delete[](void* p, std::size_t) noexcept {
    std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
    std::free(p);
}
void operator delete[](void* p, std::align_val_t) noexcept {
    std::free(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
    std::free(p);
}
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
    std::free(p);
}
