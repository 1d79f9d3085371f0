#include "detail/text_template.hpp"

#include "detail/json_tokens.hpp"
#include "detail/reading.hpp"
#include "detail/text_scan.hpp"
#include "json_scan.hpp"

#include <algorithm>
#include <bitset>

namespace informer::detail {

namespace {

using container = text_template::container;
constexpr std::uint32_t none = text_template::none;

/// Walks a text that a parser has accepted and, alongside, the document made of it. Of managedFields, which were
/// skipped unread, it is only known that their brackets balance: anything that the walk does not expect, or that is
/// deeper than any document, ends it.
class mapper {
public:
    mapper(text_template& to, const generation& g) : to_(to), generation_(g), p_(to.text.data()), seen_() {}
    bool document(handle h) { return walk({none, none, h}); }

private:
    char next() noexcept {
        while (is_space(*p_)) ++p_;
        return *p_;
    }
    std::uint32_t here() const noexcept { return static_cast<std::uint32_t>(p_ - to_.text.data()); }
    const char* end() const noexcept { return to_.text.data() + to_.text.size(); }

    /// Goes behind the string at the current place. False if there is none.
    bool string(bool& plain) noexcept {
        const char* const behind = *p_ == '"' ? string_end(p_ + 1, end(), plain) : nullptr;
        if (behind) p_ = behind;
        return behind != nullptr;
    }
    enum class at_hand { leaf, opening, nothing };
    /// Goes behind the current value if it is a scalar or an empty container, and adds a place for it; goes into it
    /// if it is a container with members.
    at_hand leaf(std::uint32_t owner, std::uint32_t slot, bool& object, std::uint32_t& begin) {
        const char c = next();
        begin = here();
        std::uint32_t open_end = 0;
        if (c == '{' || c == '[') {
            object = c == '{';
            ++p_;
            if (next() != (object ? '}' : ']')) return at_hand::opening;
            ++p_;
        } else if (c == '"') {
            bool plain = true;
            if (!string(plain)) return at_hand::nothing;
        } else {
            p_ = bare_end(p_, end());
            if (begin == here()) return at_hand::nothing;
            open_end = 1;
        }
        add_place({begin, here() + open_end, owner, slot}, owner == none ? path_id() : member_path(slot));
        return at_hand::leaf;
    }
    /// A container on the way down. `h` missing: it is not stored.
    struct level {
        children c;
        handle h = missing_handle;
        std::uint32_t index = 0, values = 0, elements = 0, next_slot = 0;
        bool object = false;
    };
    /// A value: its place in the container around it if that is stored, else none; and its handle if it is stored.
    struct where {
        std::uint32_t parent = none, slot = none;
        handle h = missing_handle;
    };

    /// Walks one whole value. No recursion: texts may be a thousand levels deep, and threads have small stacks.
    bool walk(where at) {
        for (;;) {
            bool object = false;
            std::uint32_t begin = 0;
            const at_hand what = leaf(at.h ? at.parent : none, at.slot, object, begin);
            if (what == at_hand::nothing) return false;
            if (what == at_hand::opening) {
                // Inside the outermost container that is not stored, the parent is none.
                if (at.h || at.parent != none) {
                    if (!open(object, begin, at) || !begin_member(at)) return false;
                    continue;
                }
                if (!part_left_out(object)) return false;
            }
            for (;;) { // closes what is complete
                if (open_.empty()) return true;
                if (!next()) return false;
                const char after = *p_++;
                if (after == ',') break;
                if (!close(after)) return false;
            }
            if (!begin_member(at)) return false;
        }
    }
    bool open(bool object, std::uint32_t begin, const where& at) {
        if (++depth_ > deepest) return false;
        level l;
        l.c = children_of(&generation_, at.h);
        if (at.h && object != (at.h == empty_object_handle || (is_node(at.h) && l.c.keys))) return false;
        l.h = at.h;
        l.object = object;
        l.index = static_cast<std::uint32_t>(to_.containers.size());
        l.values = to_.values;
        const auto first = static_cast<std::uint32_t>(to_.places.size());
        const std::uint32_t header = is_node(at.h) ? *generation_.node(at.h) : 0;
        to_.containers.push_back(
            {begin, 0, first, 0, at.parent, at.slot, to_.values, l.c.n, at.h, header, path(at.parent, at.slot)});
        to_.values += l.c.n;
        seen_.resize(to_.values);
        open_.push_back(l);
        return true;
    }
    /// Goes to the value of the next member of the innermost container.
    bool begin_member(where& at) {
        level& l = open_.back();
        at = {l.h ? l.index : none, none, missing_handle};
        if (l.object) {
            if (!member(l.c, l.h != missing_handle, l.values, l.elements, l.next_slot, at.slot)) return false;
        } else if (l.h) {
            if (l.elements == l.c.n) return false;
            at.slot = l.elements++;
        }
        if (at.slot != none) at.h = l.c.values[at.slot];
        return true;
    }
    bool close(char with) {
        const level& l = open_.back();
        --depth_;
        if (with != (l.object ? '}' : ']')) return false;
        // The document may have two members that the text lacks: apiVersion and kind.
        if (l.h && l.elements != l.c.n && (l.index != 0 || !only_type_missing(l.c, l.values))) return false;
        to_.containers[l.index].end = here();
        to_.containers[l.index].last = static_cast<std::uint32_t>(to_.places.size());
        open_.pop_back();
        return true;
    }
    /// Walks a container inside a part that is not stored, from its first member on: only its places matter. Such
    /// parts may be a third of an object's text, with two thirds of its containers.
    bool part_left_out(bool object) {
        std::bitset<deepest + 1> objects; // for the containers around the current one: is it an object?
        const unsigned outside = depth_++;
        for (;;) {
            if (depth_ > deepest) return false;
            if (object) {
                next();
                const std::uint32_t begin = here();
                bool plain = true;
                if (!string(plain)) return false;
                add_place({begin, here(), none, text_template::is_key}, path_id());
                if (next() != ':') return false;
                ++p_;
            }
            bool inner = false;
            std::uint32_t begin = 0;
            const at_hand what = leaf(none, none, inner, begin);
            if (what == at_hand::nothing) return false;
            if (what == at_hand::opening) {
                objects[depth_++] = object;
                object = inner;
                continue;
            }
            for (;;) {
                const char after = next();
                if (!after) return false;
                ++p_;
                if (after == ',') break;
                if (after != (object ? '}' : ']')) return false;
                if (--depth_ == outside) return true;
                object = objects[depth_];
            }
        }
    }
    /// Reads "key":. False if there is none, and for a key that came before. `next_slot`: the probable slot of its
    /// member, and on return that of the next one.
    bool member(const children& c, bool stored, std::uint32_t values, std::uint32_t& found, std::uint32_t& next_slot,
                std::uint32_t& slot) {
        next();
        const std::uint32_t begin = here();
        bool plain = true;
        if (!string(plain)) return false;
        const std::string_view literal(to_.text.data() + begin, here() - begin);
        if (stored) {
            std::string_view key = literal.substr(1, literal.size() - 2);
            std::optional<std::string> unescaped;
            if (!plain) {
                unescaped = unescape(literal);
                if (!unescaped) return false;
                key = *unescaped;
            }
            slot = c.n ? find_member(&generation_, c, key, next_slot) : 0;
            if (slot == c.n) {
                slot = none;
            } else {
                if (seen_[values + slot]) return false;
                seen_[values + slot] = 1;
                next_slot = slot + 1;
                ++found;
            }
        } else {
            add_place({begin, here(), none, text_template::is_key}, path_id());
        }
        if (next() != ':') return false;
        ++p_;
        return true;
    }
    void add_place(const text_template::place& p, path_id path) {
        to_.places.push_back(p);
        to_.records.push_back(interning_policy::place(path));
    }
    /// Of a member of the innermost container, which is stored.
    path_id member_path(std::uint32_t slot) const noexcept {
        const level& l = open_.back();
        return child_path(to_.containers[l.index].path, l.c.keys ? l.c.keys[slot] : element_key);
    }
    path_id path(std::uint32_t parent, std::uint32_t slot) const {
        if (parent == none) return child_path(path_id(), element_key);
        const text_template::container& c = to_.containers[parent];
        const children in = children_of(&generation_, c.h);
        return child_path(c.path, in.keys && slot != none ? in.keys[slot] : element_key);
    }
    bool only_type_missing(const children& c, std::uint32_t values) const {
        for (std::uint32_t i = 0; i < c.n; ++i) {
            if (seen_[values + i]) continue;
            const text key = string_of(&generation_, c.keys[i]);
            if (key != "apiVersion" && key != "kind") return false;
        }
        return true;
    }

    static constexpr unsigned deepest = 1000; // of a document

    text_template& to_;
    const generation& generation_;
    const char* p_;
    unsigned depth_ = 0;
    std::vector<level> open_;
    std::vector<std::uint8_t> seen_; ///< bytes, not bits: containers are small, and there are many
};

} // namespace

bool text_template::map(const generation& g, std::string_view json, handle h) {
    text.assign(json);
    places.clear();
    records.clear();
    containers.clear();
    places.reserve(json.size() / 16); // pods have one in 18 bytes
    records.reserve(json.size() / 16);
    containers.reserve(json.size() / 64);
    values = 0;
    document = h;
    if (!mapper(*this, g).document(h) || containers.empty()) return false;
    places.push_back({none, none, none, none});
    text.shrink_to_fit();
    places.shrink_to_fit();
    records.shrink_to_fit();
    containers.shrink_to_fit();
    marks.resize(text.size() / bytes_a_mark + 1);
    marks.shrink_to_fit();
    set_marks();
    return true;
}

void text_template::set_marks() noexcept {
    std::size_t mark = 0;
    const auto n = static_cast<std::uint32_t>(places.size() - 1);
    for (std::uint32_t i = 0; i < n; ++i)
        for (; mark * bytes_a_mark < places[i].reach && mark < marks.size(); ++mark) marks[mark] = i;
    for (; mark < marks.size(); ++mark) marks[mark] = n;
}

void text_template::rebase(const generation& g, std::string_view json, handle h, const text_changes& changes) {
    const std::size_t needed = json.size() / bytes_a_mark + 1;
    marks.reserve(needed);
    text.assign(json); // nothing below can fail
    marks.resize(needed);
    // How far the text behind each change moves. Places and beginnings of containers come in the order of the text.
    std::uint32_t shift = 0; // modulo 2^32
    const text_change* next = changes.begin();
    const auto pass = [&](std::uint32_t offset) {
        for (; next != changes.end() && next->old_end <= offset; ++next) shift = next->end - next->old_end;
    };
    for (container& c : containers) {
        pass(c.begin);
        c.begin += shift;
        const auto last = std::upper_bound(changes.begin(), changes.end(), c.end,
                                           [](std::uint32_t end, const text_change& x) { return end < x.old_end; });
        if (last != changes.begin()) c.end += std::prev(last)->end - std::prev(last)->old_end;
    }
    shift = 0;
    next = changes.begin();
    for (std::size_t i = 0; i + 1 < places.size(); ++i) {
        place& p = places[i];
        if (next != changes.end() && next->old_begin == p.begin) {
            p.begin = next->begin;
            p.reach = next->end + (next->what == text_change::kind::bare ? 1 : 0);
            shift = next->end - next->old_end;
            ++next;
        } else {
            p.begin += shift;
            p.reach += shift;
        }
    }
    document = h;
    // All handles, not only those that changed: an equal part of a previous version may have replaced the template's.
    for (container& c : containers)
        if (c.parent == none)
            c.h = h;
        else if (c.h)
            c.h = g.node(containers[c.parent].h)[1 + c.slot];
    set_marks();
}

std::uint32_t text_template::container_at(std::uint32_t offset) const noexcept {
    const auto behind = std::upper_bound(containers.begin(), containers.end(), offset,
                                         [](std::uint32_t at, const container& c) { return at < c.begin; });
    if (behind == containers.begin()) return none;
    auto i = static_cast<std::uint32_t>(behind - containers.begin() - 1);
    while (i != none && containers[i].end <= offset) i = containers[i].parent;
    return i;
}

} // namespace informer::detail
