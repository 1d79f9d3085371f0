#include <informer/object/document_pool.hpp>
#include <informer/object/json.hpp>

#include "detail/comparison.hpp"
#include "detail/copier.hpp"
#include "detail/document_reader.hpp"
#include "detail/json_reader.hpp"
#include "detail/pool_core.hpp"
#include "detail/text_difference.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <optional>
#include <utility>

namespace informer {
namespace detail {

namespace {

class pool final : public document_pool, public std::enable_shared_from_this<pool> {
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

    std::unique_ptr<decoding> begin_decode(std::string_view json, object previous) override;

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
    class slices;

    struct companion {
        handle document; ///< or missing_handle
        bool is_older;   ///< the older version
    };
    /// What is walked alongside a new document: its older version, or else one that probably looks alike.
    companion alongside(const generation& g, const object& previous) const noexcept {
        const auto here = [&g](const root* r) { return r && r->generation == &g; };
        if (here(previous.root())) return {previous.root()->document, true};
        return {here(core_->last) ? core_->last->document : missing_handle, false};
    }

    /// Makes an object of what `read` hands to the reader.
    template <class Read>
    object build(const object& previous, failure& f, bool plain, const Read& read) {
        // As much as the last document made, and some: the dead never pile up.
        core_->collect(256 + 2 * last_made_);
        return retrying(f, [&](generation& g) -> object {
            const auto [cursor, has_old] = alongside(g, previous);
            const std::uint64_t made_before = g.nodes_made();
            try {
                reader_.start(g, cursor, policy_, has_old, plain);
                const bool ok = read(g, has_old ? cursor : missing_handle);
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
            if (has_old && (h == cursor || value(&g, h) == value(&g, cursor))) {
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

/// A document on its way, with a reader of its own. It holds the document alongside, and the generation that it builds in; when
/// another one begins, it starts over there.
class pool::slices final : public decoding {
public:
    slices(std::shared_ptr<pool> of, std::string_view json, object previous)
        : pool_(std::move(of)), core_(*pool_->core_), json_(json), previous_(std::move(previous)),
          reader_(pool_->options_, pool_->projection_) {}
    ~slices() override { give_up(); }
    slices(const slices&) = delete;
    slices& operator=(const slices&) = delete;

    bool step(std::size_t bytes) override {
        if (at_ == stage::begin && (json_.size() <= bytes || pool_->options_.transform_)) {
            result_ = pool_->decode(json_, previous_, failure_);
            at_ = stage::done;
        }
        if (at_ == stage::done) return true;
        try {
            advance(std::max<std::size_t>(bytes, 1));
        } catch (const pool_is_full&) {
            full("store a document");
        } catch (const std::bad_alloc&) {
            full("store a document: out of memory");
        } catch (...) {
            give_up();
            throw;
        }
        return at_ == stage::done;
    }

    object finish(failure& f) override {
        f = std::exchange(failure_, failure());
        return std::exchange(result_, object());
    }

private:
    enum class stage : unsigned char { begin, read, compare, make_room, done };

    void advance(std::size_t bytes) {
        if (generation_ && generation_ != &core_.current()) {
            give_up();
            at_ = stage::begin;
        }
        switch (at_) {
        case stage::begin: start(); [[fallthrough]];
        case stage::read: return read(bytes);
        case stage::compare:
            if (comparison_.step(bytes)) done(comparison_.equal());
            return;
        case stage::make_room:
            if (core_.collect(bytes)) at_ = stage::begin;
            return;
        case stage::done: return;
        }
    }

    void start() {
        generation& g = core_.current();
        const companion beside = pool_->alongside(g, previous_);
        has_old_ = beside.is_older;
        cursor_ = beside.document;
        text_.emplace(reader_, json_, pool_->options_.max_depth_);
        reader_.start(g, cursor_, pool_->policy_, has_old_, false);
        core_.hold(g);
        g.retain(cursor_); // the document stored last may die meanwhile
        generation_ = &g;
        at_ = stage::read;
    }

    void read(std::size_t bytes) {
        generation& g = *generation_;
        core_.collect(256 + 2 * made_); // its share: as much as the last slice made, and some
        const std::uint64_t made_before = g.nodes_made();
        reader_.nodes().resume();
        const bool whole = text_->read(bytes, failure_);
        made_ = static_cast<std::size_t>(g.nodes_made() - made_before);
        if (!whole) return;
        if (failure_) {
            give_up();
            at_ = stage::done;
            return;
        }
        const handle h = reader_.nodes().built();
        if (!has_old_ || h == cursor_) return done(h == cursor_ && has_old_);
        comparison_.start(g, h, cursor_);
        at_ = stage::compare;
    }

    void done(bool unchanged) {
        const handle h = reader_.finish();
        if (unchanged) {
            generation_->release(h);
            result_ = previous_;
        } else {
            result_ = pool_->adopt(*generation_, h);
        }
        leave();
        at_ = stage::done;
    }

    /// A full generation is emptied of what died and tried once more.
    void full(const char* what) {
        give_up();
        if (std::exchange(tried_, true)) {
            failure_ = failure(errc::pool_full, what);
            at_ = stage::done;
            return;
        }
        pool_->difference_.forget(core_.current());
        at_ = stage::make_room;
    }

    /// What was built is freed by `collect`, a share at a time; in an older generation it goes with that.
    void give_up() noexcept {
        if (!generation_) return;
        if (generation_ != &core_.current())
            reader_.nodes().forget();
        else
            reader_.nodes().abandon(core_.abandoned);
        leave();
    }

    void leave() noexcept {
        if (generation_ == &core_.current()) generation_->release(cursor_);
        core_.let_go(*std::exchange(generation_, nullptr));
        text_.reset();
    }

    const std::shared_ptr<pool> pool_;
    pool_core& core_;
    const std::string_view json_;
    const object previous_;
    document_reader reader_;
    std::optional<json_slices> text_;
    comparison comparison_;
    stage at_ = stage::begin;
    bool has_old_ = false, tried_ = false;
    generation* generation_ = nullptr; ///< held, while there is something of ours
    handle cursor_ = missing_handle;   ///< a count of it is ours
    std::size_t made_ = 0;
    failure failure_;
    object result_;
};

std::unique_ptr<decoding> pool::begin_decode(std::string_view json, object previous) {
    return std::make_unique<slices>(shared_from_this(), json, std::move(previous));
}

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
