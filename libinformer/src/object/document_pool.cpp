#include <informer/object/document_pool.hpp>
#include <informer/object/json.hpp>

#include "detail/comparison.hpp"
#include "detail/copier.hpp"
#include "detail/document_reader.hpp"
#include "detail/json_reader.hpp"
#include "detail/pool_core.hpp"
#include "detail/text_difference.hpp"
#include "detail/text_reader.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <optional>
#include <utility>

namespace informer {
namespace detail {

namespace {

/// Without words where there is no memory for any.
failure said(errc code, const char* what) noexcept {
    try {
        return failure(code, what);
    } catch (const std::bad_alloc&) {
        return failure(code, std::string());
    }
}

/// What ends a document while it is being stored.
failure said_of(const pool_is_full&) noexcept { return said(errc::pool_full, "store a document"); }
failure said_of(const std::bad_alloc&) noexcept { return said(errc::pool_full, "store a document: out of memory"); }
failure said_of(const value_is_too_long&) noexcept {
    return said(errc::too_large, "store a document: a value of more than 268,435,455 bytes or elements");
}

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
            try {
                if (!parse_transformed(v, json, options_.max_depth_, options_.transform_, f)) return {};
            } catch (const std::bad_alloc& e) {
                f = said_of(e);
                return {};
            }
            object o = build(previous, f, false, [&](generation&, handle) { return read_value(reader_, v, options_.max_depth_, f); });
            if (f == errc::too_deep) f = said(errc::bad_configuration, "the transform made the document nested too deeply"); // its text was not
            return o;
        }
        return build(previous, f, false, [&](generation& g, handle old) {
            if (!options_.text_difference_ || !difference_.read(g, reader_, old, json, options_.max_depth_, scratch_))
                if (!read_text(json, f)) return false;
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
        core_->drop_free_roots();
        // What is left may live for the templates alone.
        if (!difference_.trim(core_->current(), core_->live_roots)) return true;
        return core_->collect(budget);
    }

    pool_statistics statistics() const override {
        pool_statistics s;
        for (const auto& g : core_->generations) g->add_to(s);
        std::uint64_t retired = 0; // only we take from these lists
        for (const root* list : {core_->pending, core_->retired.load(std::memory_order_acquire)})
            for (; list; list = list->next) ++retired;
        s.objects = core_->live_roots - retired;
        std::uint64_t side = sizeof(pool) + sizeof(pool_core) + reader_.bytes() + copier_.bytes() + scratch_.capacity() +
                             (policy_ ? sizeof *policy_ : 0) + core_->work_bytes;
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
    /// What is walked alongside a new document: its older version, or else one that probably looks alike.
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

    /// What is refused, and why, the parser says.
    bool read_text(std::string_view json, failure& f) {
        if (!core_->limits.parser_only) {
            if (text_reader(reader_, json, options_.max_depth_, scratch_).read_all()) return true;
            reader_.abort();
            reader_.restart_to_check(); // there may be no room for it twice
            if (!read_by_parser(reader_, json, options_.max_depth_, f)) return false;
            reader_.restart(); // what the parser takes is stored: the reader refuses, say, white space that is long
        }
        return read_by_parser(reader_, json, options_.max_depth_, f);
    }

    /// Makes an object of what `read` hands to the reader.
    template <class Read>
    object build(const object& previous, failure& f, bool plain, const Read& read) {
        // As much as the last document made, and some: the dead never pile up.
        core_->collect(256 + 2 * last_made_);
        return retrying(f, [&](generation& g) -> object {
            const auto [cursor, has_old] = alongside(g, previous);
            const std::uint64_t made_before = g.work_made();
            bool unchanged = false;
            try {
                reader_.start(g, cursor, policy_, has_old, plain);
                const bool ok = read(g, has_old ? cursor : missing_handle);
                last_made_ = static_cast<std::size_t>(g.work_made() - made_before);
                if (scratch_.capacity() > 1024 * 1024) std::string().swap(scratch_);
                if (!ok) {
                    reader_.abort();
                    return {};
                }
                const handle h = reader_.nodes().built();
                // Equal but for the order of members or the spelling of numbers is unchanged too.
                unchanged = has_old && (h == cursor || value(&g, h) == value(&g, cursor));
            } catch (...) {
                reader_.abort();
                throw;
            }
            const handle h = reader_.finish();
            if (!unchanged) return adopt(g, h);
            g.release(h);
            return previous;
        });
    }

    /// A full generation is emptied of what died and tried once more.
    template <class Make>
    object retrying(failure& f, const Make& make) {
        for (bool again = true;; again = false) {
            f = failure();
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
    std::unique_ptr<interning_policy> policy_; ///< belongs to the current generation: paths are known by its handles
    std::string scratch_;
    std::size_t last_made_ = 0;
    pool_core* core_; // frees itself
};

/// A document on its way. It holds the generation that it builds in; when another one begins, it starts over there.
class pool::sliced : public decoding {
public:
    sliced(const sliced&) = delete;
    sliced& operator=(const sliced&) = delete;

    bool step(std::size_t bytes) final {
        bytes = std::max<std::size_t>(bytes, 1);
        try {
            if (at_ == stage::begin && at_once(bytes)) at_ = stage::done;
            if (at_ != stage::done) advance(bytes);
        } catch (const pool_is_full& e) {
            full(said_of(e));
        } catch (const std::bad_alloc& e) {
            full(said_of(e));
        } catch (const value_is_too_long& e) {
            end(said_of(e));
        } catch (...) {
            end(said(errc::stopped, "store a document"));
            throw;
        }
        return at_ == stage::done;
    }

    object finish(failure& f) final {
        f = std::exchange(failure_, failure());
        return std::exchange(result_, object());
    }

protected:
    explicit sliced(std::shared_ptr<pool> of) : pool_(std::move(of)), core_(*pool_->core_) {}

    /// True: it took no more than one step, and `result_` and `failure_` are there.
    virtual bool at_once(std::size_t bytes) = 0;
    virtual void start(generation& g) = 0;
    /// Calls `done` in the end, or sets `failure_`.
    virtual void go_on(generation& g, std::size_t bytes) = 0;
    /// What was built goes: to those who free it in shares, or with its generation if that is not current any more.
    virtual void abandon() noexcept = 0;
    virtual void forget() noexcept = 0;
    /// What it holds besides nodes.
    virtual std::uint64_t bytes() const noexcept = 0;
    /// After any of these: nothing is left but what `start` needs.
    virtual void leave(bool current) noexcept = 0;

    void done(object o) {
        result_ = std::move(o);
        let_go();
        at_ = stage::done;
    }
    /// By the destructors of those above us.
    void give_up() noexcept {
        if (!generation_) return;
        if (generation_ == &core_.current())
            abandon();
        else
            forget();
        let_go();
    }

    const std::shared_ptr<pool> pool_;
    pool_core& core_;
    failure failure_;
    object result_;

private:
    enum class stage : unsigned char { begin, work, make_room, done };

    void advance(std::size_t bytes) {
        if (generation_ && generation_ != &core_.current()) {
            give_up();
            at_ = stage::begin;
        }
        if (at_ == stage::make_room) {
            if (core_.collect(bytes)) at_ = stage::begin;
            return;
        }
        generation& g = core_.current();
        if (at_ == stage::begin) {
            start(g);
            core_.hold(g);
            generation_ = &g;
            at_ = stage::work;
        }
        core_.collect(256 + 2 * made_); // its share: as much as the last slice made, and some
        const std::uint64_t made_before = g.work_made();
        go_on(g, bytes);
        if (generation_) note(this->bytes());
        made_ = static_cast<std::size_t>(g.work_made() - made_before);
        if (failure_) end(std::move(failure_));
    }

    void note(std::uint64_t now) noexcept {
        core_.work_bytes += now - noted_;
        noted_ = now;
    }

    void end(failure f) noexcept {
        give_up();
        failure_ = std::move(f);
        at_ = stage::done;
    }

    /// A full generation is emptied of what died and tried once more.
    void full(failure f) noexcept {
        if (std::exchange(tried_, true)) return end(std::move(f));
        give_up();
        pool_->difference_.forget(core_.current());
        at_ = stage::make_room;
    }

    void let_go() noexcept {
        note(0);
        leave(generation_ == &core_.current());
        core_.let_go(*std::exchange(generation_, nullptr));
    }

    stage at_ = stage::begin;
    bool tried_ = false;
    generation* generation_ = nullptr; ///< held, while there is something of ours
    std::size_t made_ = 0;
    std::uint64_t noted_ = 0;
};

/// With a reader of its own, and the document alongside.
class pool::text_slices final : public sliced {
public:
    text_slices(std::shared_ptr<pool> of, std::string_view json, object previous)
        : sliced(std::move(of)), json_(json), previous_(std::move(previous)), reader_(pool_->options_, pool_->projection_) {}
    ~text_slices() override { give_up(); }

private:
    bool at_once(std::size_t bytes) override {
        if (json_.size() > bytes && !pool_->options_.transform_) return false;
        result_ = pool_->decode(json_, previous_, failure_);
        return true;
    }

    void start(generation& g) override {
        const companion beside = pool_->alongside(g, previous_);
        has_old_ = beside.is_older;
        cursor_ = beside.document;
        comparing_ = checking_ = false;
        if (core_.limits.parser_only)
            parser_.emplace(reader_, json_, pool_->options_.max_depth_);
        else
            text_.emplace(reader_, json_, pool_->options_.max_depth_, room_);
        reader_.start(g, cursor_, pool_->policy_, has_old_, false);
        g.retain(cursor_); // the document stored last may die meanwhile
    }

    void go_on(generation& g, std::size_t bytes) override {
        if (comparing_) {
            if (comparison_.step(bytes)) built(g, comparison_.equal());
            return;
        }
        reader_.nodes().resume();
        if (!(text_ ? read_text(bytes) : read_by_parser(bytes))) return;
        const handle h = reader_.nodes().built();
        if (!has_old_ || h == cursor_) return built(g, has_old_);
        comparison_.start(g, h, cursor_);
        comparing_ = true;
    }

    bool read_text(std::size_t bytes) {
        const text_reader::outcome o = text_->read(bytes);
        if (o == text_reader::outcome::refused) {
            abandon();
            text_.reset();
            reader_.restart_to_check();
            checking_ = true;
            parser_.emplace(reader_, json_, pool_->options_.max_depth_);
        }
        return o == text_reader::outcome::whole;
    }
    /// As `pool::read_text`.
    bool read_by_parser(std::size_t bytes) {
        if (!parser_->read(bytes, failure_) || failure_) return false;
        if (!std::exchange(checking_, false)) return true;
        reader_.restart();
        parser_.emplace(reader_, json_, pool_->options_.max_depth_);
        return false;
    }

    void built(generation& g, bool unchanged) {
        const handle h = reader_.finish();
        if (unchanged) {
            g.release(h);
            done(previous_);
        } else {
            done(pool_->adopt(g, h));
        }
    }

    void abandon() noexcept override { reader_.nodes().abandon(core_.abandoned); }
    void forget() noexcept override { reader_.nodes().forget(); }
    std::uint64_t bytes() const noexcept override {
        return reader_.bytes() + room_.capacity() + (parser_ ? parser_->bytes() : 0);
    }
    void leave(bool current) noexcept override {
        if (current) core_.current().release(cursor_);
        text_.reset();
        parser_.reset();
    }

    const std::string_view json_;
    const object previous_;
    document_reader reader_;
    std::string room_;
    std::optional<text_reader> text_;
    std::optional<parser_slices> parser_; ///< once that refused
    comparison comparison_;
    bool has_old_ = false, comparing_ = false;
    bool checking_ = false; ///< nothing is stored yet
    handle cursor_ = missing_handle; ///< a count of it is ours
};

/// Moves. Small ones come one after the other, so the pool lends its copier with the memory it has.
class pool::move_slices final : public sliced {
public:
    move_slices(std::shared_ptr<pool> of, object o) : sliced(std::move(of)), from_(std::move(o)) {}
    ~move_slices() override { give_up(); }

private:
    bool at_once(std::size_t) override {
        if (from_ && from_.root()->generation != &core_.current()) return false;
        result_ = from_;
        return true;
    }
    void start(generation& g) override {
        std::swap(copier_, pool_->copier_);
        pool_->start_move(copier_, g, from_);
    }
    void go_on(generation& g, std::size_t bytes) override {
        if (copier_.step(bytes)) done(pool_->adopt(g, copier_.take()));
    }
    void abandon() noexcept override { copier_.abandon(core_.abandoned); }
    void forget() noexcept override { copier_.forget(); }
    std::uint64_t bytes() const noexcept override { return copier_.bytes(); }
    void leave(bool) noexcept override { std::swap(copier_, pool_->copier_); }

    const object from_;
    copier copier_;
};

std::unique_ptr<decoding> pool::begin_decode(std::string_view json, object previous) {
    return std::make_unique<text_slices>(shared_from_this(), json, std::move(previous));
}

std::unique_ptr<decoding> pool::begin_move(object o) {
    return std::make_unique<move_slices>(shared_from_this(), std::move(o));
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
