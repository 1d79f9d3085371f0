#include <informer/object/prefetch.hpp>

#include "detail/pool_core.hpp"
#include "detail/reading.hpp"

#include <algorithm>

namespace informer {

namespace {

void prefetch_node(const detail::generation& g, detail::handle h) noexcept {
    if (detail::is_node(h)) __builtin_prefetch(g.node(h));
}

} // namespace

void prefetch(const object& o) noexcept {
    if (o) __builtin_prefetch(o.root());
}

void prefetch(const value& v) noexcept {
    if (v) prefetch_node(*v.generation(), v.handle());
}

void prefetch_members(const object& o) noexcept {
    constexpr std::uint32_t most = 8; // of any kind there are hardly more
    if (!o) return;
    const detail::root& r = *o.root();
    const detail::generation& g = *r.generation;
    prefetch_node(g, r.key.name_space);
    prefetch_node(g, r.key.name);
    const detail::children c = detail::children_of(&g, r.document);
    for (std::uint32_t i = 0; i < std::min(c.n, most); ++i) prefetch_node(g, c.values[i]);
}

} // namespace informer
