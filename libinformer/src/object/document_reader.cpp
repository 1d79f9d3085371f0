#include "detail/document_reader.hpp"

#include <charconv>

namespace informer::detail {

void document_reader::start(generation& g, handle previous, bool plain) {
    builder_.start(g, previous);
    plain_ = plain;
    is_object_ = in_metadata_ = false;
    skipping_ = 0;
    next_ = verdict::keep;
    levels_.clear();
    states_.clear();
    child_ = {};
    parent_end_ = 0;
    if (projecting_ && !plain) states_.push_back(projection_trie::start);
}

/// Judges the member or element about to come and prepares `child_` and its states (above those of the open levels).
document_reader::verdict document_reader::judge(std::string_view name, bool named) {
    const level& parent = levels_.back();
    const std::size_t first = parent.states;
    const std::size_t depth = levels_.size();
    child_ = {};
    child_.whole = parent.whole;
    child_.metadata = named && depth == 1 && name == "metadata";
    // States of an earlier sibling lie above ours.
    states_.resize(parent_end_);
    child_.states = static_cast<std::uint32_t>(states_.size());
    if (parent.whole) return verdict::keep;
    const bool identity = named && ((depth == 1 && (name == "apiVersion" || name == "kind")) ||
                                    (depth == 2 && parent.metadata && is_identity(name)));
    if (parent.identity_only) {
        child_.whole = identity;
        return identity ? verdict::keep : verdict::skip;
    }
    const bool ends = projection_.step(states_, first, child_.states, name, states_);
    const bool some = states_.size() > child_.states;
    if (identity) {
        child_.whole = true;
        return verdict::keep;
    }
    if (projection_.keeps()) {
        child_.whole = ends;
        if (ends) return verdict::keep;
        if (some) return verdict::keep_if_container;
        child_.identity_only = child_.metadata;
        return child_.metadata ? verdict::keep : verdict::skip;
    }
    child_.whole = !some;
    if (!ends) return verdict::keep;
    child_.identity_only = child_.metadata;
    return child_.metadata ? verdict::keep : verdict::skip;
}

void document_reader::next_element() {
    level& l = levels_.back();
    if (!l.array) return;
    char buffer[16];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, l.index++).ptr;
    next_ = judge({buffer, static_cast<std::size_t>(end - buffer)}, false);
}

void document_reader::key(std::string_view k) {
    if (skipping_) return;
    const std::size_t depth = builder_.depth();
    if (depth == 1) in_metadata_ = k == "metadata";
    if (depth == 2 && in_metadata_ && !plain_ && !options_.keep_managed_fields_ && k == "managedFields") {
        next_ = verdict::skip;
        return;
    }
    if (projecting_ && !plain_) {
        next_ = judge(k, true);
        if (next_ == verdict::skip) return;
    }
    builder_.key(k);
}

bool document_reader::begin(bool object) {
    if (builder_.depth() == 0) {
        is_object_ = object;
        if (!object) return false;
    }
    if (skipping_) {
        ++skipping_;
        return true;
    }
    if (projecting_ && !plain_) {
        if (!levels_.empty()) next_element();
        if (next_ == verdict::skip) {
            next_ = verdict::keep;
            skipping_ = 1;
            return true;
        }
        level l = child_;
        l.array = !object;
        l.index = 0;
        levels_.push_back(l);
        parent_end_ = states_.size();
    } else if (next_ == verdict::skip) {
        next_ = verdict::keep;
        skipping_ = 1;
        return true;
    }
    next_ = verdict::keep;
    if (object)
        builder_.begin_object();
    else
        builder_.begin_array();
    return true;
}

void document_reader::end(bool object) {
    if (skipping_) {
        --skipping_;
        return;
    }
    if (projecting_ && !plain_) {
        states_.resize(levels_.back().states);
        levels_.pop_back();
        parent_end_ = states_.size();
    }
    if (object) {
        if (builder_.depth() == 1) builder_.put_type_first(options_.api_version_, options_.kind_);
        builder_.end_object();
    } else {
        builder_.end_array();
    }
}

} // namespace informer::detail
