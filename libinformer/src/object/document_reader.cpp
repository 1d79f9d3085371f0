#include "detail/document_reader.hpp"

#include <charconv>

namespace informer::detail {

namespace {

constexpr std::size_t most_kept = 64 * 1024; // bytes of a string that are kept for the next document

} // namespace

void document_reader::start(generation& g, handle cursor, std::unique_ptr<interning_policy>& policy, bool older,
                            bool plain) {
    builder_.start(g, cursor, policy, older);
    plain_ = plain;
    begin();
}

void document_reader::restart() {
    builder_.restart();
    begin();
}

void document_reader::restart_to_check() {
    restart();
    next_ = verdict::skip;
}

void document_reader::begin() {
    for (std::string* const s : {&type_[0], &type_[1], &key_})
        if (s->capacity() > most_kept) std::string().swap(*s);
    projected_ = projecting_ && !plain_;
    careful_ = true;
    at_managed_fields_ = false;
    watched_ = 1;
    type_first_ = !projected_;
    sort_type_ = projected_;
    type_awaited_ = type_member::none;
    has_type_[0] = has_type_[1] = false;
    skipping_ = 0;
    next_ = verdict::keep;
    levels_.clear();
    states_.clear();
    child_ = {};
    child_.whole = projection_.ends_at_once() && projection_.keeps();
    child_.identity_only = projection_.ends_at_once() && !projection_.keeps();
    parent_end_ = 0;
    if (projected_) states_.push_back(projection_trie::start);
}

void document_reader::begin_parts(bool older) {
    builder_.begin_parts(older);
    plain_ = false;
    begin();
}

void document_reader::begin_part(bool is_metadata, bool is_skipped) noexcept {
    watched_ = is_metadata ? 2 : 1;
    type_first_ = false;
    if (is_skipped) next_ = verdict::skip;
    set_careful();
}

/// Stores the type members that were held back, apiVersion first; where the text had none, those of the options.
void document_reader::put_type() {
    type_first_ = false;
    const auto put = [&](std::string_view name, bool has, std::string_view text, std::string_view fallback) {
        if (!has) text = fallback;
        if (!has && text.empty()) return;
        builder_.key(name);
        builder_.string(text);
    };
    put("apiVersion", has_type_[0], type_[0], options_.api_version_);
    put("kind", has_type_[1], type_[1], options_.kind_);
}

void document_reader::type_is_no_string() {
    const type_member which = std::exchange(type_awaited_, type_member::none);
    put_type();
    sort_type_ = true;
    builder_.key(which == type_member::kind ? "kind" : "apiVersion");
}

bool document_reader::careful_string(std::string_view s) {
    if (type_awaited_ == type_member::none) return careful_scalar([&] { builder_.string(s); });
    const std::size_t i = type_awaited_ == type_member::kind ? 1 : 0;
    type_[i] = s;
    has_type_[i] = true;
    type_awaited_ = type_member::none;
    set_careful();
    return true;
}

/// Judges the member or element about to come and prepares `child_` and its states (above those of the open levels).
document_reader::verdict document_reader::judge(std::string_view name, bool named) {
    const level& parent = levels_.back();
    const std::size_t first = parent.states;
    const std::size_t depth = levels_.size();
    child_ = {};
    child_.whole = parent.whole;
    child_.metadata = named && depth == 1 && name == "metadata";
    // Drop the states of an earlier sibling, which lie above those of the open levels.
    states_.resize(parent_end_);
    child_.states = static_cast<std::uint32_t>(states_.size());
    if (parent.whole) return verdict::keep;
    const bool identity = named && ((depth == 1 && (name == "apiVersion" || name == "kind")) ||
                                    (depth == 2 && parent.metadata && is_always_stored(name)));
    if (parent.identity_only) {
        child_.whole = identity;
        child_.identity_only = child_.metadata;
        return identity || child_.metadata ? verdict::keep : verdict::skip;
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

void document_reader::careful_key(std::string_view k) {
    if (skipping_) return;
    const std::size_t depth = builder_.depth();
    if (depth == 1) {
        watched_ = k == "metadata" ? 2 : 1;
        if (const bool kind = k == "kind"; kind || k == "apiVersion") {
            if (type_first_) {
                type_awaited_ = kind ? type_member::kind : type_member::api_version;
                careful_ = true;
                return;
            }
            sort_type_ = true;
        } else if (type_first_) {
            put_type();
        }
    } else if (depth == 2 && watched_ == 2 && k == "managedFields" && skips_managed_fields()) {
        next_ = verdict::skip;
        careful_ = at_managed_fields_ = true;
        return;
    }
    if (projected_) {
        next_ = judge(k, true);
        if (next_ == verdict::skip) return;
        if (next_ == verdict::keep_if_container) {
            key_ = k;
            return;
        }
    }
    builder_.key(k);
}

bool document_reader::careful_begin(bool object) {
    at_managed_fields_ = false;
    if (skipping_) {
        ++skipping_;
        return true;
    }
    if (builder_.depth() == 0 && !object) return false;
    if (type_awaited_ != type_member::none) type_is_no_string();
    if (projected_) {
        if (!levels_.empty()) next_element();
        if (next_ == verdict::skip) {
            next_ = verdict::keep;
            skipping_ = 1;
            return true;
        }
        if (next_ == verdict::keep_if_container && !levels_.back().array) builder_.key(key_);
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
    set_careful();
    return true;
}

void document_reader::careful_end(bool object) {
    if (skipping_) {
        --skipping_;
        set_careful();
        return;
    }
    if (projected_) {
        states_.resize(levels_.back().states);
        levels_.pop_back();
        parent_end_ = states_.size();
    }
    if (object) {
        if (builder_.depth() == 1) {
            if (type_first_) put_type();
            if (sort_type_) builder_.put_type_first(options_.api_version_, options_.kind_);
        }
        builder_.end_object();
    } else {
        builder_.end_array();
    }
}

} // namespace informer::detail
