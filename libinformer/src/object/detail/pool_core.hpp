// What outlives the pool's owner: roots and generations. Freed by whoever comes last, the owner or the last handle.
#pragma once

#include "generation.hpp"
#include "handle_stack.hpp"
#include "reading.hpp"
#include "root.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace informer::detail {

struct pool_core {
    pool_core(pool_limits limits, hash_seed seed);
    ~pool_core();
    pool_core(const pool_core&) = delete;
    pool_core& operator=(const pool_core&) = delete;

    // Any thread. The root's count reached zero; afterwards neither it nor the core may be touched.
    void retire(root* r) noexcept;

    // The writer.
    root* make_root(generation& g, handle document); ///< takes over one count of the document
    generation& current() noexcept { return *generations.back(); }
    void begin_generation();
    /// A decode in slices keeps its generation, as a root does.
    void hold(generation& g) noexcept { ++g.roots; }
    void let_go(generation& g) noexcept { --g.roots; }
    /// A move is over: what it noted in old generations would keep all that was moved for as long as one of them lives.
    bool drop_forwards(std::size_t& budget) noexcept;
    /// Takes the retired roots and frees what they held; at most about `budget` nodes. True when nothing is left.
    bool collect(std::size_t budget) noexcept;
    /// Gives the slabs of roots back, when the current generation has none that anybody holds.
    void drop_free_roots() noexcept;
    /// The owner goes: frees everything now, or leaves it to the last handle. The core may be gone afterwards.
    void close() noexcept;

    alignas(64) std::atomic<root*> retired{nullptr};
    std::atomic<std::uint64_t> left{
        0}; ///< once closed: handles' roots still there, and one for the owner while closing

    alignas(64) pool_limits limits;
    hash_seed seed;
    std::vector<std::unique_ptr<generation>> generations; ///< the last one is current
    root* free_roots = nullptr;                           ///< in slabs of the current generation
    root* last = nullptr; ///< the document stored last, while it lives: the cursor of the next
    member_reader metadata{"metadata"}, name_space{"namespace"}, name{"name"}; ///< of `shapes_known_until`
    std::uint64_t shapes_known_until = 0;
    std::uint64_t generations_made = 0;
    root* pending = nullptr;             ///< taken from `retired`, not yet dealt with
    std::uint64_t live_roots = 0;        ///< made and not yet dealt with
    std::vector<handle_stack> abandoned; ///< of documents that were given up, in the current generation
    std::uint64_t work_bytes = 0;        ///< what documents on their way held besides nodes, after their last steps
};

} // namespace informer::detail
