// Copies documents from one generation into another.
#pragma once

#include "builder.hpp"
#include "generation.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace informer::detail {

/// One document after the other. Between two steps both generations may be used by others, as long as both are there.
class copier {
public:
    /// Out of an older generation of the same pool: what was shared there is shared again, what was interned is interned.
    void start_move(generation& to, generation& from, handle document) noexcept;
    /// Out of another pool, whose counts belong to somebody else: all is interned.
    void start_copy(generation& to, const generation& from, handle document) noexcept;
    /// Goes on over about so many bytes. True: the document is complete, `take` it. After an exception: one of those below.
    bool step(std::size_t bytes);
    /// Its count goes to the caller.
    handle take() noexcept;
    /// Gives back what was made.
    void abort() noexcept;
    /// The same, but the counts go to whoever has the time.
    void abandon(std::vector<handle_stack>& to) noexcept;
    /// The same where the counts are needed no more: the generation goes as a whole.
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
    generation* movable_ = nullptr; ///< `from_`, if it is ours
    handle document_ = missing_handle;
    std::size_t budget_ = 0; ///< bytes left to the step
    handle_stack done_;
    std::vector<place> open_;
};

} // namespace informer::detail
