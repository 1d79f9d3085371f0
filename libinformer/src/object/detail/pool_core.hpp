// What outlives the pool's owner: roots and generations. The last one to go, the owner or a handle, frees them.
#pragma once

#include "generation.hpp"
#include "handle_stack.hpp"
#include "reading.hpp"
#include "root.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace informer::detail {

struct pool_core {
    pool_core(pool_limits limits, hash_seed seed);
    ~pool_core();
    pool_core(const pool_core&) = delete;
    pool_core& operator=(const pool_core&) = delete;

    // Any thread. The root's count reached zero; afterwards the caller may touch neither the root nor the core.
    void retire(root* r) noexcept;

    // The writer.
    root* make_root(generation& g, handle document); ///< takes over one count of the document
    root::key_handles key_of(const generation& g, handle document) noexcept;
    generation& current() noexcept { return *generations.back(); }
    void begin_generation();
    /// A decode in slices keeps its generation alive, as a root does.
    void hold(generation& g) noexcept {
        ++g.roots;
        ++g.holds;
    }
    void let_go(generation& g) noexcept {
        --g.roots;
        --g.holds;
    }
    /// Called after a move: drops what it noted in old generations, which would keep all that was moved alive as long
    /// as one of them lives.
    bool drop_forwards(std::size_t& budget) noexcept;
    /// Takes the retired roots and frees what they held; at most about `budget` nodes. True when nothing is left.
    bool collect(std::size_t budget) noexcept;
    /// True: `collect` has nothing to do.
    bool is_clean() const noexcept {
        return !retired.load(std::memory_order_relaxed) && !pending && abandoned.empty() && generations.size() == 1 &&
               generations.back()->is_clean();
    }
    /// Called when nothing is left to collect: gives back what the objects do not need that are kept of old generations.
    bool trim_old(std::size_t budget) noexcept;
    /// Gives the slabs of roots back if nobody holds a root of the current generation.
    void drop_free_roots() noexcept;
    /// The owner is destroyed: frees everything now but what handles hold, and leaves that to the last of them. The core
    /// may be gone afterwards.
    void close() noexcept;

    alignas(64) std::atomic<root*> retired{nullptr};

    alignas(64) pool_limits limits;
    hash_seed seed;
    std::vector<std::unique_ptr<generation>> generations; ///< the last one is current
    root* free_roots = nullptr;                           ///< in slabs of the current generation
    root* last = nullptr; ///< the document stored last, while it lives: the cursor of the next
    member_reader metadata{"metadata"}, name_space{"namespace"}, name{"name"}; ///< see `shapes_known_until`
    /// Where a document of these shapes has its key, by the readers: most have the shapes of the one before.
    struct key_place {
        handle document = missing_handle, metadata = missing_handle; ///< the shapes
        std::uint32_t metadata_at = 0, name_space_at = 0, name_at = 0;
    };
    key_place key_at;
    std::uint64_t shapes_known_until = 0; ///< these are valid while `shapes_died()` is this
    std::uint64_t generations_made = 0;
    root* pending = nullptr;             ///< taken from `retired`, not yet freed
    std::uint64_t live_roots = 0;        ///< made and not yet freed
    std::vector<handle_stack> abandoned; ///< handles of documents that were given up, in the current generation
    std::uint64_t work_bytes = 0;        ///< what unfinished documents held besides nodes after their last steps

private:
    // Once there is no owner, whoever drops a handle does what is left to do, under `ending`.
    void forget(root* r) noexcept; ///< the core may be gone afterwards
    void count_off(root& r) noexcept;
    /// Gives back what no object needs that is still held.
    void keep_what_is_held() noexcept;

    std::mutex ending;
    std::uint64_t trimmed_next = 0; ///< the number of roots at which this is worth it again
};

} // namespace informer::detail
