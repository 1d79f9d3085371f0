// Counts the references of a pool anew from everything that holds its nodes. If a count is one too low, memory is given
// away while somebody reads it; that shows much later, if at all, and somewhere else.
//
// The insides of a pool are private: the source that includes this is built so that it may look (test/CMakeLists.txt).
#pragma once

#include "object/detail/joining.hpp"
#include "object/detail/pool_slices.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace pool_audit {

using namespace informer;
using namespace informer::detail;

/// An audit at one moment, when nothing is dying in the current generation. `held`: all objects that exist outside of
/// the pool; `under_way`: all decodings.
class audit {
public:
    audit(pool& p, const std::vector<object>& held, const std::vector<decoding*>& under_way)
        : pool_(p), core_(*p.core_), g_(p.core_->current()) {
        if (g_.dying_ != generation::last_dying) return;
        count_roots(held);
        for (const auto& e : pool_.difference_.templates_) refer(e->t.document);
        for (handle_stack& s : core_.abandoned) refer(s);
        for (const auto& old : core_.generations)
            if (old.get() != &g_ && old->forwarded_to_ == g_.number_)
                for (const handle h : old->forwarded_) refer(old->forwarded(h));
        for (decoding* d : under_way) count_work(*static_cast<pool::sliced*>(d));
        for (std::size_t i = 0; i < found_.size() && fault_.empty(); ++i) look_into(found_[i]);
        if (fault_.empty()) check_counts();
        if (fault_.empty()) check_memory();
        if (fault_.empty()) check_templates();
        done_ = true;
    }
    bool done() const noexcept { return done_; } ///< false: nothing was checked, as something was dying
    const std::string& fault() const noexcept { return fault_; }

private:
    void wrong(std::string what) {
        if (fault_.empty()) fault_ = std::move(what);
    }
    template <class A, class B>
    void same(const char* what, A is, B should_be) {
        if (static_cast<std::uint64_t>(is) != static_cast<std::uint64_t>(should_be))
            wrong(std::string(what) + " is " + std::to_string(is) + ", and should be " + std::to_string(should_be));
    }

    void refer(handle h) {
        if (!is_node(h)) return;
        ++references_;
        if (expected_[h]++ == 0) found_.push_back(h);
    }
    void refer(handle_stack& s) {
        for (std::uint32_t i = 0; i < s.size(); ++i) refer(*s.at(i));
    }

    void count_roots(const std::vector<object>& held) {
        std::set<root*> roots;
        for (const object& o : held)
            if (o && o.root()->generation == &g_) roots.insert(o.root());
        for (root* list : {core_.pending, core_.retired.load()})
            for (; list; list = list->next)
                if (list->generation == &g_ && !roots.insert(list).second)
                    wrong("a root that is held waits to be freed");
        for (root* r : roots) refer(r->document);
        if (g_.roots < roots.size()) wrong("there are more roots than the generation knows of");
    }
    void count_work(pool::sliced& s) {
        if (s.generation_ != &g_) return;
        if (auto* const text = dynamic_cast<pool::text_slices*>(&s)) {
            refer(text->cursor_);
            refer(text->reader_.builder_.values_);
            refer(text->reader_.builder_.keys_);
        } else if (auto* const move = dynamic_cast<pool::move_slices*>(&s)) {
            refer(move->copier_.done_);
        }
    }

    void look_into(handle h) {
        if (!g_.is_alive(h)) return wrong("what is referred to dies");
        const std::uint32_t* const n = g_.node(h);
        const std::uint32_t header = *n;
        bytes_ += std::uint64_t{generation::rounded(g_.size_of(n))} * 4;
        if (header_is_object(header)) {
            refer(header);
            const std::uint32_t shape = *g_.node(header);
            if (header_is_object(shape) || header_kind(shape) != node_kind::shape)
                return wrong("the shape of an object is none");
            for (std::uint32_t i = 0; i < shape_size(shape); ++i) refer(n[1 + i]);
        } else if (header_kind(header) == node_kind::array) {
            for (std::uint32_t i = 0; i < header_length(header); ++i) refer(n[1 + i]);
        } else if (header_kind(header) == node_kind::shape) {
            for (std::uint32_t i = 0; i < shape_size(header); ++i) refer(n[1 + i]);
            check_finder(n);
        }
        if (!g_.is_interned(h)) return;
        ++interned_;
        const std::uint64_t hash = g_.hash(header, n + 1, g_.payload_bytes(n));
        if (g_.table_->find(hash, [h](handle candidate) { return candidate == h; }) != h)
            wrong("an interned node is not in the table");
    }

    /// Each key is where a look-up by its text looks.
    void check_finder(const std::uint32_t* shape) {
        const std::uint32_t keys = shape_size(*shape);
        for (std::uint32_t i = 0; i < keys; ++i) {
            const handle key = shape[1 + i];
            const std::string_view text = is_node(key) ? node_text(g_.node(key)) : std::string_view();
            bool found = false;
            if (shape_is_hashed(*shape)) {
                found = (is_node(key) ? g_.find_key(shape, text) : g_.find_small_key(shape, key)) == i;
            } else {
                const auto hash = is_node(key) ? quick_hash(text) : quick_hash_of_small(key);
                found = reinterpret_cast<const unsigned char*>(shape + 1 + keys)[i] == fingerprint_of(hash);
            }
            if (!found) return wrong("a look-up misses a key of a shape: " + std::string(text));
        }
    }

    void check_counts() {
        for (const auto& [h, n] : expected_) same("the count of a node", g_.count(h) & generation::count_mask, n);
        same("the number of nodes", g_.nodes_, expected_.size());
        same("the number of references", g_.references_, references_);
        std::uint64_t bytes = 0;
        for (const std::uint64_t b : g_.bytes_by_kind_) bytes += b;
        same("the bytes of nodes", bytes, bytes_);
        std::set<const void*> pages;
        std::uint64_t used = 0;
        for (const auto& page : g_.table_->directory_)
            if (pages.insert(page.get()).second) used += page->used;
        same("the number of nodes in the table", used, interned_);
    }

    /// No pieces of memory overlap, and the free lists hold as much as is counted.
    void check_memory() {
        struct piece {
            std::uint32_t at, words;
        };
        std::vector<piece> all;
        for (const auto& [h, n] : expected_)
            all.push_back({h & (node_bit - 1), generation::rounded(g_.size_of(g_.node(h)))});
        std::uint64_t free_words = 0;
        const auto is_free = [&](std::uint32_t at, std::uint32_t words) {
            all.push_back({at, words});
            free_words += words;
        };
        for (std::uint32_t c = 0; g_.free_heads_ && c < generation::classes; ++c)
            for (std::uint32_t at = g_.free_heads_[c]; at != generation::none; at = g_.words(at)[0])
                is_free(at, generation::size_of_class(c));
        for (std::size_t s = 0; g_.joining_ && s < g_.joining_->marks.size(); ++s) {
            if (!g_.joining_->marks[s]) continue;
            for (std::uint32_t w = 0; w < g_.segments_[s].words; ++w) {
                if ((g_.joining_->marks[s][w / 64] >> (w % 64) & 1) == 0) continue;
                const std::uint32_t at = static_cast<std::uint32_t>(s << segment_shift) + w;
                is_free(at, g_.words(at)[1]);
            }
        }
        same("the room on free lists", g_.free_list_words_, free_words);
        all.push_back({g_.small_.next, g_.small_.left()});
        for (const auto& r : g_.spare_) all.push_back({r.next, r.left()});
        std::erase_if(all, [](const piece& p) { return p.words == 0; });
        std::sort(all.begin(), all.end(), [](const piece& a, const piece& b) { return a.at < b.at; });
        for (std::size_t i = 0; i < all.size(); ++i) {
            const auto& [at, words] = all[i];
            const std::uint32_t s = at >> segment_shift;
            if (s >= g_.segments_.size() || !g_.segments_[s].base ||
                (at & (segment_words - 1)) + words > g_.segments_[s].words)
                return wrong("a piece of memory is outside of all");
            if (i > 0 && all[i - 1].at + all[i - 1].words > at) return wrong("two pieces of memory overlap");
        }
    }

    /// The containers of a template are those of its document.
    void check_templates() {
        for (const auto& e : pool_.difference_.templates_) {
            for (const text_template::container& c : e->t.containers) {
                if (!c.h) continue;
                const bool whole = c.parent == text_template::none;
                const handle there = whole ? e->t.document : g_.node(e->t.containers[c.parent].h)[1 + c.slot];
                if (there != c.h || (is_node(c.h) && *g_.node(c.h) != c.header))
                    return wrong("the container of a template is another");
            }
        }
    }

    pool& pool_;
    pool_core& core_;
    generation& g_;
    std::unordered_map<handle, std::uint32_t> expected_; // the count of each node
    std::vector<handle> found_;
    std::uint64_t references_ = 0, interned_ = 0, bytes_ = 0;
    std::string fault_;
    bool done_ = false;
};

} // namespace pool_audit
