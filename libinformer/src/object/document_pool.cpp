#include <informer/object/document_pool.hpp>
#include <informer/object/json.hpp>

#include "detail/copier.hpp"
#include "detail/document_reader.hpp"
#include "detail/json_reader.hpp"
#include "detail/pool_core.hpp"
#include "detail/text_difference.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

namespace informer {
namespace detail {

namespace {

class pool final : public document_pool {
public:
    pool(decode_options options, pool_limits limits)
        : options_(std::move(options)), projection_(options_.projection_), reader_(options_, projection_),
          difference_(limits.template_documents, projection_),
          core_(new pool_core(limits, hash_seed::random())) {
        options_.max_depth_ = std::clamp<std::size_t>(options_.max_depth_, 1, 1000);
    }
    ~pool() override { core_->close(); }
    pool(const pool&) = delete;
    pool& operator=(const pool&) = delete;

    object decode(std::string_view json, const object& previous, failure& f) override {
        if (options_.transform_) {
            f = failure();
            boost::json::value v; // outside of `build`, which may run twice
            if (!parse_transformed(v, json, options_.max_depth_, options_.transform_, f)) return {};
            return build(previous, f, false, [&](generation&, handle) { return read_value(reader_, v, options_.max_depth_, f); });
        }
        return build(previous, f, false, [&](generation& g, handle old) {
            if (!options_.text_difference_ || !difference_.read(g, reader_, old, json, options_.max_depth_, scratch_))
                if (!read_json(reader_, json, options_.max_depth_, scratch_, f)) return false;
            if (options_.text_difference_) difference_.learn(g, reader_.nodes().built(), json, core_->live_roots);
            return true;
        });
    }

    object encode(const boost::json::value& v, const object& previous, failure& f) override {
        return build(previous, f, true, [&](generation&, handle) { return read_value(reader_, v, options_.max_depth_, f); });
    }

    object move(const object& o, failure& f) override {
        f = failure();
        if (!o) return {};
        const root* r = o.root();
        if (r->generation == &core_->current()) return o;
        core_->collect(256);
        return retrying(f, [&](generation& g) {
            const bool ours = &r->generation->owner() == core_;
            const handle h =
                ours ? copier_.move(g, *r->generation, r->document) : copier_.copy(g, *r->generation, r->document);
            return adopt(g, h);
        });
    }

    bool collect(std::size_t budget) override {
        if (!core_->collect(budget)) return false;
        // What is left may live for the templates alone.
        if (!difference_.forget_if_few(core_->current(), core_->live_roots)) return true;
        return core_->collect(budget);
    }

    pool_statistics statistics() const override {
        pool_statistics s;
        for (const auto& g : core_->generations) g->add_to(s);
        std::uint64_t retired = 0; // only we take from these lists
        for (const root* list : {core_->pending, core_->retired.load(std::memory_order_acquire)})
            for (; list; list = list->next) ++retired;
        s.objects = core_->live_roots - retired;
        const std::uint64_t side = sizeof(pool) + sizeof(pool_core) + core_->slab_roots * sizeof(root) +
                                   reader_.bytes() + copier_.bytes() + scratch_.capacity() +
                                   (policy_ ? sizeof *policy_ : 0);
        s.table_bytes += side;
        s.bytes += side;
        difference_.add_to(s);
        return s;
    }

    bool wants_compaction() const override {
        const generation& g = core_->current();
        return g.segment_bytes() >= 1024 * 1024 && g.dead_bytes() > g.segment_bytes() / 4;
    }
    void begin_generation() override {
        difference_.forget(core_->current());
        core_->begin_generation();
        policy_.reset();
    }

    const decode_options& options() const noexcept override { return options_; }

private:
    /// Makes an object of what `read` hands to the reader.
    template <class Read>
    object build(const object& previous, failure& f, bool plain, const Read& read) {
        // As much as the last document made, and some: the dead never pile up.
        core_->collect(256 + 2 * last_made_);
        return retrying(f, [&](generation& g) -> object {
            // The older version, or else a document that probably looks alike.
            const root* old = previous.root();
            const bool has_old = old && old->generation == &g;
            const root* cursor = has_old ? old : core_->last && core_->last->generation == &g ? core_->last : nullptr;
            const std::uint64_t made_before = g.nodes_made();
            try {
                reader_.start(g, cursor ? cursor->document : missing_handle, policy_, has_old, plain);
                const bool ok = read(g, has_old ? old->document : missing_handle);
                last_made_ = static_cast<std::size_t>(g.nodes_made() - made_before);
                if (scratch_.capacity() > 1024 * 1024) std::string().swap(scratch_);
                if (!ok) {
                    reader_.abort();
                    return {};
                }
            } catch (...) {
                reader_.abort();
                throw;
            }
            const handle h = reader_.finish();
            // Equal but for the order of members or the spelling of numbers is unchanged too.
            if (has_old && (h == old->document || value(&g, h) == value(&g, old->document))) {
                g.release(h);
                return previous;
            }
            return adopt(g, h);
        });
    }

    /// A full generation is emptied of what died and tried once more.
    template <class Make>
    object retrying(failure& f, const Make& make) {
        for (bool again = true;; again = false) {
            f = failure();
            try {
                return make(core_->current());
            } catch (const pool_is_full&) {
                f = failure(errc::pool_full, "store a document");
            } catch (const std::bad_alloc&) {
                f = failure(errc::pool_full, "store a document: out of memory");
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
    std::unique_ptr<interning_policy> policy_; ///< belongs to the current generation: paths are known by its handles
    std::string scratch_;
    std::size_t last_made_ = 0;
    pool_core* core_; // frees itself
};

} // namespace

std::shared_ptr<document_pool> make_pool(decode_options options, pool_limits limits) {
    return std::make_shared<pool>(std::move(options), limits);
}

/// For one document: a chunk that it nearly fills.
pool_limits limits_for(std::size_t text_size) {
    pool_limits l;
    l.first_chunk = static_cast<std::uint32_t>(std::clamp<std::size_t>(text_size / 2 + 256, 512, 64 * 1024));
    return l;
}

} // namespace detail

std::shared_ptr<document_pool> document_pool::make(decode_options options) {
    return detail::make_pool(std::move(options), detail::pool_limits());
}

object parse_object(std::string_view json, failure& f, decode_options options) {
    return detail::make_pool(std::move(options), detail::limits_for(json.size()))->decode(json, object(), f);
}

object parse_object(std::string_view json, decode_options options) {
    failure f;
    object o = parse_object(json, f, std::move(options));
    throw_on(f);
    return o;
}

object from_value(const boost::json::value& v) {
    failure f;
    object o = document_pool::make()->encode(v, object(), f);
    throw_on(f);
    return o;
}

} // namespace informer
