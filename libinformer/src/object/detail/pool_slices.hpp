// Documents that are decoded or moved in slices.
#pragma once

#include "comparison.hpp"
#include "pool.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace informer::detail {

/// An unfinished document. It holds the generation that it builds in; when another generation begins, it starts over
/// in that one.
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

    /// True: the document took no more than one step, and `result_` and `failure_` are set.
    virtual bool at_once(std::size_t bytes) = 0;
    virtual void start(generation& g) = 0;
    /// Calls `done` in the end, or sets `failure_`.
    virtual void go_on(generation& g, std::size_t bytes) = 0;
    /// Give up what was built: `abandon` leaves it to `pool_core::collect`, which frees it in shares; `forget` drops
    /// it if its generation is not current any more and is freed as a whole.
    virtual void abandon() noexcept = 0;
    virtual void forget() noexcept = 0;
    /// The memory held besides nodes.
    virtual std::uint64_t bytes() const noexcept = 0;
    /// Called after any of these: keeps nothing but what `start` needs.
    virtual void leave(bool current) noexcept = 0;

    void done(object o) {
        result_ = std::move(o);
        let_go();
        at_ = stage::done;
    }
    /// Called by the destructors of derived classes.
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
        core_.collect(256 + 2 * made_); // twice as much as the last slice made, and some more
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

    /// If the generation is full, frees what died in it and tries once more.
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
    generation* generation_ = nullptr; ///< held while it has something of this document
    std::size_t made_ = 0;
    std::uint64_t noted_ = 0;
};

/// Decodes text. Has a reader of its own, and holds the document alongside.
class pool::text_slices final : public sliced {
public:
    text_slices(std::shared_ptr<pool> of, std::string_view json, object previous)
        : sliced(std::move(of)), json_(json), previous_(std::move(previous)),
          reader_(pool_->options_, pool_->projection_) {}
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
        g.retain(cursor_); // the document stored last may die between steps
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
    std::optional<parser_slices> parser_; ///< once `text_` refused, or instead of it
    comparison comparison_;
    bool has_old_ = false, comparing_ = false;
    bool checking_ = false;          ///< the parser looks for errors only: nothing is stored
    handle cursor_ = missing_handle; ///< with one count
};

/// Moves a document. Small ones come one after the other, so the pool lends its copier with the memory that it has.
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

} // namespace informer::detail
