#include "detail/comparison.hpp"

#include <informer/object/value.hpp>

namespace informer::detail {

void comparison::start(const generation& g, handle a, handle b) {
    generation_ = &g;
    open_.clear();
    equal_ = true;
    visit(a, b);
}

void comparison::visit(handle a, handle b) {
    if (a == b) return;
    const children in_a = children_of(generation_, a), in_b = children_of(generation_, b);
    if (in_a.n == 0 || in_b.n == 0)
        equal_ = value(generation_, a) == value(generation_, b);
    else if (in_a.n != in_b.n || (in_a.keys == nullptr) != (in_b.keys == nullptr))
        equal_ = false;
    else
        open_.push_back({in_a, in_b, member_finder(generation_, in_b), 0});
}

bool comparison::step(std::size_t budget) {
    for (; equal_ && !open_.empty() && budget > 0; --budget) {
        place& p = open_.back();
        if (p.at == p.a.n) {
            open_.pop_back();
            continue;
        }
        const std::uint32_t i = p.at++;
        const std::uint32_t k = p.a.keys ? p.in_b.find(generation_, p.a.keys[i], i) : i;
        if (k == p.b.n)
            equal_ = false;
        else
            visit(p.a.values[i], p.b.values[k]);
    }
    return !equal_ || open_.empty();
}

} // namespace informer::detail
