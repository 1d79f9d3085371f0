#include "hash.hpp"

#include <informer/detail/text_hash.hpp>

#include <atomic>
#include <random>

namespace informer::detail {

hash_seed hash_seed::random() noexcept {
    static const std::uint64_t secret = [] {
        std::random_device device;
        return std::uint64_t{device()} << 32 | device();
    }();
    static std::atomic<std::uint64_t> drawn{0};
    const std::uint64_t n = secret + drawn.fetch_add(1, std::memory_order_relaxed) * 0x9e3779b97f4a7c15ULL;
    hash_seed s;
    s.a = hash_mix(n ^ 0xe7037ed1a0b428dbULL, secret | 1);
    s.b = hash_mix(n + 0x8ebc6af09c88c6e3ULL, secret ^ 0x589965cc75374cc3ULL) | 1;
    return s;
}

std::uint64_t text_hash(std::string_view s) noexcept {
    static const hash_seed seed = hash_seed::random();
    return hash_bytes(seed, 0, s.data(), s.size());
}

} // namespace informer::detail
