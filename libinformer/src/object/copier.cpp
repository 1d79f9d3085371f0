#include "detail/copier.hpp"

#include "detail/reading.hpp"

#include <new>
#include <utility>

namespace informer::detail {

void copier::start_move(generation& to, generation& from, handle document) noexcept {
    start_copy(to, from, document);
    movable_ = &from;
    from.begin_forwarding(to);
}

void copier::start_copy(generation& to, const generation& from, handle document) noexcept {
    to_ = &to;
    from_ = &from;
    movable_ = nullptr;
    document_ = document;
}

bool copier::step(std::size_t bytes) {
    budget_ = bytes;
    if (done_.size() == 0 && open_.empty()) visit(document_);
    while (!open_.empty()) {
        place& p = open_.back();
        if (p.at < p.size) {
            if (budget_ == 0) return false;
            const handle child = p.node[1 + p.at++];
            visit(child);
        } else {
            const place done = p;
            open_.pop_back();
            close(done);
        }
    }
    return true;
}

handle copier::take() noexcept {
    const handle made = done_.back();
    try {
        remember(document_, made, true); // so that two roots of this document keep sharing it
    } catch (const std::bad_alloc&) {    // then they no longer share it
    }
    forget();
    done_.forget_if_large();
    return made;
}

void copier::abort() noexcept {
    for (std::uint32_t i = 0; i < done_.size(); ++i) to_->release(*done_.at(i));
    forget();
}

void copier::abandon(std::vector<handle_stack>& to) noexcept {
    try {
        to.reserve(to.size() + 1);
    } catch (const std::bad_alloc&) {
        return abort();
    }
    to.push_back(std::exchange(done_, handle_stack()));
    forget();
}

void copier::forget() noexcept {
    done_.resize_down(0);
    open_.clear();
}

/// If `old` was moved before, pushes the node that it became.
bool copier::reuse(handle old) {
    if (!movable_) return false;
    const handle there = movable_->forwarded(old);
    if (!there) return false;
    to_->retain(there);
    done_.push(there);
    return true;
}

void copier::remember(handle old, handle made, bool always) {
    if (!movable_ || !is_node(old) || movable_->forwarded(old) || !(always || movable_->is_shared(old))) return;
    movable_->forward(old, made);
    to_->retain(made);
}

void copier::visit(handle h) {
    done_.need(1);
    spend(4);
    if (!is_node(h)) return done_.push(h);
    spend(60); // what making a small node takes
    if (reuse(h)) return;
    const std::uint32_t* n = from_->node(h);
    const children c = children_of(from_, h);
    if (c.n == 0) return leaf(h, n);
    open_.push_back({h, n, c.n, 0});
}

generation::interned copier::make(handle old, std::uint32_t header, const void* data, std::size_t bytes) {
    if (movable_ && !movable_->is_interned(old))
        return {to_->make_plain(header, data, bytes), generation::fresh_and_plain};
    return to_->intern(header, data, bytes);
}

void copier::leaf(handle h, const std::uint32_t* n) {
    const std::size_t bytes = from_->payload_bytes(n);
    spend(bytes);
    const handle made = make(h, *n, n + 1, bytes).h;
    done_.push(made);
    remember(h, made);
}

handle copier::shape(handle old) {
    if (movable_)
        if (const handle there = movable_->forwarded(old)) {
            to_->retain(there);
            return there;
        }
    const std::uint32_t* n = from_->node(old);
    const std::uint32_t keys = shape_size(*n);
    const bool loose = movable_ && movable_->is_loose(old);
    const std::uint32_t first = done_.size();
    done_.need(keys);
    for (std::uint32_t i = 0; i < keys; ++i) {
        const handle key = n[1 + i];
        if (!is_node(key)) {
            done_.push(key);
        } else if (!reuse(key)) {
            const std::uint32_t* k = from_->node(key);
            const handle made = make(key, *k, k + 1, header_length(*k)).h;
            done_.push(made);
            remember(key, made);
        }
    }
    handle made = loose ? missing_handle : to_->find_shape(done_.at(first), keys);
    if (made) {
        for (std::uint32_t i = first; i < done_.size(); ++i) to_->release(*done_.at(i));
    } else {
        made = loose ? to_->make_loose_shape(done_.at(first), keys) : to_->make_shape(done_.at(first), keys);
    }
    done_.resize_down(first);
    try {
        remember(old, made);
    } catch (...) {
        to_->release(made);
        throw;
    }
    return made;
}

/// The children of `p` lie on top of the stack.
void copier::close(const place& p) {
    const std::uint32_t first = done_.size() - p.size;
    if (movable_ && movable_->forwarded(p.old)) { // others moved it, between two steps
        for (std::uint32_t i = first; i < done_.size(); ++i) to_->release(*done_.at(i));
        done_.resize_down(first);
        reuse(p.old);
        return;
    }
    const bool object = header_is_object(*p.node);
    const std::uint32_t header = object ? shape(*p.node) : *p.node;
    generation::interned made{missing_handle, generation::known};
    try {
        made = make(p.old, header, done_.at(first), std::size_t{p.size} * 4);
    } catch (...) {
        if (object) to_->release(header);
        throw;
    }
    if (!made.fresh) { // the existing node has counts of its own
        for (std::uint32_t i = first; i < done_.size(); ++i) to_->release(*done_.at(i));
        if (object) to_->release(header);
    }
    done_.resize_down(first);
    done_.push(made.h);
    remember(p.old, made.h);
}

} // namespace informer::detail
