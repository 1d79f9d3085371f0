#include "detail/pool_core.hpp"

#include "detail/reading.hpp"

#include <algorithm>
#include <cassert>

namespace informer::detail {

namespace {

constexpr std::uint64_t slab_size = 2048;

constinit root closed_mark; // on the retire list it means: the owner is gone

} // namespace

void retain(root* r) noexcept {
    count_up(r->count);
}

void release(root* r) noexcept {
    if (count_down(r->count)) r->generation->owner().retire(r);
}

pool_core::pool_core(pool_limits l, hash_seed s) : limits(l), seed(s) {
    begin_generation();
}

pool_core::~pool_core() = default;

void pool_core::begin_generation() {
    generations.reserve(generations.size() + 1);
    auto fresh = std::make_unique<generation>(*this, limits, seed, ++generations_made);
    if (!generations.empty()) {
        if (current().roots == 0)
            generations.pop_back();
        else
            current().seal();
    }
    free_roots = nullptr;
    abandoned.clear(); // an old generation is freed as a whole
    generations.push_back(std::move(fresh));
    shapes_known_until = ~std::uint64_t{0}; // `fresh` may lie where an old generation was
}

void pool_core::retire(root* r) noexcept {
    root* head = retired.load(std::memory_order_acquire);
    for (;;) {
        if (head == &closed_mark) return forget(r);
        r->next = head;
        if (retired.compare_exchange_weak(head, r, std::memory_order_release, std::memory_order_acquire)) return;
    }
}

root* pool_core::make_root(generation& g, handle document) {
    assert(&g == &current()); // `free_roots` and `key_at` are of this one
    if (!free_roots) {
        const std::uint64_t n = std::clamp<std::uint64_t>(g.slab_roots, 2, slab_size);
        g.slabs.reserve(g.slabs.size() + 1);
        g.slabs.push_back({std::make_unique<root[]>(n), n});
        g.slab_roots += n;
        for (std::uint64_t i = n; i-- > 0;) {
            root& one = g.slabs.back().roots[i];
            one.next = free_roots;
            free_roots = &one;
        }
    }
    root* r = free_roots;
    free_roots = r->next;
    r->count.store(1, std::memory_order_relaxed);
    r->document = document;
    r->generation = &g;
    r->key = key_of(g, document);
    ++g.roots;
    ++live_roots;
    return r;
}

root::key_handles pool_core::key_of(const generation& g, handle document) noexcept {
    if (shapes_known_until != g.shapes_died()) { // their handles may mean other shapes now
        metadata = member_reader("metadata");
        name_space = member_reader("namespace");
        name = member_reader("name");
        key_at = key_place();
        shapes_known_until = g.shapes_died();
    }
    if (!is_node(document)) return {};
    const std::uint32_t* const d = g.node(document);
    const bool usual = *d == key_at.document;
    if (!usual && !header_is_object(*d)) return {};
    const std::uint32_t at = usual ? key_at.metadata_at : metadata.place(&g, *d);
    if (at == 0 || !is_node(d[at])) return {};
    const std::uint32_t* const m = g.node(d[at]);
    if (!usual || *m != key_at.metadata) {
        if (!header_is_object(*m)) return {};
        key_at = {*d, *m, at, name_space.place(&g, *m), name.place(&g, *m)};
    }
    const auto member = [m](std::uint32_t word) { return word != 0 ? m[word] : missing_handle; };
    return {member(key_at.name_space_at), member(key_at.name_at)};
}

bool pool_core::drop_forwards(std::size_t& budget) noexcept {
    return std::all_of(generations.begin(), generations.end() - 1,
                       [&](const auto& g) { return g->drop_forwards(current(), budget); });
}

bool pool_core::collect(std::size_t budget) noexcept {
    for (;;) {
        if (!current().collect(budget)) return false;
        if (generations.size() > 1) {
            // An old generation is freed as a whole, without a look at its nodes.
            const auto unused =
                std::find_if(generations.begin(), generations.end() - 1, [](const auto& g) { return g->roots == 0; });
            if (unused != generations.end() - 1) {
                if (!(*unused)->dismantle(current(), budget)) return false;
                generations.erase(unused);
                continue;
            }
        }
        if (!abandoned.empty()) {
            handle_stack& from = abandoned.back();
            for (; from.size() > 0 && budget > 0; --budget) {
                const handle h = from.back();
                from.resize_down(from.size() - 1);
                current().release(h);
            }
            if (from.size() > 0) return false;
            abandoned.pop_back();
            continue;
        }
        if (!pending) {
            if (!retired.load(std::memory_order_relaxed)) return true;
            pending = retired.exchange(nullptr, std::memory_order_acquire);
        }
        if (budget == 0) return false;
        --budget;
        root* r = pending;
        pending = r->next;
        if (r == last) last = nullptr;
        generation* g = r->generation;
        count_off(*r);
        if (g != &current()) continue; // its roots are freed with it, or when it is trimmed
        g->release(r->document);
        r->next = free_roots;
        free_roots = r;
    }
}

bool pool_core::trim_old(std::size_t budget) noexcept {
    return std::all_of(generations.begin(), generations.end() - 1, [&](const auto& g) { return g->trim(budget); });
}

void pool_core::drop_free_roots() noexcept {
    generation& g = current();
    if (g.roots > 0 || g.slab_roots <= slab_size) return;
    free_roots = nullptr;
    g.slab_roots = 0;
    g.slabs.clear();
    g.slabs.shrink_to_fit();
}

void pool_core::close() noexcept {
    bool none_left = false;
    {
        const std::lock_guard lock(ending);
        current().seal(); // the handles that are left only read
        root* const taken = retired.exchange(&closed_mark, std::memory_order_acq_rel);
        for (root* list : {pending, taken})
            for (; list; list = list->next) count_off(*list);
        none_left = live_roots == 0;
        if (!none_left) keep_what_is_held();
    }
    if (none_left) delete this;
}

void pool_core::forget(root* r) noexcept {
    bool none_left = false;
    {
        const std::lock_guard lock(ending);
        count_off(*r);
        none_left = live_roots == 0;
        if (!none_left && live_roots == trimmed_next) keep_what_is_held();
    }
    if (none_left) delete this;
}

void pool_core::count_off(root& r) noexcept {
    --live_roots;
    --r.generation->roots;
    r.generation = nullptr;
}

void pool_core::keep_what_is_held() noexcept {
    std::erase_if(generations, [](const auto& g) { return g->roots == 0; });
    for (const auto& g : generations) g->trim_at_end();
    trimmed_next = live_roots / 8;
}

} // namespace informer::detail
