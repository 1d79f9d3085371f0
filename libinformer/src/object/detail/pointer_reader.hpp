// One JSON pointer, for many values.
#pragma once

#include <informer/object/value.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace informer::detail {

/// What `value::at_pointer` gives, without reading the pointer each time, and each member looked for first where the last one
/// was found: objects of one kind have their members mostly at the same places.
///
/// *Thread safety*: any number of threads at once.
class pointer_reader {
public:
    explicit pointer_reader(std::string_view pointer);
    /// A pointer by its keys, none of them an index.
    explicit pointer_reader(const std::vector<std::string>& keys);
    value operator()(value v) const noexcept;
    /// Whether it was a JSON pointer; else it points at nothing.
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
