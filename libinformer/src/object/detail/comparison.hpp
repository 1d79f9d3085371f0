// The deep equality of two documents of one generation, in steps.
#pragma once

#include "reading.hpp"

#include <cstdint>
#include <vector>

namespace informer::detail {

/// As `operator==` of values; does not look into two values of one handle. The compared nodes must live until the end.
class comparison {
public:
    void start(const generation& g, handle a, handle b);
    /// Goes on, over about `budget` members. True when the answer is known.
    bool step(std::size_t budget);
    bool equal() const noexcept { return equal_; }

private:
    struct place {
        children a, b;
        member_finder in_b;
        std::uint32_t at;
    };
    void visit(handle a, handle b);

    const generation* generation_ = nullptr;
    std::vector<place> open_;
    bool equal_ = true;
};

} // namespace informer::detail
