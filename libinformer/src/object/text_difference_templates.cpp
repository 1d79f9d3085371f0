// Which texts become templates, which of them a text is compared with, and whether that pays.
#include "detail/text_difference.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <utility>

namespace informer::detail {

namespace {

constexpr std::uint32_t none = text_template::none;
constexpr std::size_t max_templates = 8;
constexpr std::size_t max_tried = 3;         // templates compared with one text
constexpr std::size_t max_text = 256 * 1024; // the longest of a template
constexpr std::uint32_t refresh_after = 32;  // uses; the neighbours of a later text may be more alike

// Costs in units of some 13 instructions, about a nanosecond, fitted to what callgrind counts for pods of 10.6 KB and
// objects of 209 bytes (docs/design/text-difference.md). Only their ratios matter.
std::int64_t parse_cost(std::size_t bytes) noexcept {
    return static_cast<std::int64_t>(256 + bytes - bytes / 8);
}
/// A container that the parser reads within a text whose rest is read by its differences: the document has to be
/// reconciled with the previous version, too.
std::int64_t part_cost(std::size_t bytes) noexcept {
    return 768 + parse_cost(bytes);
}
std::int64_t skip_cost(std::size_t bytes) noexcept { // what is not stored is only checked
    return static_cast<std::int64_t>(128 + bytes / 4);
}
std::int64_t learn_cost(std::size_t bytes) noexcept {
    return static_cast<std::int64_t>(512 + bytes + bytes / 2);
}
constexpr std::int64_t build_cost = 64, plain_scalar_cost = 33;
/// Finding the end of a string that is not plain is no faster than reading the string.
std::int64_t scalar_cost(const text_change& c) noexcept {
    return plain_scalar_cost + (c.what == text_change::kind::string ? std::int64_t{c.end} - c.begin : 0);
}

} // namespace

/// Whether to try templates for this text. Failed attempts and unused templates cost time, which the uses that save
/// time must pay for. Where they do not suffice (texts of more structures than there are templates, in no order), the
/// parser reads all texts for a while, and then there is a loan for one template and a few attempts.
bool text_difference::awake(std::string_view json) {
    if (pause_ > 0 && !tireless) {
        --pause_;
        return false;
    }
    if (balance_ < 0 || tireless) balance_ = learn_cost(json.size()) + parse_cost(json.size());
    return true;
}

void text_difference::settle(bool used, std::size_t bytes, std::int64_t cost) {
    const std::int64_t whole = parse_cost(bytes);
    // A text for which no template was tried costs something, too: otherwise a balance too low for a template would
    // stay.
    balance_ = std::min(balance_ + (used ? whole : -whole / 64) - cost, std::max(16 * whole, 2 * wish_));
    if (balance_ >= 4 * whole) next_pause_ = first_pause;
    if (balance_ >= 0) return;
    wish_ = 0;
    pause_ = next_pause_;
    next_pause_ = std::min(2 * next_pause_, longest_pause);
}

/// The template whose text is nearest; its changes are in `changes_`. The template used last is tried first, and
/// mostly fits. Then come some whose texts are about as long: texts of one structure are, and most attempts with
/// others would fail.
text_difference::entry* text_difference::choose(std::string_view json, std::int64_t& cost) {
    const std::int64_t whole = parse_cost(json.size());
    std::size_t best = templates_.size();
    std::int64_t best_cost = std::numeric_limits<std::int64_t>::max();
    scalars_ = false;
    const auto is_near_enough = [&](std::size_t i) {
        bool simple = false;
        if (!match(templates_[i]->t, json, !projecting_, other_changes_, cost, simple)) return false;
        std::int64_t its = build_cost;
        bool scalars = true;
        if (simple) [[likely]] {
            its += plain_scalar_cost * static_cast<std::int64_t>(other_changes_.size());
        } else {
            for (const text_change& c : other_changes_) {
                const std::size_t bytes = c.end - c.begin;
                its += c.scalar ? scalar_cost(c) : c.slot == none ? skip_cost(bytes) : part_cost(bytes);
                scalars = scalars && c.scalar;
            }
        }
        if (its >= best_cost) return false;
        best = i;
        best_cost = its;
        scalars_ = scalars;
        std::swap(changes_, other_changes_);
        return scalars || its < whole / 2; // to try another one may cost as much
    };
    const auto apart_from = [&](std::size_t i) {
        const std::size_t length = templates_[i]->t.text.size();
        return length < json.size() ? json.size() - length : length - json.size();
    };
    if (apart_from(0) > json.size() / 4 || !is_near_enough(0)) {
        struct candidate {
            std::size_t apart, i;
        };
        std::array<candidate, max_templates> others{};
        std::size_t n = 0;
        for (std::size_t i = 1; i < templates_.size(); ++i) {
            const std::size_t apart = apart_from(i);
            if (apart <= json.size() / 32) others[n++] = {apart, i};
        }
        const auto nearest = std::min(n, max_tried - 1);
        const auto at = [&](std::size_t k) { return others.begin() + static_cast<std::ptrdiff_t>(k); };
        std::partial_sort(at(0), at(nearest), at(n), [](const candidate& x, const candidate& y) {
            return x.apart != y.apart ? x.apart < y.apart : x.i < y.i;
        });
        for (std::size_t k = 0; k < nearest; ++k)
            if (is_near_enough(others[k].i)) break;
    }
    if (best == templates_.size() || (best_cost > (scalars_ ? whole : whole - whole / 4) && !tireless)) return nullptr;
    cost += best_cost;
    std::rotate(templates_.begin(), templates_.begin() + static_cast<std::ptrdiff_t>(best),
                templates_.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    return templates_.front().get();
}

void text_difference::after_use(entry& e, std::string_view json, handle document) {
    wanted_ = !scalars_;
    if (!scalars_) return;
    const auto n = static_cast<std::uint32_t>(changes_.size());
    if (e.usual == 0) e.usual = n + 1;
    ++e.uses;
    if (n <= e.usual + e.usual / 2 + 8 && (e.uses < refresh_after || n <= 8)) return;
    if (json.size() > max_text) return;
    const handle old = e.t.document;
    e.t.rebase(*generation_, json, document, changes_);
    generation_->retain(document);
    generation_->release(old);
    e.usual = e.uses = 0;
}

void text_difference::learn(generation& g, handle document, std::string_view json,
                            std::uint64_t live_documents) noexcept {
    if (!wanted_ || json.size() > max_text || !is_node(document)) return;
    if (live_documents < min_documents_) {
        balance_ = -1; // too few documents so far
        return;
    }
    const std::uint64_t most = budget(g);
    if (json.size() > most) return;
    const std::int64_t price = learn_cost(json.size());
    if (balance_ < price) { // a template never takes it below zero: that would be a loan without a pause
        wish_ = std::max(wish_, price);
        return;
    }
    if (wish_ <= price) wish_ = 0;
    try {
        templates_.reserve(max_templates);
        auto e = std::make_unique<entry>();
        balance_ -= price; // also if the text cannot be mapped
        if (!e->t.map(g, json, document) || e->t.bytes() > most) return;
        while (templates_.size() == max_templates || (!templates_.empty() && template_bytes() + e->t.bytes() > most))
            drop_last(g);
        g.retain(document);
        templates_.insert(templates_.begin(), std::move(e));
    } catch (const std::bad_alloc&) { // then there is no new template
    }
}

bool text_difference::forget(generation& g) noexcept {
    if (templates_.empty()) return false;
    for (const auto& e : templates_) g.release(e->t.document);
    templates_.clear();
    balance_ = -1;
    wish_ = 0;
    pause_ = 0;
    next_pause_ = first_pause;
    return true;
}

bool text_difference::trim(generation& g, std::uint64_t live_documents) noexcept {
    if (live_documents < (min_documents_ + 1) / 2) return forget(g);
    const std::uint64_t most = budget(g);
    const std::size_t before = templates_.size();
    while (!templates_.empty() && template_bytes() > most) drop_last(g);
    return templates_.size() != before;
}

void text_difference::drop_last(generation& g) noexcept {
    g.release(templates_.back()->t.document);
    templates_.pop_back();
}

std::uint64_t text_difference::template_bytes() const noexcept {
    std::uint64_t n = 0;
    for (const auto& e : templates_) n += sizeof(entry) + e->t.bytes();
    return n;
}

std::uint64_t text_difference::budget(const generation& g) const noexcept {
    return 64 * 1024 + (g.segment_bytes() - g.free_bytes()) / 64;
}

void text_difference::add_to(pool_statistics& s) const noexcept {
    const std::uint64_t side = template_bytes() +
                               (changes_.capacity() + other_changes_.capacity()) * sizeof(text_change) +
                               open_.capacity() * sizeof(open_container) + owned_.capacity() * sizeof(owned_member) +
                               (values_.capacity() + kept_.capacity() + way_.capacity()) * 4;
    s.table_bytes += side;
    s.bytes += side;
    s.referenced_nodes -= templates_.size(); // the templates' own, which come neither from nodes nor from roots
    s.templates += templates_.size();
    s.template_bytes += template_bytes();
    s.template_hits += hits_;
    s.template_misses += misses_;
}

} // namespace informer::detail
