// The stored form of a document out of its events: skips managedFields and what the projection leaves out, restores the type.
#pragma once

#include "builder.hpp"
#include "projection_trie.hpp"

#include <string_view>
#include <utility>
#include <vector>

namespace informer::detail {

class document_reader {
public:
    document_reader(const decode_options& options, const projection_trie& projection)
        : options_(options), projection_(projection), projecting_(!projection.empty()) {}

    /// `plain`: no skipping, no projection.
    void start(generation& g, handle previous, bool plain);
    handle finish() noexcept { return builder_.finish(); }
    void abort() noexcept { builder_.abort(); }
    /// False when a top-level value other than an object came.
    bool is_object() const noexcept { return is_object_; }

    // Each returns false to stop: the document is no object.
    bool begin_object() { return begin(true); }
    bool begin_array() { return begin(false); }
    void end_object() { end(true); }
    void end_array() { end(false); }
    void key(std::string_view k);
    bool string(std::string_view s) { return scalar([&] { builder_.string(s); }); }
    bool number(std::string_view text) { return scalar([&] { builder_.number(text); }); }
    bool integer(std::int64_t v) { return scalar([&] { builder_.integer(v); }); }
    bool integer(std::uint64_t v) { return scalar([&] { builder_.integer(v); }); }
    bool floating(double d) { return scalar([&] { builder_.floating(d); }); }
    bool literal(handle h) { return scalar([&] { builder_.literal(h); }); }

    std::size_t depth() const noexcept { return builder_.depth() + skipping_; }
    builder& nodes() noexcept { return builder_; }
    std::uint64_t bytes() const noexcept { return builder_.bytes(); }

private:
    enum class verdict : unsigned char { keep, skip, keep_if_container };
    struct level {
        std::uint32_t states;  ///< where its states begin
        std::uint32_t index;   ///< of the next element
        bool array;
        bool whole;            ///< the projection says nothing more below: everything goes in
        bool identity_only;    ///< metadata of which only the identity stays
        bool metadata;
    };
    bool begin(bool object);
    void end(bool object);
    template <class Add>
    bool scalar(const Add& add);
    void next_element();
    verdict judge(std::string_view name, bool named);

    const decode_options& options_;
    const projection_trie& projection_;
    const bool projecting_;
    builder builder_;
    bool plain_ = false, is_object_ = false;
    bool in_metadata_ = false; ///< the member of the outermost object being read is `metadata`
    std::size_t skipping_ = 0; ///< open containers being skipped
    verdict next_ = verdict::keep;
    level child_{};            ///< what the container at the judged place would be
    std::vector<level> levels_;
    std::vector<std::uint32_t> states_; ///< of the open levels, then of the child judged last
    std::size_t parent_end_ = 0;         ///< where the states of the innermost open level end
};

template <class Add>
bool document_reader::scalar(const Add& add) {
    if (builder_.depth() == 0) return false;
    if (skipping_) return true;
    if (projecting_ && !plain_) next_element();
    const verdict v = std::exchange(next_, verdict::keep);
    if (v == verdict::keep) {
        add();
    } else if (v == verdict::keep_if_container && !levels_.back().array) {
        builder_.drop_key();
    }
    return true;
}

} // namespace informer::detail
