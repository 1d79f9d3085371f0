// Decodes a text by its differences from texts decoded before: docs/design/text-difference.md.
#pragma once

#include "document_reader.hpp"
#include "plain_stack.hpp"
#include "text_template.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace informer::detail {

/// The fast path beside `text_reader`, which stays the reference: this builds, node by node, what the reader would
/// have built, and builds nothing of a text that it cannot judge. Templates belong to one generation: call `forget`
/// before leaving it.
class text_difference {
public:
    /// With fewer live documents than `min_documents` there are no templates: they would cost more than they help.
    text_difference(std::uint64_t min_documents, const projection_trie& projection)
        : min_documents_(min_documents), projecting_(!projection.empty()) {}

    /// The document, as the reader would have built it, with one count; missing: the text may be anything. `to` reads
    /// what is left to it.
    handle read(generation& g, document_reader& to, std::unique_ptr<interning_policy>& policy, handle previous,
                std::string_view json, std::size_t max_depth, std::string& scratch);
    /// `json` was read as `document`: makes a template of it if one is wanted. Never fails the decoding.
    void learn(generation& g, handle document, std::string_view json, std::uint64_t live_documents) noexcept;
    /// Gives back all templates. True if there were any.
    bool forget(generation& g) noexcept;
    /// Gives back those that are too large compared with what is alive now; all of them if hardly any documents are.
    /// True if any were.
    bool trim(generation& g, std::uint64_t live_documents) noexcept;

    void add_to(pool_statistics& s) const noexcept;

    /// For tests whose texts are as unlike as can be: templates are tried whether or not that pays.
    static inline bool tireless = false;

private:
    struct entry {
        text_template t;
        std::uint32_t usual = 0; ///< changes of the first text that used it as it is now, plus one
        std::uint32_t uses = 0;  ///< since then
    };
    struct guard; // gives back what is owned
    /// A container around the current change; open containers lie inside each other.
    struct open_container {
        const text_template::container* of;
        handle* values;       ///< its members as they will be
        const handle* theirs; ///< as they are in the previous version, if they have the same keys in the same order
        handle previous;      ///< the previous version's container of the same kind, or missing
        std::uint32_t owned;  ///< where the counts of its new members begin
        std::uint8_t fresh;   ///< `novelty` of the new members
    };
    /// A new member of an open container, with one count.
    struct owned_member {
        handle h;
        std::uint32_t slot;
    };

    bool awake(std::string_view json);
    void settle(bool used, std::size_t bytes, std::int64_t cost);
    entry* choose(std::string_view json, std::int64_t& cost);
    handle build(std::string_view json, std::size_t max_depth, std::string& scratch);
    bool read_change(const text_change& c, std::string_view json, std::size_t max_depth, std::string& scratch);
    bool read_part(const text_change& c, std::string_view part, std::size_t max_depth, std::string& scratch);
    void put_string(const text_change& c, std::string_view s);
    void put_string_inline(const text_change& c, std::string_view s);
    bool put_alone(const text_change& c, std::uint32_t next, std::string_view json);
    generation::interned with_member(const text_template::container& c, std::uint32_t slot,
                                     generation::interned member);
    void put(std::uint32_t slot, handle h) noexcept;
    void put_owned(std::uint32_t slot, handle h, std::uint8_t fresh) noexcept;
    void take_part(std::uint32_t slot);
    void need_parts();
    handle key_of(const text_template::container& c, std::uint32_t slot) const noexcept {
        return header_is_object(c.header) ? generation_->node(c.header)[1 + slot] : element_key;
    }
    void place(std::uint32_t slot);
    void open(std::uint32_t container);
    void enter(std::uint32_t container);
    template <bool is_new>
    handle close(bool is_last);
    handle close_until(std::uint32_t place);
    handle previous_value(const open_container& c, std::uint32_t slot) {
        return c.theirs ? c.theirs[slot] : c.previous ? moved_value(c, slot) : missing_handle;
    }
    bool may_be_alike(handle a, handle b) noexcept;
    handle moved_value(const open_container& c, std::uint32_t slot);
    void reconcile_members(const open_container& c, std::uint8_t& made_now);
    handle reconcile(handle ours, handle theirs, path_id path, std::uint8_t& made_now);
    void drop_last(generation& g) noexcept; ///< the one not used for the longest time
    void after_use(entry& e, std::string_view json, handle document);
    std::uint64_t budget(const generation& g) const noexcept;
    std::uint64_t template_bytes() const noexcept;

    const std::uint64_t min_documents_;
    const bool projecting_;
    std::vector<std::unique_ptr<entry>> templates_; ///< the one used last comes first
    /// what uses have saved, less what attempts and templates cost: see awake()
    std::int64_t balance_ = -1;
    /// what a template would have cost: small texts may save up for it, too
    std::int64_t wish_ = 0;
    std::uint32_t pause_ = 0; ///< texts left to the parser before the next attempt
    static constexpr std::uint32_t first_pause = 16, longest_pause = 256;
    std::uint32_t next_pause_ = first_pause;
    bool wanted_ = false; ///< as a template: the last text, which fitted badly or not at all
    std::uint64_t hits_ = 0, misses_ = 0;

    // While a document is built.
    generation* generation_ = nullptr;
    document_reader* reader_ = nullptr;
    const text_template* template_ = nullptr;
    handle previous_ = missing_handle;
    bool parts_ = false;          ///< the reader was begun
    bool hard_ = false;           ///< comparing with the previous version is left to the parser
    bool scalars_ = false;        ///< all changes are scalars
    std::int64_t reconciled_ = 0; ///< what comparing with the previous version has cost
    text_changes changes_, other_changes_;
    plain_stack<open_container> open_;
    plain_stack<std::uint32_t> way_;  ///< containers about to be opened, the outermost one last
    std::vector<handle> values_;      ///< the members of the containers opened so far, in the template's order
    plain_stack<owned_member> owned_; ///< new members of the open containers
    handle_stack kept_;               ///< counts to hold until the document is complete
};

} // namespace informer::detail
