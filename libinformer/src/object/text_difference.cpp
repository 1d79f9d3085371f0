// Builds a document from a template's document and the differences of its text, and shares with the previous version
// what both have.
#include "detail/text_difference.hpp"

#include "detail/builder_nodes.hpp"
#include "detail/json_tokens.hpp"
#include "detail/reading.hpp"
#include "detail/text_reader.hpp"
#include "json_scan.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace informer::detail {

namespace {

constexpr std::uint32_t none = text_template::none;

/// The nodes of a document lie where they were made, the outermost one last. They are loaded while the texts are
/// compared.
void prefetch(const generation& g, handle document) noexcept {
    if (!is_node(document)) return;
    const auto* const at = reinterpret_cast<const char*>(g.node(document));
    for (std::ptrdiff_t i = -1280; i <= 64; i += 64) // out of bounds does no harm: nothing is read
        __builtin_prefetch(
            reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(at) + static_cast<std::uintptr_t>(i)));
}

/// The handle of a whole number of at most eight digits, as nearly all are; else missing.
handle short_number(std::string_view s) noexcept {
    if (s.empty() || s.size() > 8 || (s.size() > 1 && s[0] == '0')) return missing_handle;
    const char* const end = s.data() + s.size();
    std::int64_t v = 0;
    return take_digits(s.data(), end, v) == end ? make_small_int(v) : missing_handle;
}

/// The same, or true, false or null.
handle short_scalar(std::string_view s) noexcept {
    if (const handle h = short_number(s)) return h;
    return s == "true" ? true_handle : s == "false" ? false_handle : s == "null" ? null_handle : missing_handle;
}

} // namespace

struct text_difference::guard {
    text_difference& d;
    ~guard() {
        for (const owned_member& m : d.owned_) d.generation_->release(m.h);
        for (std::uint32_t i = 0; i < d.kept_.size(); ++i) d.generation_->release(*d.kept_.at(i));
        d.owned_.clear();
        d.kept_.resize_down(0);
        d.open_.clear();
        d.way_.clear();
    }
};

// ---- reading

handle text_difference::read(generation& g, document_reader& to, std::unique_ptr<interning_policy>& policy,
                             handle previous, std::string_view json, std::size_t max_depth, std::string& scratch) {
    wanted_ = awake(json);
    if (!wanted_) {
        ++misses_;
        return missing_handle;
    }
    std::int64_t cost = 0;
    entry* e = nullptr;
    if (!templates_.empty()) {
        prefetch(g, previous);
        e = choose(json, cost);
    }
    handle h = missing_handle;
    if (e) {
        generation_ = &g;
        reader_ = &to;
        template_ = &e->t;
        previous_ = previous;
        reconciled_ = 0;
        parts_ = false;
        const guard gives_back{*this};
        to.nodes().start_nodes(g, policy);
        h = build(json, max_depth, scratch);
        if (parts_) to.abort();
        if (h) {
            after_use(*e, json, h);
            g.retain(h);
        }
        cost += reconciled_;
    }
    ++(h ? hits_ : misses_);
    settle(h != missing_handle, json.size(), cost);
    return h;
}

/// The changes come in the order of the text, so the containers around them open and close as they do for the parser,
/// and values that the document repeats are found as the parser finds them.
handle text_difference::build(std::string_view json, std::size_t max_depth, std::string& scratch) {
    hard_ = false;
    values_.resize(template_->values);
    const bool is_first = !is_node(previous_);
    const text_change* const end = changes_.end();
    for (const text_change* at = changes_.begin(); at != end; ++at) {
        const text_change& c = *at;
        if (c.slot != none) {
            if (!open_.empty() && open_.back().of->end <= c.old_begin) close_until(c.old_begin);
            const text_template::container& in = template_->containers[c.parent];
            if (open_.empty() || open_.back().of != &in) {
                const std::uint32_t next = at + 1 != end ? at[1].old_begin : none;
                if (is_first && in.end <= next && put_alone(c, next, json)) continue;
                open(c.parent);
            }
            if (c.what == text_change::kind::plain) { // as most are: nothing else is to be decided
                put_string_inline(c, {json.data() + c.begin + 1, c.end - c.begin - std::size_t{2}});
                continue;
            }
        }
        if (!read_change(c, json, max_depth, scratch)) return missing_handle;
    }
    if (open_.empty()) { // nothing that is stored differs
        std::uint8_t made_now = generation::known;
        const handle whole = reconcile(template_->document, previous_, template_->containers[0].path, made_now);
        return hard_ ? missing_handle : whole;
    }
    const handle whole = close_until(none);
    return hard_ ? missing_handle : whole;
}

/// Puts any value but a plain string into the innermost open container. False: the parser refuses it or has to judge.
bool text_difference::read_change(const text_change& c, std::string_view json, std::size_t max_depth,
                                  std::string& scratch) {
    const std::string_view s = json.substr(c.begin, c.end - c.begin);
    const bool stored = c.slot != none;
    switch (c.what) {
    case text_change::kind::container: return read_part(c, s, max_depth, scratch);
    case text_change::kind::plain: return true; // one that is not stored: it cannot be wrong
    case text_change::kind::string: {
        std::string_view text;
        const char* const end = s.data() + s.size();
        if (read_string(s.data() + 1, end, scratch, text) != end) return false;
        if (stored) put_string(c, text);
        return true;
    }
    case text_change::kind::bare: break;
    }
    if (const handle h = short_scalar(s)) {
        if (stored) put(c.slot, h);
        return true;
    }
    if (!is_number(s)) return false;
    if (stored) {
        place(c.slot);
        reader_->nodes().number(s);
        take_part(c.slot);
    }
    return true;
}

/// Reads a container as a whole.
bool text_difference::read_part(const text_change& c, std::string_view part, std::size_t max_depth,
                                std::string& scratch) {
    std::size_t depth = 0;
    for (std::uint32_t i = c.parent; i != none; i = template_->containers[i].parent) ++depth;
    if (depth > max_depth) return false;
    const bool stored = c.slot != none;
    const bool is_metadata =
        stored && c.parent == 0 && string_of(generation_, key_of(template_->containers[0], c.slot)) == "metadata";
    need_parts();
    if (stored) place(c.slot);
    reader_->begin_part(is_metadata, !stored);
    if (!text_reader(*reader_, part, max_depth - depth, scratch).read_all()) return false;
    if (stored) take_part(c.slot);
    return true;
}

// ---- the members of open containers

[[gnu::always_inline]] inline void text_difference::put_string_inline(const text_change& c, std::string_view s) {
    const string_form f(s);
    if (f.immediate) return put(c.slot, f.immediate);
    const open_container& in = open_.back();
    const handle there = previous_value(in, c.slot);
    if (is_node(there)) {
        const std::uint32_t* const n = generation_->node(there);
        if (*n == f.header && same_bytes(n + 1, f.data, f.bytes)) return put(c.slot, there);
    }
    owned_.need(1);
    const auto made = reader_->nodes().make(c.path, f.header, f.data, f.bytes);
    put_owned(c.slot, made.h, made.fresh);
}

void text_difference::put_string(const text_change& c, std::string_view s) {
    put_string_inline(c, s);
}

void text_difference::put(std::uint32_t slot, handle h) noexcept {
    open_.back().values[slot] = h;
}

/// For a document without a previous version: puts a plain value that is the only change in the container around it,
/// which is not open. That container, and those around it that hold no other change, are made at once, from the
/// inside out; opening and closing each of them takes twice as long. `next`: where the next change is, behind that
/// container. False: nothing was done, as the value is not that plain or the container is the document.
bool text_difference::put_alone(const text_change& c, std::uint32_t next, std::string_view json) {
    using container = text_template::container;
    const container* const all = template_->containers.data();
    const container* const innermost = open_.empty() ? nullptr : open_.back().of;
    const auto is_alone = [&](const container& x) { return x.end <= next && x.parent != none && &x != innermost; };
    const container* in = all + c.parent;
    if (in->parent == none || c.what == text_change::kind::string || c.what == text_change::kind::container)
        return false;
    const std::string_view s = json.substr(c.begin, c.end - c.begin);
    const bool quoted = c.what == text_change::kind::plain;
    const string_form form(quoted ? s.substr(1, s.size() - 2) : std::string_view());
    generation::interned member{form.immediate, generation::known};
    if (!quoted && !(member.h = short_scalar(s))) return false;

    kept_.need(1);
    if (!member.h) member = reader_->nodes().make(c.path, form.header, form.data, form.bytes);
    kept_.push(member.h); // for `guard`, in case that there is no memory
    handle& kept = *kept_.at(kept_.size() - 1);
    std::uint32_t slot = c.slot;
    do {
        member = with_member(*in, slot, member);
        kept = member.h;
        slot = in->slot;
        in = all + in->parent;
    } while (is_alone(*in));
    if (in != innermost) open(static_cast<std::uint32_t>(in - all));
    owned_.need(1);
    kept_.resize_down(kept_.size() - 1);
    put_owned(slot, member.h, member.fresh);
    return true;
}

/// The template's container with another member, whose count it takes over.
[[gnu::always_inline]] inline generation::interned
text_difference::with_member(const text_template::container& c, std::uint32_t slot, generation::interned member) {
    handle* const values = values_.data() + c.values;
    const auto make = [&](std::uint8_t fresh, std::uint32_t n) __attribute__((always_inline)) {
        if (n > 1) copy_bytes(values, generation_->node(c.h) + 1, std::size_t{n} * 4);
        values[slot] = member.h;
        const auto made = reader_->nodes().make_container(c.path, fresh, c.header, values, n);
        if (made.fresh) {
            values[slot] = missing_handle; // the new node takes over its count
            generation_->retain_members(c.header, values, n);
        } else {
            generation_->release(member.h);
        }
        return made;
    };
    if (member.fresh != generation::fresh_and_plain) return make(member.fresh, c.n);
    return c.n == 1 ? make(generation::fresh_and_plain, 1) : make(generation::fresh_and_plain, c.n); // as most are
}

/// Takes over a count, for which there is room in `owned_`.
[[gnu::always_inline]] inline void text_difference::put_owned(std::uint32_t slot, handle h,
                                                              std::uint8_t fresh) noexcept {
    put(slot, h);
    open_.back().fresh |= fresh;
    if (is_node(h)) owned_.push(h, slot);
}

/// Most documents need no reader.
void text_difference::need_parts() {
    if (!std::exchange(parts_, true)) reader_->begin_parts(is_node(previous_));
}

/// Tells the builder where its next value belongs; `take_part` takes that value.
void text_difference::place(std::uint32_t slot) {
    need_parts();
    const open_container& in = open_.back();
    const text_template::container& t = *in.of;
    reader_->nodes().place(t.path, key_of(t, slot), previous_value(in, slot));
}

void text_difference::take_part(std::uint32_t slot) {
    owned_.need(1);
    std::uint8_t fresh = generation::known;
    const handle h = reader_->nodes().take_part(fresh);
    put_owned(slot, h, fresh);
}

[[gnu::always_inline]] inline void text_difference::enter(std::uint32_t i) {
    const text_template::container& c = template_->containers[i];
    const handle p = open_.empty() ? previous_ : previous_value(open_.back(), c.slot);
    open_container& in =
        open_.push(&c, values_.data() + c.values, nullptr, missing_handle, size32(owned_.size()), generation::known);
    if (is_node(p)) {
        const std::uint32_t* const n = generation_->node(p);
        if (*n == c.header) {
            in.previous = p;
            in.theirs = n + 1;
            generation_->prefetch(in.theirs, std::min(c.n, 32u));
        } else if (header_is_object(*n) ? header_is_object(c.header)
                                        : !header_is_object(c.header) && header_kind(*n) == node_kind::array) {
            in.previous = p;
            hard_ = hard_ || may_be_alike(*n, c.header);
        }
    }
    copy_bytes(in.values, generation_->node(c.h) + 1, std::size_t{c.n} * 4);
}

/// Opens the container, which is not the innermost open one, and those around it that are not open yet.
void text_difference::open(std::uint32_t i) {
    const text_template::container* const containers = template_->containers.data();
    const std::uint32_t innermost = open_.empty() ? none : static_cast<std::uint32_t>(open_.back().of - containers);
    if (containers[i].parent == innermost) {
        open_.need(1);
        return enter(i);
    }
    // First goes upwards. There may be a thousand containers: recursion would take much more memory.
    for (; containers[i].parent != innermost; i = containers[i].parent) {
        way_.need(1);
        way_.push(i);
    }
    open_.need(way_.size() + 1);
    for (enter(i); !way_.empty();) enter(way_.pop());
}

/// Whether two different shapes may have the same keys by text. Then the new version needs the shape of the previous
/// one, which is left to the parser.
bool text_difference::may_be_alike(handle a, handle b) noexcept {
    return header_is_object(a) && a != b && (generation_->is_loose(a) || generation_->is_loose(b));
}

/// The value at this place in the previous version, where that has other members or another number of elements.
handle text_difference::moved_value(const open_container& in, std::uint32_t slot) {
    const children theirs = children_of(generation_, in.previous);
    if (!theirs.keys) return slot < theirs.n ? theirs.values[slot] : missing_handle;
    // Equal keys have the same handle, or else the parser reads the text. A search among very many takes quadratic
    // time.
    if (theirs.n > 256) {
        hard_ = true;
        return missing_handle;
    }
    const handle key = key_of(*in.of, slot);
    const auto at = std::find(theirs.keys, theirs.keys + theirs.n, key);
    return at == theirs.keys + theirs.n ? missing_handle : theirs.values[at - theirs.keys];
}

/// Completes the innermost open container and makes it a member of the one around it. The returned handle is counted
/// in `owned_`, or by another owner that lasts as long. `is_new`: the previous version has no such container, and a
/// member is new and cannot be found by its content. The same then holds for the container, as for most of a first
/// list. `is_last`: no change follows, so only containers around this one are still to be made.
template <bool is_new>
[[gnu::always_inline]] inline handle text_difference::close(bool is_last) {
    const open_container& in = open_.back(); // a copy would wait for what the last member has just written
    const text_template::container& c = *in.of;
    handle* const values = in.values;
    generation::interned made{in.previous, in.fresh};
    bool counted = false;
    if (is_new || !in.theirs || std::memcmp(values, in.theirs, std::size_t{c.n} * 4) != 0) {
        std::uint8_t fresh_child = is_new ? std::uint8_t{generation::fresh_and_plain} : in.fresh;
        if (!is_new && in.previous) reconcile_members(in, fresh_child);
        if (!is_new && in.theirs && std::memcmp(values, in.theirs, std::size_t{c.n} * 4) == 0) {
            made = {in.previous, generation::known};
        } else {
            owned_.need(1);
            made = reader_->nodes().make_container(c.path, fresh_child, c.header, values, c.n, !is_last);
            counted = true;
        }
    } else {
        made.fresh = generation::known;
    }
    // A new node takes over the counts of new members and needs counts of its own for the others.
    const bool takes_over = is_new || (counted && made.fresh);
    const std::uint32_t owned = in.owned;
    for (const owned_member *m = owned_.begin() + owned, *const end = owned_.end(); m != end; ++m) {
        if (takes_over)
            values[m->slot] = missing_handle;
        else
            generation_->release(m->h);
    }
    if (takes_over) generation_->retain_members(c.header, values, c.n);
    owned_.resize_down(owned);
    if (counted) owned_.push(made.h, c.slot);
    open_.pop();
    if (open_.empty()) return made.h;
    put(c.slot, made.h);
    open_.back().fresh |= made.fresh;
    return made.h;
}

/// Closes the containers that end at or before that place of the template's text. Returns the outermost one of them.
handle text_difference::close_until(std::uint32_t place) {
    handle h = missing_handle;
    while (!open_.empty() && open_.back().of->end <= place)
        h = !open_.back().previous && open_.back().fresh == generation::fresh_and_plain ? close<true>(place == none)
                                                                                        : close<false>(place == none);
    return h;
}

/// Replaces members that come unchanged from the template by those of the previous version that read alike. Members
/// made by a change stay, even if they are the same as the template's: they were reconciled when they were made, and
/// their count is owned by that handle.
void text_difference::reconcile_members(const open_container& in, std::uint8_t& made_now) {
    if (hard_) return; // the result is thrown away anyway
    const text_template::container& c = *in.of;
    const handle* const ours = generation_->node(c.h) + 1;
    handle* const values = in.values;
    const owned_member *const mine = owned_.begin() + in.owned, *const end = owned_.end();
    for (const owned_member* m = mine; m != end; ++m) values[m->slot] = missing_handle;
    for (std::uint32_t k = 0; k < c.n; ++k) {
        if (!is_node(values[k]) || values[k] != ours[k] || (in.theirs && values[k] == in.theirs[k])) continue;
        values[k] = reconcile(values[k], previous_value(in, k), child_path(c.path, key_of(c, k)), made_now);
    }
    for (const owned_member* m = mine; m != end; ++m) values[m->slot] = m->h;
}

/// `ours` is a value of the template, `theirs` the one at its place in the previous version. Values stored without
/// interning may exist twice; this lets two versions of an object share what they have in common all the same.
/// `made_now` is set, never cleared.
handle text_difference::reconcile(handle ours, handle theirs, path_id path, std::uint8_t& made_now) {
    if (ours == theirs || !is_node(ours) || !is_node(theirs)) return ours;
    const std::uint32_t header = *generation_->node(ours), other = *generation_->node(theirs);
    const children a = children_of(generation_, ours), b = children_of(generation_, theirs);
    reconciled_ += !a.values ? 8 : 32 + 2 * std::int64_t{a.n}; // in the units of text_difference_templates.cpp
    if (!a.values) {
        const std::uint32_t* const n = generation_->node(ours);
        const bool same =
            header == other && generation_->has_content(theirs, header, n + 1, generation_->payload_bytes(n));
        return same ? theirs : ours;
    }
    if (!b.values || (a.keys != nullptr) != (b.keys != nullptr)) return ours;
    hard_ = hard_ || (a.keys && may_be_alike(header, other));
    std::vector<handle> values(a.values, a.values + a.n);
    member_finder members(generation_, b);
    bool any = false;
    std::uint8_t fresh_child = generation::known;
    for (std::uint32_t k = 0; k < a.n; ++k) {
        if (!is_node(values[k])) continue;
        const std::uint32_t at = header == other || !a.keys ? k : members.find(generation_, a.keys[k], k);
        if (at >= b.n) continue;
        const path_id below = child_path(path, a.keys ? a.keys[k] : element_key);
        values[k] = reconcile(values[k], b.values[at], below, fresh_child);
        any = any || values[k] != a.values[k];
    }
    if (generation_->has_content(theirs, header, values.data(), std::size_t{a.n} * 4)) return theirs;
    if (!any) return ours;
    kept_.need(1);
    const auto made = reader_->nodes().make_container(path, fresh_child, header, values.data(), a.n);
    kept_.push(made.h);
    if (made.fresh) generation_->retain_members(header, values.data(), a.n);
    made_now |= made.fresh;
    return made.h;
}

} // namespace informer::detail
