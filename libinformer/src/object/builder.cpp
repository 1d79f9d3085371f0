#include "detail/builder_nodes.hpp"

#include "detail/packed.hpp"
#include "detail/reading.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <utility>
#include <vector>

namespace informer::detail {

namespace {

/// In nodes made. A smaller pool interns everything and needs no records.
constexpr std::uint64_t interning_starts = 8192;
/// A path of containers stops interning after this many first look-ups without a hit. Deep objects have many such
/// paths, and a full window of look-ups for each would take long.
constexpr std::uint16_t hopeless_containers = 64;

} // namespace

void handle_stack::grow(std::uint32_t n) {
    if (std::uint64_t{size_} + n > node_bit) throw pool_is_full(); // more than a generation has words
    const std::uint32_t capacity = std::max(size_ + n, capacity_ * 2 + 64);
    block_.resize(std::size_t{capacity} * sizeof(handle));
    data_ = static_cast<handle*>(block_.data());
    capacity_ = capacity;
}

void builder::start(generation& g, handle cursor, std::unique_ptr<interning_policy>& policy, bool older) {
    start_nodes(g, policy);
    frame& f = begin_document(cursor, older);
    f.same_values = true;
    f.cursor_values = &root_cursor_;
    f.cursor_size = cursor ? 1 : 0;
}

void builder::start_nodes(generation& g, std::unique_ptr<interning_policy>& policy) noexcept {
    generation_ = &g;
    policy_place_ = &policy;
    policy_ = policy.get();
    if (policy_) policy_->next_document();
}

builder::frame& builder::begin_document(handle cursor, bool older) {
    older_ = older;
    root_cursor_ = cursor;
    if (waiting_) waiting_->n = 0;
    key_hashes_.forget();
    frames_.clear();
    return frames_.emplace_back();
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
    return h;
}

void builder::abort() noexcept {
    for (std::uint32_t i = 0; i < values_.size(); ++i) generation_->release(*values_.at(i));
    for (std::uint32_t i = 0; i < keys_.size(); ++i) generation_->release(*keys_.at(i));
    forget();
}

void builder::resume() noexcept {
    policy_ = policy_place_->get();
    if (policy_) policy_->next_document();
    for (frame& f : frames_) f.fresh = generation::known;
    ++shapes_;
}

void builder::abandon(std::vector<handle_stack>& to) noexcept {
    try {
        to.reserve(to.size() + 2);
    } catch (const std::bad_alloc&) {
        return abort();
    }
    to.push_back(std::exchange(values_, handle_stack()));
    to.push_back(std::exchange(keys_, handle_stack()));
    forget();
}

void builder::forget() noexcept {
    values_.resize_down(0);
    keys_.resize_down(0);
    values_.forget_if_large();
    keys_.forget_if_large();
    if (waiting_) waiting_->n = 0;
    if (frames_.size() > 1) frames_.resize(1); // it is empty if there was no memory for the first frame
}

void builder::begin_parts(bool older) {
    begin_document(missing_handle, older);
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
    frames_.back().fresh = generation::known;
    value_cursor_ = cursor;
}

handle builder::take_part(std::uint8_t& fresh) noexcept {
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
    f.shapes = shapes_;
    f.path = path;
    if (!is_node(c)) return;
    const std::uint32_t* n = generation_->node(c);
    if (object && header_is_object(*n)) {
        const std::uint32_t* shape = generation_->node(*n);
        f.cursor_size = shape_size(*shape);
        f.cursor_keys = shape + 1;
        f.loose_cursor = generation_->is_loose(*n);
    } else if (!object && !header_is_object(*n) && header_kind(*n) == node_kind::array) {
        f.cursor_size = header_length(*n);
    } else {
        return;
    }
    f.cursor = c;
    f.cursor_values = n + 1;
    if (older_) generation_->prefetch(f.cursor_values, std::min(f.cursor_size, 32u));
}

/// Pushes the values of the cursor that were passed so far, and makes room for `more`.
void builder::leave_values(frame& f, std::uint32_t more) {
    values_.need(f.at + more);
    f.same_values = false;
    f.values = values_.size();
    for (std::uint32_t i = 0; i < f.at; ++i) {
        generation_->retain(f.cursor_values[i]);
        values_.push(f.cursor_values[i]);
    }
}

/// False: the generation is still small.
bool builder::begin_policy() {
    if (generation_->nodes_made() < interning_starts) return false;
    *policy_place_ = std::make_unique<interning_policy>();
    policy_ = policy_place_->get();
    policy_->next_document();
    return true;
}

[[gnu::always_inline]] inline void builder::leaf_inline(std::uint32_t header, const void* data, std::size_t bytes) {
    if (const handle c = take_cursor(); is_node(c) && generation_->has_content(c, header, data, bytes)) return same(c);
    frame& f = frames_.back();
    if (f.same_values) leave_values(f, 1);
    values_.need(1);
    const auto r = make(child_path(f.path, key_of_next(f)), header, data, bytes);
    f.fresh |= r.fresh;
    values_.push(r.h);
    ++f.at;
}

void builder::leaf(std::uint32_t header, const void* data, std::size_t bytes) {
    leaf_inline(header, data, bytes);
}

/// A number that is stored in eight bytes.
void builder::leaf_of_eight(std::uint32_t header, const void* data) {
    leaf_inline(header, data, 8);
}

/// False: it is neither a time nor a UUID.
bool string_form::pack(std::string_view s) noexcept {
    if (s.size() == timestamp_size) {
        std::uint32_t t = 0;
        if (!pack_timestamp(s, t)) return false;
        immediate = timestamp_bit | t;
        return true;
    }
    if (!pack_uuid(s, uuid)) return false;
    header = make_header(node_kind::uuid, 0);
    data = uuid;
    bytes = sizeof uuid;
    return true;
}

void builder::other_string(std::string_view s) {
    const string_form f(s);
    if (f.immediate)
        immediate(f.immediate);
    else
        leaf(f.header, f.data, f.bytes);
}

void builder::integer(std::int64_t v) {
    if (fits_small_int(v)) return immediate(make_small_int(v));
    leaf_of_eight(make_header(node_kind::int64, 0), &v);
}

void builder::integer(std::uint64_t v) {
    if (v <= static_cast<std::uint64_t>(INT64_MAX)) return integer(static_cast<std::int64_t>(v));
    leaf_of_eight(make_header(node_kind::uint64, 0), &v);
}

void builder::floating(double d) {
    if (std::isnan(d)) return immediate(null_handle); // JSON has no such numbers
    number(print_double(std::clamp(d, -std::numeric_limits<double>::max(), std::numeric_limits<double>::max())));
}

void builder::other_number(std::string_view text) {
    const number_form form = classify_number(text);
    switch (form.type) {
    case number_form::type::int64: return integer(form.i);
    case number_form::type::uint64: return integer(form.u);
    case number_form::type::floating: return leaf_of_eight(make_header(node_kind::floating, 0), &form.d);
    case number_form::type::text: break;
    }
    check_length(text.size());
    leaf(make_header(node_kind::number, size32(text.size())), text.data(), text.size());
}

/// Finds or makes a container that may be interned. If it is found, no count is added.
generation::interned builder::make_findable(path_id path, std::uint8_t fresh_child, std::uint32_t header,
                                            const handle* children, std::uint32_t n) {
    generation& g = *generation_;
    const std::size_t bytes = std::size_t{n} * 4;
    const std::uint64_t hash = g.hash(header, children, bytes);
    interning_record& record = policy_->record(path);
    if (!record.wanted(hash)) return {g.make_plain(header, children, bytes), generation::fresh_and_plain};
    const handle found = fresh_child ? missing_handle : g.find(hash, header, children, bytes);
    record.looked_up(found != missing_handle, hopeless_containers);
    if (found) return {found, generation::known};
    return {g.make_interned(hash, header, children, bytes), generation::fresh};
}

/// Replaces the children on top of the stack, each of which owns a count, by their container.
void builder::container(std::uint32_t header) {
    const frame& f = frames_.back();
    frame& parent = frames_[frames_.size() - 2];
    values_.need(parent.at + 1); // nothing may fail once the node is made
    const std::uint32_t n = f.at;
    const handle* children = values_.at(f.values);
    generation::interned made{missing_handle, generation::known};
    if (f.cursor && generation_->has_content(f.cursor, header, children, std::size_t{n} * 4)) {
        generation_->retain(f.cursor);
        made.h = f.cursor;
    } else {
        made = make_container(f.path, f.fresh, header, children, n);
    }
    if (!made.fresh) { // the existing node has counts of its own
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
        parent.fresh |= made.fresh;
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
    if (waiting_ && waiting_->n > 0) find_waiting();
    remove_duplicates();
    std::uint32_t place = 0;
    const auto put = [&](std::string_view name, std::string_view text) {
        const frame& f = frames_.back();
        std::uint32_t at = 0;
        while (at < f.at && !key_is(*keys_.at(f.keys + at), name)) ++at;
        if (at == f.at) {
            if (text.empty()) return;
            key(name);
            if (waiting_ && waiting_->n > 0) find_waiting();
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
