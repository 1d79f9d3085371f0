// Copies documents from one generation into another.
#pragma once

#include "builder.hpp"
#include "generation.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace informer::detail {

/// Copies one document after the other. Between two steps others may use both generations, as long as both exist.
class copier {
public:
    /// From an older generation of the same pool: nodes that were shared there are shared again, interned ones are
    /// interned.
    void start_move(generation& to, generation& from, handle document) noexcept;
    /// From another pool, whose counts belong to its own writer: all nodes are interned.
    void start_copy(generation& to, const generation& from, handle document) noexcept;
    /// Goes on over about so many bytes. True: the document is complete, `take` it. After an exception call `abort`,
    /// `abandon` or `forget`.
    bool step(std::size_t bytes);
    /// The finished document; its count goes to the caller.
    handle take() noexcept;
    /// Gives back what was made.
    void abort() noexcept;
    /// As `abort`, but hands the stack with its counts to `to`, to be released later.
    void abandon(std::vector<handle_stack>& to) noexcept;
    /// As `abort`, but does not give the counts back: for a generation that goes as a whole.
    void forget() noexcept;
    std::uint64_t bytes() const noexcept {
        return std::uint64_t{done_.capacity()} * 4 + open_.capacity() * sizeof(place);
    }

private:
    struct place {
        handle old;
        const std::uint32_t* node;
        std::uint32_t size, at;
    };
    void visit(handle h);
    void spend(std::size_t bytes) noexcept { budget_ -= std::min(budget_, bytes); }
    void leaf(handle h, const std::uint32_t* n);
    void close(const place& p);
    handle shape(handle old);
    generation::interned make(handle old, std::uint32_t header, const void* data, std::size_t bytes);
    bool reuse(handle old);
    void remember(handle old, handle made, bool always = false);

    generation* to_ = nullptr;
    const generation* from_ = nullptr;
    generation* movable_ = nullptr; ///< `from_` in a move; null in a copy
    handle document_ = missing_handle;
    std::size_t budget_ = 0; ///< bytes left to the step
    handle_stack done_;
    std::vector<place> open_;
};

} // namespace informer::detail
