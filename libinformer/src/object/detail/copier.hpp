// Copies documents from one generation into another.
#pragma once

#include "builder.hpp"
#include "generation.hpp"

#include <vector>

namespace informer::detail {

class copier {
public:
    /// Out of an older generation of the same pool: what was shared there is shared again, what was interned is interned.
    handle move(generation& to, generation& from, handle document);
    /// Out of another pool, whose counts belong to somebody else: all is interned.
    handle copy(generation& to, const generation& from, handle document);
    std::uint64_t bytes() const noexcept {
        return std::uint64_t{done_.capacity()} * 4 + open_.capacity() * sizeof(place);
    }

private:
    struct place {
        handle old;
        const std::uint32_t* node;
        std::uint32_t size, at;
    };
    handle run(handle document);
    void visit(handle h);
    void leaf(handle h, const std::uint32_t* n);
    void close(const place& p);
    handle shape(handle old);
    generation::interned make(handle old, std::uint32_t header, const void* data, std::size_t bytes);
    bool reuse(handle old);
    void remember(handle old, handle made, bool always = false);

    generation* to_ = nullptr;
    const generation* from_ = nullptr;
    generation* movable_ = nullptr; ///< `from_`, if it is ours
    handle_stack done_;
    std::vector<place> open_;
};

} // namespace informer::detail
