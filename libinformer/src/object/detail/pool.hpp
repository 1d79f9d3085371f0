// The pool: takes documents as texts, as values and by moves, and returns them as handles of roots.
#pragma once

#include "copier.hpp"
#include "document_reader.hpp"
#include "json_reader.hpp"
#include "pool_core.hpp"
#include "text_difference.hpp"
#include "text_reader.hpp"

#include <informer/object/document_pool.hpp>
#include <informer/object/json.hpp>

#include <algorithm>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

namespace informer::detail {

/// A failure without a message if there is no memory for one.
inline failure said(errc code, const char* what) noexcept {
    try {
        return failure(code, what);
    } catch (const std::bad_alloc&) {
        return failure(code, std::string());
    }
}

/// The failure of a document whose storing ended by this exception.
inline failure said_of(const pool_is_full&) noexcept {
    return said(errc::pool_full, "store a document");
}
inline failure said_of(const std::bad_alloc&) noexcept {
    return said(errc::pool_full, "store a document: out of memory");
}
inline failure said_of(const value_is_too_long&) noexcept {
    return said(errc::too_large, "store a document: a value of more than 268,435,455 bytes or elements");
}

class pool final : public document_pool, public std::enable_shared_from_this<pool> {
public:
    pool(decode_options options, pool_limits limits)
        : options_(std::move(options)), projection_(options_.projection_), reader_(options_, projection_),
          difference_(limits.template_documents, projection_), core_(new pool_core(limits, hash_seed::random())) {
        options_.max_depth_ = std::clamp<std::size_t>(options_.max_depth_, 1, 1000);
    }
    ~pool() override { core_->close(); }
    pool(const pool&) = delete;
    pool& operator=(const pool&) = delete;

    object decode(std::string_view json, const object& previous, failure& f) override {
        if (options_.transform_) {
            f = failure();
            boost::json::value v; // outside of `build`, which may call its function twice
            try {
                if (!parse_transformed(v, json, options_, f)) return {};
            } catch (const std::bad_alloc& e) {
                f = said_of(e);
                return {};
            }
            object o = build(previous, f, [&](generation& g, companion beside) {
                return read_by(g, beside, false, [&] { return read_value(reader_, v, options_.max_depth_, f); });
            });
            if (f == errc::too_deep)
                f = said(errc::bad_configuration,
                         "the transform made the document nested too deeply"); // the text itself was not
            return o;
        }
        return build(previous, f, [&](generation& g, companion beside) {
            handle h = missing_handle;
            if (options_.text_difference_) {
                const handle old = beside.is_older ? beside.document : missing_handle;
                h = difference_.read(g, reader_, policy_, old, json, options_.max_depth_, scratch_);
            }
            if (!h) h = read_by(g, beside, false, [&] { return read_text(json, f); });
            if (h && options_.text_difference_) difference_.learn(g, h, json, core_->live_roots);
            return h;
        });
    }

    std::unique_ptr<decoding> begin_decode(std::string_view json, object previous) override;

    object encode(const boost::json::value& v, const object& previous, failure& f) override {
        return build(previous, f, [&](generation& g, companion beside) {
            return read_by(g, beside, true, [&] { return read_value(reader_, v, options_.max_depth_, f); });
        });
    }

    object move(const object& o, failure& f) override {
        f = failure();
        if (!o) return {};
        const root* r = o.root();
        if (r->generation == &core_->current()) return o;
        core_->collect(256);
        return retrying(f, [&](generation& g) {
            start_move(copier_, g, o);
            try {
                while (!copier_.step(std::numeric_limits<std::size_t>::max())) {
                }
            } catch (...) {
                copier_.abort();
                throw;
            }
            return adopt(g, copier_.take());
        });
    }

    std::unique_ptr<decoding> begin_move(object o) override;

    bool collect(std::size_t budget) override {
        if (!core_->drop_forwards(budget) || !core_->collect(budget)) return false;
        if (!core_->trim_old(budget)) return false;
        core_->drop_free_roots();
        if (core_->live_roots == 0) std::string().swap(scratch_);
        // Templates alone may keep alive what is left.
        if (!difference_.trim(core_->current(), core_->live_roots)) return true;
        return core_->collect(budget);
    }

    pool_statistics statistics() const override {
        pool_statistics s;
        for (const auto& g : core_->generations) g->add_to(s);
        std::uint64_t retired = 0; // only the writer takes from these lists
        for (const root* list : {core_->pending, core_->retired.load(std::memory_order_acquire)})
            for (; list; list = list->next) ++retired;
        s.objects = core_->live_roots - retired;
        std::uint64_t side = sizeof(pool) + sizeof(pool_core) + reader_.bytes() + copier_.bytes() +
                             scratch_.capacity() + (policy_ ? sizeof *policy_ : 0) + core_->work_bytes;
        for (const handle_stack& h : core_->abandoned) side += std::uint64_t{h.capacity()} * sizeof(handle);
        s.table_bytes += side;
        s.bytes += side;
        difference_.add_to(s);
        return s;
    }

    bool wants_compaction(std::uint64_t kept) const override {
        const generation& g = core_->current();
        const std::uint64_t dead = g.dead_bytes(), held = g.segment_bytes();
        if (held < 1024 * 1024 || dead <= held / 4) return false;
        std::uint64_t old = 0;
        for (const auto& one : core_->generations) old += one->segment_bytes();
        if (dead <= old - held) return false;
        return kept * ((held - dead) / std::max<std::uint64_t>(g.roots, 1)) <= dead / 16;
    }
    void begin_generation() override {
        difference_.forget(core_->current());
        core_->begin_generation();
        policy_.reset();
    }

    const decode_options& options() const noexcept override { return options_; }

private:
    class sliced;
    class text_slices;
    class move_slices;

    struct companion {
        handle document; ///< or missing_handle
        bool is_older;   ///< the older version
    };
    /// The document walked alongside a new one: its older version, or else one that is probably similar.
    companion alongside(const generation& g, const object& previous) const noexcept {
        const auto here = [&g](const root* r) { return r && r->generation == &g; };
        if (here(previous.root())) return {previous.root()->document, true};
        return {here(core_->last) ? core_->last->document : missing_handle, false};
    }

    void start_move(copier& by, generation& to, const object& o) const noexcept {
        const root* r = o.root();
        if (&r->generation->owner() == core_)
            by.start_move(to, *r->generation, r->document);
        else
            by.start_copy(to, *r->generation, r->document);
    }

    /// The parser decides what is refused, and says why.
    bool read_text(std::string_view json, failure& f) {
        if (!core_->limits.parser_only) {
            if (text_reader(reader_, json, options_.max_depth_, scratch_).read_all()) return true;
            reader_.abort();
            reader_.restart_to_check(); // stores nothing: there may be no room for the document twice
            if (!read_by_parser(reader_, json, options_.max_depth_, f)) return false;
            reader_.restart(); // stores what the parser takes: the reader refuses long white space, for example
        }
        return read_by_parser(reader_, json, options_.max_depth_, f);
    }

    /// The document that `read` passes to the reader, with one count, or missing.
    template <class Read>
    handle read_by(generation& g, const companion& beside, bool plain, const Read& read) {
        reader_.start(g, beside.document, policy_, beside.is_older, plain);
        if (read()) return reader_.finish();
        reader_.abort();
        return missing_handle;
    }

    /// Makes an object of the document that `read` returns with one count, or missing.
    template <class Read>
    [[gnu::always_inline]] object build(const object& previous, failure& f, const Read& read) {
        // Twice as much as the last document made, and some more: dead nodes never pile up.
        if (!core_->is_clean()) core_->collect(256 + 2 * last_made_);
        return retrying(f, [&](generation& g) -> object {
            const companion beside = alongside(g, previous);
            const std::uint64_t made_before = g.work_made();
            handle h = missing_handle;
            bool unchanged = false;
            try {
                h = read(g, beside);
                last_made_ = static_cast<std::size_t>(g.work_made() - made_before);
                if (scratch_.capacity() > 1024 * 1024) std::string().swap(scratch_);
                if (!h) return {};
                // A document that differs only in the order of members or the spelling of numbers is unchanged too.
                unchanged = beside.is_older && (h == beside.document || value(&g, h) == value(&g, beside.document));
            } catch (...) {
                reader_.abort();
                g.release(h);
                throw;
            }
            if (!unchanged) return adopt(g, h);
            g.release(h);
            return previous;
        });
    }

    /// If the generation is full, frees what died in it and tries once more.
    template <class Make>
    [[gnu::always_inline]] object retrying(failure& f, const Make& make) {
        for (bool again = true;; again = false) {
            if (f) f = failure();
            try {
                return make(core_->current());
            } catch (const pool_is_full& e) {
                f = said_of(e);
            } catch (const std::bad_alloc& e) {
                f = said_of(e);
            } catch (const value_is_too_long& e) {
                f = said_of(e);
                return {};
            }
            if (!again) return {};
            difference_.forget(core_->current());
            core_->collect(std::numeric_limits<std::size_t>::max());
        }
    }

    /// Takes over the count of the document.
    object adopt(generation& g, handle document) {
        try {
            core_->last = core_->make_root(g, document);
            return object(core_->last);
        } catch (...) {
            g.release(document);
            throw;
        }
    }

    decode_options options_;
    projection_trie projection_;
    document_reader reader_;
    text_difference difference_;
    copier copier_;
    std::unique_ptr<interning_policy> policy_; ///< belongs to the current generation, whose handles identify paths
    std::string scratch_;
    std::size_t last_made_ = 0;
    pool_core* core_; // frees itself
};

} // namespace informer::detail
