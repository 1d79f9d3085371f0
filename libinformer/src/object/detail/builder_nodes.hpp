// How a builder makes the nodes of values and of containers. Inlined into the callers: a document has dozens of nodes,
// and a call for each takes a third as long as the rest.
#pragma once

#include "builder.hpp"

#include <cstddef>
#include <cstdint>

namespace informer::detail {

/// If `bytes` is a constant, the compiler can work out most of it.
[[gnu::always_inline]] inline generation::interned builder::make(path_id path, std::uint32_t header, const void* data,
                                                                 std::size_t bytes) {
    generation& g = *generation_;
    if (!policy_ && !begin_policy()) return g.intern(header, data, bytes);
    const std::uint64_t hash = g.hash(header, data, bytes);
    generation::interned made{policy_->seen(hash), generation::known};
    // The node may have left the document since, and be dead: a key came twice, or a part was read in vain.
    if (made.h && g.is_alive(made.h) && g.has_content(made.h, header, data, bytes)) {
        g.retain(made.h);
        return made;
    }
    interning_record& record = policy_->record(path);
    if (record.wanted(hash)) {
        made.h = g.find(hash, header, data, bytes);
        made.fresh = !made.h;
        record.looked_up(!made.fresh);
        if (made.fresh)
            made.h = g.make_interned(hash, header, data, bytes);
        else
            g.retain(made.h);
    } else {
        made = {g.make_plain(header, data, bytes), generation::fresh_and_plain};
    }
    policy_->remember(hash, made.h);
    return made;
}

/// A container can be found by its content, and is interned, only if all that it holds is interned.
[[gnu::always_inline]] inline generation::interned builder::make_container(path_id path, std::uint8_t fresh_child,
                                                                           std::uint32_t header, const handle* children,
                                                                           std::uint32_t n, bool remembered) {
    generation& g = *generation_;
    const std::size_t bytes = std::size_t{n} * 4;
    if (!policy_) {
        if (!fresh_child) return g.intern(header, children, bytes);
        return {g.make_interned(g.hash(header, children, bytes), header, children, bytes), generation::fresh};
    }
    bool plain = fresh_child == generation::fresh_and_plain;
    if (!plain) plain = fresh_child && header_is_object(header) && g.is_loose(header);
    if (!plain) {
        std::uint32_t interned = 0;
        while (interned < n && g.is_interned(children[interned])) ++interned;
        plain = interned < n;
    }
    // The containers that a document repeats are small.
    const bool may_repeat = n <= 8 && (remembered || !fresh_child);
    if (plain && !may_repeat) return {g.make_plain(header, children, bytes), generation::fresh_and_plain};
    const std::uint64_t repeat_hash = may_repeat ? g.quick_hash(header, children, n) : 0;
    generation::interned made{missing_handle, generation::fresh_and_plain};
    if (may_repeat && !fresh_child) {
        made.h = policy_->seen(repeat_hash);
        if (made.h && g.is_alive(made.h) && g.has_content(made.h, header, children, bytes)) {
            g.retain(made.h);
            return {made.h, generation::known};
        }
    }
    if (plain) {
        made.h = g.make_plain(header, children, bytes);
    } else {
        made = make_findable(path, fresh_child, header, children, n);
        if (!made.fresh) g.retain(made.h);
    }
    if (may_repeat) policy_->remember(repeat_hash, made.h);
    return made;
}

} // namespace informer::detail
