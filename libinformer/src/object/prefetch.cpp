#include <informer/object/prefetch.hpp>

#include "detail/generation.hpp"
#include "detail/node.hpp"

namespace informer {

void prefetch(const object& o) noexcept {
    if (o) __builtin_prefetch(o.root());
}

void prefetch(const value& v) noexcept {
    if (v && detail::is_node(v.handle())) __builtin_prefetch(v.generation()->node(v.handle()));
}

} // namespace informer
