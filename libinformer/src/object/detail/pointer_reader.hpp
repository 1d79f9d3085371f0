// One JSON pointer, for many values.
#pragma once

#include <informer/object/value.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace informer::detail {

/// Finds what `value::at_pointer` finds, but reads the pointer only once, and looks for each member first where it
/// was found last: objects of one kind have their members mostly at the same places.
///
/// *Thread safety*: any number of threads at once.
class pointer_reader {
public:
    explicit pointer_reader(std::string_view pointer);
    /// A pointer given as its keys; none of them is an index.
    explicit pointer_reader(const std::vector<std::string>& keys);
    value operator()(value v) const noexcept;
    /// Whether the text was a JSON pointer. If not, this finds nothing.
    bool valid() const noexcept { return valid_; }

private:
    struct step {
        explicit step(std::string t) : token(std::move(t)) {}
        step(step&& o) noexcept : token(std::move(o.token)) {}
        std::string token;
        mutable std::atomic<std::uint32_t> place{0};
    };
    std::vector<step> steps_;
    bool valid_ = true;
};

} // namespace informer::detail
