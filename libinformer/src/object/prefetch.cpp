#include <informer/object/prefetch.hpp>

#include "detail/pool_core.hpp"
#include "detail/reading.hpp"

#include <algorithm>

namespace informer {

void prefetch(const object& o) noexcept {
    if (o) __builtin_prefetch(o.root());
}

void prefetch(const value& v) noexcept {
    const detail::handle h = v.handle();
    if (v.exists()) v.generation()->prefetch(&h, 1);
}

void prefetch_members(const object& o) noexcept {
    constexpr std::uint32_t most = 8; // objects of any kind hardly have more members
    if (!o) return;
    const detail::root& r = *o.root();
    const detail::generation& g = *r.generation;
    g.prefetch(&r.key.name_space, 1);
    g.prefetch(&r.key.name, 1);
    const detail::children c = detail::children_of(&g, r.document);
    g.prefetch(c.values, std::min(c.n, most));
}

} // namespace informer
