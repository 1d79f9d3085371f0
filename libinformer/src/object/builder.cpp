#include "detail/builder.hpp"

#include "detail/packed.hpp"
#include "detail/reading.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

namespace informer::detail {

namespace {

void check_length(std::size_t n) {
    if (n > max_length) throw pool_is_full();
}

constexpr std::uint32_t size32(std::size_t n) noexcept {
    return static_cast<std::uint32_t>(n);
}

constexpr std::uint32_t no_member = ~0u;

} // namespace

void handle_stack::grow(std::uint32_t n) {
    const std::uint32_t capacity = std::max(size_ + n, capacity_ * 2 + 64);
    auto bigger = std::make_unique_for_overwrite<handle[]>(capacity);
    if (size_ > 0) std::memcpy(bigger.get(), data_.get(), std::size_t{size_} * 4);
    data_ = std::move(bigger);
    capacity_ = capacity;
}

void builder::start(generation& g, handle cursor, interning_policy* policy, bool cold) {
    generation_ = &g;
    policy_ = policy;
    if (policy_) policy_->next_document();
    cold_ = cold;
    root_cursor_ = cursor;
    indexed_ = missing_handle;
    frames_.clear();
    frame& f = frames_.emplace_back();
    f.same_values = true;
    f.cursor_values = &root_cursor_;
    f.cursor_size = cursor ? 1 : 0;
}

handle builder::finish() noexcept {
    handle h;
    if (frames_.back().same_values) {
        h = root_cursor_;
        generation_->retain(h);
    } else {
        h = values_.back();
    }
    values_.resize_down(0);
    values_.forget_if_large();
    keys_.forget_if_large();
    if (index_.capacity() > 131'072) std::vector<std::pair<handle, std::uint32_t>>().swap(index_);
    return h;
}

void builder::abort() noexcept {
    for (std::uint32_t i = 0; i < values_.size(); ++i) generation_->release(*values_.at(i));
    for (std::uint32_t i = 0; i < keys_.size(); ++i) generation_->release(*keys_.at(i));
    values_.resize_down(0);
    keys_.resize_down(0);
    frames_.resize(1);
}

void builder::begin_parts() {
    frame f{};
    f.object = true;
    f.values = values_.size();
    f.keys = keys_.size();
    keys_.need(1);
    frames_.push_back(f);
    keys_.push(missing_handle);
    value_cursor_ = missing_handle;
}

void builder::place(path_id container, handle key, handle cursor) noexcept {
    generation_->retain(key);
    generation_->release(keys_.back());
    *keys_.at(keys_.size() - 1) = key;
    frames_.back().path = container;
    frames_.back().fresh = false;
    value_cursor_ = cursor;
}

handle builder::take_part(bool& fresh) noexcept {
    frame& f = frames_.back();
    fresh = f.fresh;
    f.at = 0;
    const handle h = values_.back();
    values_.resize_down(f.values);
    return h;
}

void builder::begin(bool object) {
    const handle c = take_cursor();
    const path_id path = child_path(frames_.back().path, key_of_next(frames_.back()));
    frame& f = frames_.emplace_back();
    f.object = object;
    f.same_values = f.same_keys = true;
    f.path = path;
    if (!is_node(c)) return;
    const std::uint32_t* n = generation_->node(c);
    if (object && header_is_object(*n)) {
        const std::uint32_t* shape = generation_->node(*n);
        f.cursor_size = header_length(*shape);
        f.cursor_keys = shape + 1;
    } else if (!object && !header_is_object(*n) && header_kind(*n) == node_kind::array) {
        f.cursor_size = header_length(*n);
    } else {
        return;
    }
    f.cursor = c;
    f.cursor_values = n + 1;
    if (cold_) generation_->prefetch(f.cursor_values, std::min(f.cursor_size, 32u));
}

/// Puts what was passed of the cursor onto the stack, with room for more.
void builder::leave_values(frame& f, std::uint32_t more) {
    values_.need(f.at + more);
    f.same_values = false;
    f.values = values_.size();
    for (std::uint32_t i = 0; i < f.at; ++i) {
        generation_->retain(f.cursor_values[i]);
        values_.push(f.cursor_values[i]);
    }
}

void builder::leave_keys(frame& f) {
    if (f.same_values) leave_values(f, 1);
    keys_.need(f.at + 1);
    f.same_keys = false;
    f.keys = keys_.size();
    f.cursor_at = f.at;
    for (std::uint32_t i = 0; i < f.at; ++i) {
        generation_->retain(f.cursor_keys[i]);
        keys_.push(f.cursor_keys[i]);
    }
}

handle builder::intern_key(std::string_view k) {
    if (k.size() <= 3) return make_small_string(k);
    check_length(k.size());
    return generation_->intern(make_header(node_kind::string, size32(k.size())), k.data(), k.size()).h;
}

/// The member of the cursor with this key, or no_member. Two versions of an object may differ in the order of members:
/// equal values must meet all the same.
std::uint32_t builder::find_in_cursor(const frame& f, handle key) {
    if (f.cursor_size <= 256) {
        const handle* end = f.cursor_keys + f.cursor_size;
        const handle* found = std::find(f.cursor_keys, end, key);
        return found == end ? no_member : size32(static_cast<std::size_t>(found - f.cursor_keys));
    }
    if (indexed_ != *generation_->node(f.cursor)) {
        indexed_ = missing_handle;
        index_.clear();
        index_.reserve(f.cursor_size);
        for (std::uint32_t i = 0; i < f.cursor_size; ++i) index_.emplace_back(f.cursor_keys[i], i);
        std::sort(index_.begin(), index_.end());
        indexed_ = *generation_->node(f.cursor);
    }
    const auto it = std::lower_bound(index_.begin(), index_.end(), std::pair<handle, std::uint32_t>(key, 0));
    return it != index_.end() && it->first == key ? it->second : no_member;
}

void builder::other_key(std::string_view k) {
    frame& f = frames_.back();
    if (f.same_keys) leave_keys(f);
    keys_.need(1);
    std::uint32_t i = no_member;
    // Mostly the next one, or the one after a member that is gone.
    for (std::uint32_t ahead = f.cursor_at; ahead < std::min(f.cursor_size, f.cursor_at + 2); ++ahead) {
        if (!key_is(f.cursor_keys[ahead], k)) continue;
        i = ahead;
        generation_->retain(f.cursor_keys[i]);
        keys_.push(f.cursor_keys[i]);
        break;
    }
    if (i == no_member) {
        const handle h = intern_key(k);
        keys_.push(h);
        i = find_in_cursor(f, h);
    }
    value_cursor_ = missing_handle;
    if (i == no_member) return;
    value_cursor_ = f.cursor_values[i];
    f.cursor_at = i + 1;
}

void builder::drop_key() noexcept {
    if (frames_.back().same_keys) return; // it was not counted yet
    generation_->release(keys_.back());
    keys_.resize_down(keys_.size() - 1);
}

/// Finds or makes a node without children.
generation::interned builder::make(path_id path, std::uint32_t header, const void* data, std::size_t bytes) {
    generation& g = *generation_;
    if (!policy_) return g.intern(header, data, bytes);
    const std::uint64_t hash = g.hash(header, data, bytes);
    generation::interned made{policy_->seen(hash), false};
    // It may have fallen out of the document since: a key came twice, or a part was read in vain.
    if (made.h && g.is_alive(made.h) && g.has_content(made.h, header, data, bytes)) {
        g.retain(made.h);
        return made;
    }
    interning_record& record = policy_->record(path);
    if (record.wanted(hash)) {
        made.h = g.find(hash, header, data, bytes);
        made.fresh = !made.h;
        record.looked_up(!made.fresh);
        if (made.fresh)
            made.h = g.make_interned(hash, header, data, bytes);
        else
            g.retain(made.h);
    } else {
        made = {g.make_plain(header, data, bytes), true};
    }
    policy_->remember(hash, made.h);
    return made;
}

void builder::leaf(std::uint32_t header, const void* data, std::size_t bytes) {
    if (const handle c = take_cursor(); is_node(c) && generation_->has_content(c, header, data, bytes)) return same(c);
    frame& f = frames_.back();
    if (f.same_values) leave_values(f, 1);
    values_.need(1);
    const auto r = make(child_path(f.path, key_of_next(f)), header, data, bytes);
    f.fresh = f.fresh || r.fresh;
    values_.push(r.h);
    ++f.at;
}

void builder::other_string(std::string_view s) {
    if (s.size() == timestamp_size) {
        if (std::uint32_t t; pack_timestamp(s, t)) return immediate(timestamp_bit | t);
    } else if (s.size() == uuid_text_size) {
        if (unsigned char bytes[16]; pack_uuid(s, bytes)) return leaf(make_header(node_kind::uuid, 0), bytes, 16);
    }
    check_length(s.size());
    leaf(make_header(node_kind::string, size32(s.size())), s.data(), s.size());
}

void builder::integer(std::int64_t v) {
    if (fits_small_int(v)) return immediate(make_small_int(v));
    leaf(make_header(node_kind::int64, 0), &v, 8);
}

void builder::integer(std::uint64_t v) {
    if (v <= static_cast<std::uint64_t>(INT64_MAX)) return integer(static_cast<std::int64_t>(v));
    leaf(make_header(node_kind::uint64, 0), &v, 8);
}

void builder::floating(double d) {
    if (!std::isfinite(d)) return immediate(null_handle); // JSON has no such numbers
    number(print_double(d));
}

void builder::other_number(std::string_view text) {
    const number_form form = classify_number(text);
    switch (form.type) {
    case number_form::type::int64: return integer(form.i);
    case number_form::type::uint64: return integer(form.u);
    case number_form::type::floating: return leaf(make_header(node_kind::floating, 0), &form.d, 8);
    case number_form::type::text: break;
    }
    check_length(text.size());
    leaf(make_header(node_kind::number, size32(text.size())), text.data(), text.size());
}

/// Only what holds nothing but interned nodes can be found by its content and is interned.
generation::interned builder::make_container(path_id path, bool fresh_child, std::uint32_t header,
                                             const handle* children, std::uint32_t n) {
    generation& g = *generation_;
    const std::size_t bytes = std::size_t{n} * 4;
    if (!policy_) {
        if (!fresh_child) return g.intern(header, children, bytes);
        return {g.make_interned(g.hash(header, children, bytes), header, children, bytes), true};
    }
    const bool plain = !std::all_of(children, children + n, [&](handle h) { return g.is_interned(h); });
    // What a document repeats of itself is small.
    const bool may_repeat = n <= 8;
    if (plain && !may_repeat) return {g.make_plain(header, children, bytes), true};
    const std::uint64_t hash = g.hash(header, children, bytes);
    generation::interned made{missing_handle, true};
    if (may_repeat && !fresh_child) {
        made.h = policy_->seen(hash);
        made.fresh = !made.h || !g.is_alive(made.h) || !g.has_content(made.h, header, children, bytes);
    }
    if (made.fresh) {
        if (interning_record& record = policy_->record(path); !plain && record.wanted(hash)) {
            made.h = fresh_child ? missing_handle : g.find(hash, header, children, bytes);
            made.fresh = !made.h;
            record.looked_up(!made.fresh);
            if (made.fresh) made.h = g.make_interned(hash, header, children, bytes);
        } else {
            made.h = g.make_plain(header, children, bytes);
        }
        if (may_repeat) policy_->remember(hash, made.h);
    }
    if (!made.fresh) g.retain(made.h);
    return made;
}

/// Replaces the children on top of the stack, whose counts are ours, by their container.
void builder::container(std::uint32_t header) {
    const frame f = frames_.back();
    frame& parent = frames_[frames_.size() - 2];
    values_.need(parent.at + 1); // nothing may fail once the node is made
    const std::uint32_t n = f.at;
    const handle* children = values_.at(f.values);
    generation::interned made{missing_handle, false};
    if (f.cursor && generation_->has_content(f.cursor, header, children, std::size_t{n} * 4)) {
        generation_->retain(f.cursor);
        made.h = f.cursor;
    } else {
        made = make_container(f.path, f.fresh, header, children, n);
    }
    if (!made.fresh) { // it has its own counts of the same
        for (std::uint32_t i = 0; i < n; ++i) generation_->release(children[i]);
        if (f.object) generation_->release(header);
    }
    values_.resize_down(f.values);
    frames_.pop_back();
    if (is_expected(parent, made.h)) {
        generation_->release(made.h);
    } else {
        if (parent.same_values) leave_values(parent, 1);
        values_.push(made.h);
        parent.fresh = parent.fresh || made.fresh;
    }
    ++parent.at;
}

void builder::end_array() {
    frame& f = frames_.back();
    if (f.at == 0) {
        frames_.pop_back();
        return immediate(empty_array_handle);
    }
    if (f.same_values) {
        if (f.at == f.cursor_size) {
            const handle whole = f.cursor;
            frames_.pop_back();
            return same(whole);
        }
        leave_values(f, 0);
    }
    check_length(f.at);
    container(make_header(node_kind::array, f.at));
}

void builder::remove_duplicates() {
    frame& f = frames_.back();
    const std::size_t n = f.at;
    handle* keys = keys_.at(f.keys);
    handle* values = values_.at(f.values);
    // first[i]: the first member with the key of member i. Keys are interned: equal keys are equal handles.
    std::vector<std::uint32_t> first(n), order;
    if (n <= 32) {
        for (std::size_t i = 0; i < n; ++i)
            first[i] = size32(static_cast<std::size_t>(std::find(keys, keys + i, keys[i]) - keys));
    } else {
        order.resize(n);
        std::iota(order.begin(), order.end(), 0u);
        std::sort(order.begin(), order.end(),
                  [&](std::uint32_t a, std::uint32_t b) { return keys[a] != keys[b] ? keys[a] < keys[b] : a < b; });
        for (std::size_t i = 0; i < n; ++i)
            first[order[i]] = i > 0 && keys[order[i]] == keys[order[i - 1]] ? first[order[i - 1]] : order[i];
    }
    // Nothing below can fail. The first place keeps the last value.
    std::uint32_t kept = 0;
    for (std::size_t i = 0; i < n; ++i) {
        if (first[i] == i) {
            keys[kept] = keys[i];
            values[kept] = values[i];
            first[i] = kept++;
        } else {
            const std::size_t place = first[first[i]];
            generation_->release(keys[i]);
            generation_->release(values[place]);
            values[place] = values[i];
        }
    }
    if (kept == n) return;
    f.fresh = false; // the fresh child may be among the removed
    f.at = kept;
    keys_.resize_down(f.keys + kept);
    values_.resize_down(f.values + kept);
}

/// The shape of the object that ends, with a count; its keys leave the stack.
handle builder::shape_of_top() {
    frame& f = frames_.back();
    if (f.same_keys) {
        if (f.at == f.cursor_size) {
            const handle shape = *generation_->node(f.cursor);
            generation_->retain(shape);
            return shape;
        }
        leave_keys(f);
    }
    check_length(f.at);
    handle shape = generation_->find_shape(keys_.at(f.keys), f.at);
    if (!shape) { // shapes have no duplicates, so only a new one needs the check
        const std::uint32_t before = f.at;
        remove_duplicates();
        if (f.at != before) shape = generation_->find_shape(keys_.at(f.keys), f.at);
    }
    if (!shape) {
        shape = generation_->make_shape(keys_.at(f.keys), f.at);
    } else {
        for (std::uint32_t i = f.keys; i < keys_.size(); ++i) generation_->release(*keys_.at(i));
    }
    keys_.resize_down(f.keys);
    return shape;
}

void builder::end_object() {
    frame& f = frames_.back();
    if (f.at == 0) {
        frames_.pop_back();
        return immediate(empty_object_handle);
    }
    if (f.same_values) {
        if (f.at == f.cursor_size) {
            const handle whole = f.cursor;
            frames_.pop_back();
            return same(whole);
        }
        leave_keys(f);
    }
    const handle shape = shape_of_top();
    try {
        container(shape);
    } catch (...) {
        generation_->release(shape);
        throw;
    }
}

void builder::put_type_first(std::string_view api_version, std::string_view kind) {
    if (frames_.back().same_keys) leave_keys(frames_.back());
    remove_duplicates();
    std::uint32_t place = 0;
    const auto put = [&](std::string_view name, std::string_view text) {
        const frame& f = frames_.back();
        std::uint32_t at = 0;
        while (at < f.at && !key_is(*keys_.at(f.keys + at), name)) ++at;
        if (at == f.at) {
            if (text.empty()) return;
            key(name);
            string(text);
        }
        std::rotate(keys_.at(f.keys + place), keys_.at(f.keys + at), keys_.at(f.keys + at) + 1);
        std::rotate(values_.at(f.values + place), values_.at(f.values + at), values_.at(f.values + at) + 1);
        ++place;
    };
    put("apiVersion", api_version);
    put("kind", kind);
}

} // namespace informer::detail
