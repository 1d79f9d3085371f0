#include "detail/text_difference.hpp"

#include "detail/json_reader.hpp"
#include "detail/reading.hpp"
#include "detail/utf8.hpp"
#include "json_scan.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace informer::detail {

namespace {

constexpr std::uint32_t none = text_template::none;
constexpr std::size_t max_templates = 8;
constexpr std::size_t max_tried = 4;                 // of them for one text
constexpr std::size_t max_text = 256 * 1024;         // of a template
constexpr std::uint32_t price = 16, max_credit = 64; // a template is made for so many uses of others
constexpr std::uint64_t idle_after = 64;             // texts, before another may take its place
constexpr std::uint32_t refresh_after = 32;          // uses: perhaps the neighbours are more alike

/// The nodes of a document lie where they were made, the outermost one last. While the texts are compared they can come.
void prefetch(const generation& g, handle document) noexcept {
    if (!is_node(document)) return;
    const auto* const at = reinterpret_cast<const char*>(g.node(document));
    for (std::ptrdiff_t i = -1280; i <= 64; i += 64) // out of bounds or not: nothing is read
        __builtin_prefetch(
            reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(at) + static_cast<std::uintptr_t>(i)));
}

/// A number as JSON spells it (RFC 8259, section 6).
bool is_number(std::string_view s) noexcept {
    std::size_t i = 0;
    const auto digits = [&] {
        const std::size_t from = i;
        while (i < s.size() && s[i] >= '0' && s[i] <= '9') ++i;
        return i - from;
    };
    const auto take = [&](char a, char b) { return i < s.size() && (s[i] == a || s[i] == b) ? (++i, true) : false; };
    take('-', '-');
    const bool zero = i < s.size() && s[i] == '0';
    const std::size_t whole = digits();
    if (whole == 0 || (zero && whole > 1)) return false;
    if (take('.', '.') && digits() == 0) return false;
    if (take('e', 'E')) {
        take('+', '-');
        if (digits() == 0) return false;
    }
    return i == s.size();
}

handle literal_of(std::string_view s) noexcept {
    return s == "true" ? true_handle : s == "false" ? false_handle : s == "null" ? null_handle : missing_handle;
}

} // namespace

struct text_difference::counted {
    text_difference& d;
    ~counted() {
        for (const handle h : d.owned_) d.generation_->release(h);
        d.owned_.clear();
    }
};

// ---- reading

bool text_difference::read(generation& g, document_reader& to, handle previous, std::string_view json,
                           std::size_t max_depth, std::string& scratch) {
    wanted_ = true;
    const auto missed = [&] {
        if (++misses_ % 16 == 0 && credit_ < max_credit) ++credit_; // one day they may be alike
        return false;
    };
    if (templates_.empty()) return missed();
    if (pause_ > 0) {
        --pause_;
        return missed();
    }
    prefetch(g, previous);
    entry* const e = choose(json);
    handle h = missing_handle;
    if (e) {
        generation_ = &g;
        reader_ = &to;
        template_ = &e->t;
        previous_ = previous;
        const counted guard{*this};
        to.nodes().begin_parts();
        h = build(e->t, json, max_depth, scratch);
        to.nodes().end_parts();
        to.end_part();
        if (h) {
            to.nodes().document(h);
            after_use(*e, json, h);
        }
    }
    if (!h) {
        // Texts of many kinds: attempts cost little, but not nothing.
        if (++missed_ >= 16) pause_ = std::min(missed_ / 4, std::uint32_t{64});
        return missed();
    }
    ++hits_;
    missed_ = 0;
    return true;
}

/// The template whose text is nearest; its changes are in changes_.
text_difference::entry* text_difference::choose(std::string_view json) {
    const auto cost = [](const std::vector<text_change>& changes) {
        std::uint64_t sum = 0;
        for (const text_change& c : changes)
            sum += c.scalar ? 64 : 2048 + 4 * (c.end - c.begin); // about nanoseconds, to the power that does not matter
        return sum;
    };
    std::size_t best = templates_.size();
    std::uint64_t best_cost = ~std::uint64_t{0};
    for (std::size_t i = 0; i < std::min(templates_.size(), max_tried); ++i) {
        if (!match(templates_[i]->t, json, !projecting_, other_changes_)) continue;
        const std::uint64_t c = cost(other_changes_);
        if (c >= best_cost) continue;
        best = i;
        best_cost = c;
        std::swap(changes_, other_changes_);
        if (std::all_of(changes_.begin(), changes_.end(), [](const text_change& x) { return x.scalar; })) break;
    }
    if (best == templates_.size()) return nullptr;
    std::rotate(templates_.begin(), templates_.begin() + static_cast<std::ptrdiff_t>(best),
                templates_.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    return templates_.front().get();
}

handle text_difference::build(const text_template& t, std::string_view json, std::size_t max_depth,
                              std::string& scratch) {
    hard_ = false;
    states_.assign(t.containers.size(), 0);
    previous_at_.resize(t.containers.size());
    values_.resize(t.values);
    owned_.reserve(changes_.size() + t.containers.size());
    for (const text_change& c : changes_) {
        bool made_now = false;
        handle h = missing_handle;
        if (!read_change(c, json, max_depth, scratch, h, made_now)) return missing_handle;
        if (c.slot == none) continue;
        owned_.push_back(h);
        touch(c.parent);
        values_[t.containers[c.parent].values + c.slot] = h;
        if (made_now) states_[c.parent] |= fresh;
    }
    if (!(states_[0] & touched)) { // only what is not stored differs, if anything
        bool made_now = false;
        return reconcile(t.document, previous_, t.containers[0].path, made_now);
    }
    if (hard_) return missing_handle;
    for (const std::uint32_t i : t.closing) { // as the parser would: what a document repeats of itself is found
        if (!(states_[i] & touched)) continue;
        const handle h = finish_container(i);
        const text_template::container& c = t.containers[i];
        if (c.parent == none) return hard_ ? missing_handle : h;
        values_[t.containers[c.parent].values + c.slot] = h;
        if (states_[i] & fresh) states_[c.parent] |= fresh;
    }
    return missing_handle;
}

/// False: the parser would refuse it, or is to say so.
bool text_difference::read_change(const text_change& c, std::string_view json, std::size_t max_depth,
                                  std::string& scratch, handle& made, bool& made_now) {
    const std::string_view s = json.substr(c.begin, c.end - c.begin);
    const auto leaf = [&](auto add) {
        if (c.slot == none) return true;
        builder& nodes = reader_->nodes();
        place(c);
        add(nodes);
        made = nodes.take_part(made_now);
        return true;
    };
    switch (c.what) {
    case text_change::kind::container: return read_part(c, s, max_depth, scratch, made, made_now);
    case text_change::kind::plain: return leaf([&](builder& nodes) { nodes.string(s.substr(1, s.size() - 2)); });
    case text_change::kind::string: {
        if (std::any_of(s.begin(), s.end(), [](char x) { return static_cast<unsigned char>(x) < 0x20; })) return false;
        if (utf8_end(s) != s.size()) return false;
        const auto text = unescape(s);
        return text && leaf([&](builder& nodes) { nodes.string(*text); });
    }
    case text_change::kind::bare: break;
    }
    made = literal_of(s);
    return made || (is_number(s) && leaf([&](builder& nodes) { nodes.number(s); }));
}

/// A container, by the parser.
bool text_difference::read_part(const text_change& c, std::string_view part, std::size_t max_depth,
                                std::string& scratch, handle& made, bool& made_now) {
    std::size_t depth = 0;
    for (std::uint32_t i = c.parent; i != none; i = template_->containers[i].parent) ++depth;
    if (depth > max_depth) return false;
    const bool stored = c.slot != none;
    const bool is_metadata = stored && c.parent == 0 && string_of(generation_, key_of(c)) == "metadata";
    if (stored) place(c);
    reader_->begin_part(is_metadata, !stored);
    failure f;
    if (!read_json(*reader_, part, max_depth - depth, scratch, f)) return false;
    if (stored) made = reader_->nodes().take_part(made_now);
    return true;
}

handle text_difference::key_of(const text_change& c) const noexcept {
    const children in = children_of(generation_, template_->containers[c.parent].h);
    return in.keys ? in.keys[c.slot] : element_key;
}

void text_difference::place(const text_change& c) {
    reader_->nodes().place(template_->containers[c.parent].path, key_of(c), previous_value(c.parent, c.slot));
}

// ---- the ancestors of what changed

/// Makes the members of a container and of those around it ready to be changed.
void text_difference::touch(std::uint32_t i) {
    for (; i != none && !(states_[i] & touched); i = template_->containers[i].parent) {
        const text_template::container& c = template_->containers[i];
        const children of = children_of(generation_, c.h);
        std::copy_n(of.values, of.n, values_.begin() + c.values);
        states_[i] |= touched;
    }
}

/// The container of the same kind at this place in the previous version, or missing.
handle text_difference::previous_container(std::uint32_t i) {
    if (states_[i] & compared) return previous_at_[i];
    const text_template::container& c = template_->containers[i];
    handle h = c.parent == none ? previous_ : previous_value(c.parent, c.slot);
    if (!is_node(h)) {
        h = missing_handle;
    } else {
        const std::uint32_t ours = *generation_->node(c.h), theirs = *generation_->node(h);
        if (ours != theirs && header_is_object(ours) != header_is_object(theirs)) h = missing_handle;
    }
    states_[i] |= compared;
    previous_at_[i] = h;
    return h;
}

handle text_difference::previous_value(std::uint32_t i, std::uint32_t slot) {
    const handle p = previous_container(i);
    if (!p) return missing_handle;
    const children theirs = children_of(generation_, p);
    const handle h = template_->containers[i].h;
    if (*generation_->node(h) == *generation_->node(p)) return theirs.values[slot];
    if (!theirs.keys) return slot < theirs.n ? theirs.values[slot] : missing_handle;
    // Members were added or went: keys of one generation are the same handles. Very many would take quadratic time.
    if (theirs.n > 256) {
        hard_ = true;
        return missing_handle;
    }
    const auto at = std::find(theirs.keys, theirs.keys + theirs.n, children_of(generation_, h).keys[slot]);
    return at == theirs.keys + theirs.n ? missing_handle : theirs.values[at - theirs.keys];
}

/// The container with its new members; the count is owned_'s if it is ours.
handle text_difference::finish_container(std::uint32_t i) {
    const text_template::container& c = template_->containers[i];
    const children ours = children_of(generation_, c.h);
    const std::uint32_t header = *generation_->node(c.h);
    handle* const values = values_.data() + c.values;
    bool made_now = (states_[i] & fresh) != 0;
    const handle p = previous_container(i);
    const handle* const theirs = p && *generation_->node(p) == header ? generation_->node(p) + 1 : nullptr;
    for (std::uint32_t k = 0; p && k < ours.n; ++k) {
        if (!is_node(values[k]) || values[k] != ours.values[k] || (theirs && values[k] == theirs[k])) continue;
        const path_id path = child_path(c.path, ours.keys ? ours.keys[k] : element_key);
        values[k] = reconcile(values[k], theirs ? theirs[k] : previous_value(i, k), path, made_now);
    }
    const handle h = container(header, values, ours.n, c.path, p, made_now);
    states_[i] = static_cast<std::uint8_t>((states_[i] & ~fresh) | (made_now ? fresh : 0));
    return h;
}

/// `made_now`: one of the values was; then whether the container was.
handle text_difference::container(std::uint32_t header, const handle* values, std::uint32_t n, path_id path,
                                  handle previous, bool& made_now) {
    if (previous && generation_->has_content(previous, header, values, std::size_t{n} * 4)) {
        made_now = false;
        return previous;
    }
    owned_.reserve(owned_.size() + 1 < owned_.capacity() ? 0 : owned_.capacity() * 2 + 16);
    const auto r = reader_->nodes().make_container(path, made_now, header, values, n);
    owned_.push_back(r.h);
    made_now = r.fresh;
    if (r.fresh) {
        for (std::uint32_t k = 0; k < n; ++k) generation_->retain(values[k]);
        if (header_is_object(header)) generation_->retain(header);
    }
    return r.h;
}

/// A value of the template at the place of another in the previous version. What is stored without interning may be there
/// twice; two versions of an object share what they have in common all the same. `made_now` is set, never cleared.
handle text_difference::reconcile(handle ours, handle theirs, path_id path, bool& made_now) {
    if (ours == theirs || !is_node(ours) || !is_node(theirs)) return ours;
    const std::uint32_t header = *generation_->node(ours), other = *generation_->node(theirs);
    const children a = children_of(generation_, ours), b = children_of(generation_, theirs);
    if (!a.values) {
        const std::uint32_t* const n = generation_->node(ours);
        const bool same =
            header == other && generation_->has_content(theirs, header, n + 1, generation_->payload_bytes(n));
        return same ? theirs : ours;
    }
    if (!b.values || (a.keys != nullptr) != (b.keys != nullptr)) return ours;
    std::vector<handle> values(a.values, a.values + a.n);
    member_finder members(generation_, b);
    bool any = false, fresh_child = false;
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
    const handle h = container(header, values.data(), a.n, path, theirs, fresh_child);
    made_now = made_now || fresh_child;
    return h;
}

// ---- templates

void text_difference::after_use(entry& e, std::string_view json, handle document) {
    const bool same_structure =
        std::all_of(changes_.begin(), changes_.end(), [](const text_change& c) { return c.scalar; });
    wanted_ = !same_structure;
    e.last_use = hits_ + misses_;
    if (!same_structure) return;
    if (credit_ < max_credit) ++credit_;
    const auto n = static_cast<std::uint32_t>(changes_.size());
    if (e.usual == 0) e.usual = n + 1;
    ++e.uses;
    if (n <= e.usual + e.usual / 2 + 8 && (e.uses < refresh_after || n <= 8)) return;
    if (json.size() > max_text) return;
    generation_->retain(document);
    generation_->release(std::exchange(e.t.document, document));
    e.t.rebase(*generation_, json, document, changes_);
    e.usual = e.uses = 0;
}

void text_difference::learn(generation& g, handle document, std::string_view json,
                            std::uint64_t live_documents) noexcept {
    if (!wanted_ || live_documents < min_documents_ || json.size() > max_text || credit_ < price) return;
    const std::uint64_t most = budget(g);
    if (json.size() > most) return;
    const auto in_use = [&](const entry& e) { return hits_ + misses_ < e.last_use + idle_after; };
    try {
        templates_.reserve(max_templates);
        auto e = std::make_unique<entry>();
        credit_ -= price; // also for what cannot be mapped
        if (!e->t.map(g, json, document) || e->t.bytes() > most) return;
        e->last_use = hits_ + misses_;
        while (templates_.size() == max_templates || (!templates_.empty() && template_bytes() + e->t.bytes() > most)) {
            if (in_use(*templates_.back())) return;
            g.release(templates_.back()->t.document); // not used for the longest time
            templates_.pop_back();
        }
        g.retain(document);
        templates_.insert(templates_.begin(), std::move(e));
        pause_ = missed_ = 0;
    } catch (const std::bad_alloc&) { // then without
    }
}

bool text_difference::forget(generation& g) noexcept {
    if (templates_.empty()) return false;
    for (const auto& e : templates_) g.release(e->t.document);
    templates_.clear();
    credit_ = max_credit;
    missed_ = pause_ = 0;
    return true;
}

std::uint64_t text_difference::template_bytes() const noexcept {
    std::uint64_t n = 0;
    for (const auto& e : templates_) n += sizeof(entry) + e->t.bytes();
    return n;
}

std::uint64_t text_difference::budget(const generation& g) const noexcept {
    return 64 * 1024 + g.segment_bytes() / 64;
}

void text_difference::add_to(pool_statistics& s) const noexcept {
    const std::uint64_t side =
        template_bytes() + (changes_.capacity() + other_changes_.capacity()) * sizeof(text_change) +
        (values_.capacity() + previous_at_.capacity() + owned_.capacity()) * 4 + states_.capacity();
    s.table_bytes += side;
    s.bytes += side;
    s.referenced_nodes -= templates_.size(); // which are neither nodes nor roots
    s.templates += templates_.size();
    s.template_bytes += template_bytes();
    s.template_hits += hits_;
    s.template_misses += misses_;
}

} // namespace informer::detail
