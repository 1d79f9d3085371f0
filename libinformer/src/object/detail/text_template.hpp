// A document together with the text it was read from, and where in the text its values lie: what another text is
// compared with.
#pragma once

#include "generation.hpp"
#include "interning.hpp"
#include "plain_stack.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace informer::detail {

/// A value of an incoming text that differs from the template's at the same place.
struct text_change {
    enum class kind : std::uint8_t {
        plain,     ///< a string of ASCII without escapes
        string,    ///< any other string
        bare,      ///< a number, true, false or null (or such characters that are none of these)
        container, ///< an object or an array
    };
    std::uint32_t begin, end;         ///< in the incoming text
    std::uint32_t old_begin, old_end; ///< in the template's
    std::uint32_t parent, slot;       ///< where the value belongs; slot `none`: it is not stored
    path_id path; ///< of a value in a `place` of the template that is stored: one with the same record (see `records`)
    kind what;
    bool scalar; ///< a scalar that stands in a `place` of the template
};
using text_changes = plain_stack<text_change>;

struct text_template {
    static constexpr std::uint32_t none = ~std::uint32_t{0};
    static constexpr std::uint32_t is_key = none - 1;

    /// A scalar or an empty container. In parts that are not stored, a key as well.
    struct place {
        std::uint32_t begin;        ///< in the text, quotes included
        std::uint32_t reach;        ///< its end; of a number or word one byte more: in another text it may go on there
        std::uint32_t parent, slot; ///< not stored: the parent is `none`, the slot anything or `is_key`
    };
    /// An object or array with members, parents before children.
    struct container {
        std::uint32_t begin, end;
        std::uint32_t first, last;  ///< its places, those of its children included
        std::uint32_t parent, slot; ///< `none`: the document; only the slot `none`: not stored
        std::uint32_t values, n;    ///< its members among those of all containers
        handle h;                   ///< missing: not stored
        std::uint32_t header;       ///< of its node
        path_id path;
    };

    std::string text;
    handle document = missing_handle; ///< owns a count
    std::vector<place> places;        ///< in the order of the text; then one that lies behind any text
    /// For each place the number of the record of its value's path; two bytes, where a path would take four.
    std::vector<std::uint16_t> records;
    std::vector<std::uint32_t> marks; ///< for each 32 bytes of the text the first place that reaches beyond their begin
    std::vector<container> containers;
    std::uint32_t values = 0; ///< members of all stored containers

    /// Maps the text onto its document. False if that cannot be done (a key twice, elements left out by a
    /// projection); the template is then of no use. Takes no counts.
    bool map(const generation& g, std::string_view json, handle h);
    /// The same for a text that differs from the template's in `changes` only, all of them scalars.
    void rebase(const generation& g, std::string_view json, handle h, const text_changes& changes);

    /// The index of the first place, from this one on, that reaches beyond this byte of the text.
    [[gnu::always_inline]] std::size_t place_at(std::size_t from, std::uint32_t offset) const noexcept {
        std::size_t i = std::max<std::size_t>(from, marks[offset / bytes_a_mark]);
        while (places[i].reach <= offset) ++i;
        return i;
    }
    /// The innermost container around this byte of the text.
    std::uint32_t container_at(std::uint32_t offset) const noexcept;
    std::uint64_t bytes() const noexcept {
        return text.capacity() + places.capacity() * sizeof(place) + containers.capacity() * sizeof(container) +
               records.capacity() * 2 + marks.capacity() * 4;
    }

private:
    static constexpr std::uint32_t bytes_a_mark = 32;
    void set_marks() noexcept; ///< into memory that is there already
};

/// Finds what differs, in the order of the text. False: too much does. `rebuild`: stored containers may be changes.
/// Adds to `cost` what this took. `simple`: all changes are scalars, their strings plain.
bool match(const text_template& t, std::string_view text, bool rebuild, text_changes& changes, std::int64_t& cost,
           bool& simple);

} // namespace informer::detail
