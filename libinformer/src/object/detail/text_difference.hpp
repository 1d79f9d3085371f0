// Decodes a text by its differences from texts decoded before: docs/design/text-difference.md.
#pragma once

#include "document_reader.hpp"
#include "text_template.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace informer::detail {

/// The fast path beside the parser, which stays the reference: what this builds is what the parser would have built, node by
/// node, and of what it cannot judge it builds nothing. Templates belong to one generation: `forget` before it is left.
class text_difference {
public:
    /// With fewer live documents there are no templates: they would weigh more than they help.
    text_difference(std::uint64_t min_documents, const projection_trie& projection)
        : min_documents_(min_documents), projecting_(!projection.empty()) {}

    /// True: the document is on `to`'s stack, as the parser would have left it. False: nothing is; the text may be anything.
    bool read(generation& g, document_reader& to, handle previous, std::string_view json, std::size_t max_depth,
              std::string& scratch);
    /// The parser made `document` of `json`: a template, if one is wanted. Never fails the decoding.
    void learn(generation& g, handle document, std::string_view json, std::uint64_t live_documents) noexcept;
    /// Gives back all templates. True if there were any.
    bool forget(generation& g) noexcept;
    /// The same if hardly any documents live but for the templates.
    bool forget_if_few(generation& g, std::uint64_t live_documents) noexcept {
        return live_documents < (min_documents_ + 1) / 2 && forget(g);
    }

    void add_to(pool_statistics& s) const noexcept;

private:
    struct entry {
        text_template t;
        std::uint32_t usual = 0;    ///< changes of the first text compared with it as it is now, and one
        std::uint32_t uses = 0;     ///< since then
        std::uint64_t last_use = 0; ///< in texts read
    };
    struct counted; // gives back what `owned_` holds

    entry* choose(std::string_view json);
    handle build(const text_template& t, std::string_view json, std::size_t max_depth, std::string& scratch);
    bool read_change(const text_change& c, std::string_view json, std::size_t max_depth, std::string& scratch,
                     handle& made, bool& made_now);
    bool read_part(const text_change& c, std::string_view part, std::size_t max_depth, std::string& scratch,
                   handle& made, bool& made_now);
    handle key_of(const text_change& c) const noexcept;
    void place(const text_change& c);
    void touch(std::uint32_t container);
    handle previous_container(std::uint32_t container);
    handle previous_value(std::uint32_t container, std::uint32_t slot);
    handle finish_container(std::uint32_t container);
    handle container(std::uint32_t header, const handle* values, std::uint32_t n, path_id path, handle previous,
                     bool& made_now);
    handle reconcile(handle ours, handle theirs, path_id path, bool& made_now);
    void after_use(entry& e, std::string_view json, handle document);
    std::uint64_t budget(const generation& g) const noexcept;
    std::uint64_t template_bytes() const noexcept;

    const std::uint64_t min_documents_;
    const bool projecting_;
    std::vector<std::unique_ptr<entry>> templates_; ///< the one used last comes first
    std::uint32_t credit_ = 64;                     ///< for templates to be made; uses earn it
    std::uint32_t missed_ = 0;                      ///< texts in a row that no template fitted
    std::uint32_t pause_ = 0;                       ///< texts left to the parser before the next attempt
    bool wanted_ = false;                           ///< the last text fitted badly or not at all
    std::uint64_t hits_ = 0, misses_ = 0;

    // While a document is built.
    enum state : std::uint8_t { touched = 1, fresh = 2, compared = 4 };
    generation* generation_ = nullptr;
    document_reader* reader_ = nullptr;
    const text_template* template_ = nullptr;
    handle previous_ = missing_handle;
    bool hard_ = false; ///< comparing with the previous version is left to the parser's way
    std::vector<text_change> changes_, other_changes_;
    std::vector<handle> values_;       ///< the members of the touched containers
    std::vector<std::uint8_t> states_; ///< of the containers
    std::vector<handle> previous_at_;  ///< the containers at their places in the previous version
    std::vector<handle> owned_;        ///< one count each
};

} // namespace informer::detail
