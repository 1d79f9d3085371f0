// Makes the stored form of a document from its events: skips managedFields and what the projection leaves out, restores
// the type.
#pragma once

#include "builder.hpp"
#include "projection_trie.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace informer::detail {

class document_reader {
public:
    document_reader(const decode_options& options, const projection_trie& projection)
        : options_(options), projection_(projection), projecting_(!projection.empty()) {}

    /// `plain`: no skipping, no projection. The rest as in `builder::start`.
    void start(generation& g, handle cursor, std::unique_ptr<interning_policy>& policy, bool older, bool plain);
    /// Reads the same document again from its beginning, after `abort` or `abandon`.
    void restart();
    /// The same, but only to find what is wrong with it: nothing is stored.
    void restart_to_check();
    handle finish() noexcept { return builder_.finish(); }
    void abort() noexcept { builder_.abort(); }

    // False: stop, the document is not an object.
    bool begin_object() {
        if (careful_) return careful_begin(true);
        builder_.begin_object();
        return true;
    }
    bool begin_array() {
        if (careful_) return careful_begin(false);
        builder_.begin_array();
        return true;
    }
    void end_object() {
        if (careful_ || builder_.depth() == 1) return careful_end(true);
        builder_.end_object();
    }
    void end_array() {
        if (careful_) return careful_end(false);
        builder_.end_array();
    }
    [[gnu::always_inline]] void key(std::string_view k) { // called as often as all the others together
        if (careful_ || builder_.depth() <= watched_) return careful_key(k);
        builder_.key(k);
    }
    template <bool four = false>
    [[gnu::always_inline]] bool string(std::string_view s) {
        if (careful_) return careful_string(s);
        builder_.string<four>(s);
        return true;
    }
    bool number(std::string_view text) {
        return scalar([&] { builder_.number(text); });
    }
    bool integer(std::int64_t v) {
        return scalar([&] { builder_.integer(v); });
    }
    bool integer(std::uint64_t v) {
        return scalar([&] { builder_.integer(v); });
    }
    bool floating(double d) {
        return scalar([&] { builder_.floating(d); });
    }
    bool literal(handle h) {
        return scalar([&] { builder_.literal(h); });
    }

    /// True right after the key metadata.managedFields if its value will be skipped: the value need not come at all.
    bool at_skipped_managed_fields() const noexcept { return at_managed_fields_; }

    builder& nodes() noexcept { return builder_; }
    /// Parts of a document follow, whose nodes were started; `abort` ends them.
    void begin_parts(bool older);
    /// What follows is one value of a document, at the builder's `place`.
    void begin_part(bool is_metadata, bool is_skipped) noexcept;
    std::uint64_t bytes() const noexcept {
        return builder_.bytes() + key_.capacity() + type_[0].capacity() + type_[1].capacity() +
               levels_.capacity() * sizeof(level) + states_.capacity() * sizeof(std::uint32_t);
    }

private:
    enum class verdict : unsigned char { keep, skip, keep_if_container };
    enum class type_member : unsigned char { none, api_version, kind };
    struct level {
        std::uint32_t states; ///< where its states begin
        std::uint32_t index;  ///< of the next element
        bool array;
        bool whole;         ///< the projection leaves nothing out below: everything is stored
        bool identity_only; ///< only the identity stays: of metadata, or of the document
        bool metadata;
    };
    bool careful_begin(bool object);
    void careful_end(bool object);
    void careful_key(std::string_view k);
    bool careful_string(std::string_view s);
    template <class Add>
    bool scalar(const Add& add) {
        if (careful_) return careful_scalar(add);
        add();
        return true;
    }
    template <class Add>
    bool careful_scalar(const Add& add);
    void next_element();
    verdict judge(std::string_view name, bool named);
    void set_careful() noexcept {
        careful_ = projected_ || skipping_ > 0 || next_ != verdict::keep || type_awaited_ != type_member::none;
    }
    void begin();
    bool skips_managed_fields() const noexcept { return !plain_ && !options_.keep_managed_fields_; }
    void put_type();
    void type_is_no_string();

    const decode_options& options_;
    const projection_trie& projection_;
    const bool projecting_;
    builder builder_;
    bool careful_ = true; ///< events need more than being handed to the builder
    /// keys are examined down to this depth: the document's or, while its metadata is read, the metadata's
    std::size_t watched_ = 1;
    bool plain_ = false;
    bool projected_ = false;
    bool at_managed_fields_ = false;
    bool sort_type_ = false;  ///< apiVersion and kind may not be the first members
    bool type_first_ = false; ///< so far only apiVersion and kind of the outermost object came; they are held back
    type_member type_awaited_ = type_member::none;
    bool has_type_[2] = {};
    std::string type_[2];
    std::size_t skipping_ = 0; ///< open containers being skipped
    verdict next_ = verdict::keep;
    std::string key_; ///< a key that is stored only if its value is a container
    level child_{};   ///< the level of a container at the judged place
    std::vector<level> levels_;
    std::vector<std::uint32_t> states_; ///< of the open levels, then of the child judged last
    std::size_t parent_end_ = 0;        ///< where the states of the innermost open level end
};

template <class Add>
bool document_reader::careful_scalar(const Add& add) {
    if (skipping_) return true;
    if (builder_.depth() == 0) return false;
    if (type_awaited_ != type_member::none) type_is_no_string();
    if (projected_) next_element();
    at_managed_fields_ = false;
    if (std::exchange(next_, verdict::keep) == verdict::keep) add();
    set_careful();
    return true;
}

} // namespace informer::detail
