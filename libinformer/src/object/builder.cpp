#include "detail/builder.hpp"

#include "detail/packed.hpp"

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

constexpr std::uint32_t size32(std::size_t n) noexcept { return static_cast<std::uint32_t>(n); }

} // namespace

handle builder::finish() noexcept {
    const handle h = values_.back();
    values_.pop_back();
    if (values_.capacity() > 262'144) std::vector<handle>().swap(values_);
    if (keys_.capacity() > 262'144) std::vector<handle>().swap(keys_);
    return h;
}

void builder::abort() noexcept {
    for (const handle h : values_)
        generation_->release(h);
    for (const handle h : keys_)
        generation_->release(h);
    values_.clear();
    keys_.clear();
    frames_.clear();
}

handle builder::take_previous() noexcept {
    if (frames_.empty()) return root_previous_;
    const frame& f = frames_.back();
    if (f.object) return value_previous_;
    const std::size_t i = values_.size() - f.values;
    return i < f.previous_size ? f.previous_values[i] : missing_handle;
}

void builder::begin(bool object) {
    frame f{};
    f.values = size32(values_.size());
    f.keys = size32(keys_.size());
    f.object = object;
    if (const handle p = take_previous(); is_node(p)) {
        const std::uint32_t* n = generation_->node(p);
        if (object && header_is_object(*n)) {
            const std::uint32_t* shape = generation_->node(*n);
            f.previous = p;
            f.previous_size = header_length(*shape);
            f.previous_keys = shape + 1;
            f.previous_values = n + 1;
        } else if (!object && !header_is_object(*n) && header_kind(*n) == node_kind::array) {
            f.previous = p;
            f.previous_size = header_length(*n);
            f.previous_values = n + 1;
        }
    }
    frames_.push_back(f);
}

bool builder::key_is(handle h, std::string_view k) const noexcept {
    if (k.size() <= 3) return h == make_small_string(k);
    if (!is_node(h)) return false;
    const std::uint32_t* n = generation_->node(h);
    return header_length(*n) == k.size() && std::memcmp(n + 1, k.data(), k.size()) == 0;
}

handle builder::intern_key(std::string_view k) {
    if (k.size() <= 3) return make_small_string(k);
    check_length(k.size());
    return generation_->intern(make_header(node_kind::string, size32(k.size())), k.data(), k.size()).h;
}

void builder::key(std::string_view k) {
    frame& f = frames_.back();
    value_previous_ = missing_handle;
    keys_.reserve(keys_.size() < keys_.capacity() ? 0 : keys_.capacity() * 2 + 32);
    // The same members in the same order is what nearly always comes; else look a little ahead.
    const std::uint32_t end = std::min(f.previous_size, f.previous_at + 32);
    for (std::uint32_t i = f.previous_at; i < end; ++i) {
        if (!key_is(f.previous_keys[i], k)) continue;
        f.previous_at = i + 1;
        value_previous_ = f.previous_values[i];
        generation_->retain(f.previous_keys[i]);
        keys_.push_back(f.previous_keys[i]);
        return;
    }
    keys_.push_back(intern_key(k));
}

void builder::drop_key() noexcept {
    generation_->release(keys_.back());
    keys_.pop_back();
}

void builder::leaf(std::uint32_t header, const void* data, std::size_t bytes) {
    values_.reserve(values_.size() < values_.capacity() ? 0 : values_.capacity() * 2 + 32);
    if (const handle p = take_previous(); is_node(p)) {
        const std::uint32_t* n = generation_->node(p);
        if (*n == header && std::memcmp(n + 1, data, bytes) == 0) {
            generation_->retain(p);
            values_.push_back(p);
            return;
        }
    }
    const auto r = generation_->intern(header, data, bytes);
    if (r.fresh && !frames_.empty()) frames_.back().fresh = true;
    values_.push_back(r.h);
}

void builder::string(std::string_view s) {
    if (s.size() <= 3) return push(make_small_string(s));
    if (s.size() == timestamp_size) {
        if (std::uint32_t t; pack_timestamp(s, t)) return push(timestamp_bit | t);
    } else if (s.size() == uuid_text_size) {
        if (unsigned char bytes[16]; pack_uuid(s, bytes)) return leaf(make_header(node_kind::uuid, 0), bytes, 16);
    }
    check_length(s.size());
    leaf(make_header(node_kind::string, size32(s.size())), s.data(), s.size());
}

void builder::integer(std::int64_t v) {
    if (fits_small_int(v)) return push(make_small_int(v));
    leaf(make_header(node_kind::int64, 0), &v, 8);
}

void builder::integer(std::uint64_t v) {
    if (v <= static_cast<std::uint64_t>(INT64_MAX)) return integer(static_cast<std::int64_t>(v));
    leaf(make_header(node_kind::uint64, 0), &v, 8);
}

void builder::floating(double d) {
    if (!std::isfinite(d)) return push(null_handle); // JSON has no such numbers
    number(print_double(d));
}

void builder::number(std::string_view text) {
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

/// Replaces the children on top of the stack, whose counts are ours, by their container.
void builder::container(std::uint32_t header, const handle* children, std::uint32_t n, bool known_new, handle previous) {
    const std::size_t bytes = std::size_t{n} * 4;
    generation::interned made{missing_handle, false};
    if (is_node(previous)) {
        const std::uint32_t* p = generation_->node(previous);
        if (*p == header && std::memcmp(p + 1, children, bytes) == 0) {
            generation_->retain(previous);
            made.h = previous;
        }
    }
    if (!made.h) made = generation_->intern(header, children, bytes, known_new);
    if (!made.fresh) // it has its own counts of the same children
        for (std::uint32_t i = 0; i < n; ++i)
            generation_->release(children[i]);
    const frame f = frames_.back();
    frames_.pop_back();
    values_.resize(f.values);
    values_.push_back(made.h); // room there is: at least one child was removed
    if (!made.fresh && f.object) generation_->release(header);
    if (made.fresh && !frames_.empty()) frames_.back().fresh = true;
}

void builder::end_array() {
    const frame& f = frames_.back();
    const std::size_t n = values_.size() - f.values;
    if (n == 0) {
        frames_.pop_back();
        return push(empty_array_handle);
    }
    check_length(n);
    container(make_header(node_kind::array, size32(n)), values_.data() + f.values, size32(n), f.fresh, f.previous);
}

void builder::remove_duplicates() {
    const frame& f = frames_.back();
    const std::size_t n = keys_.size() - f.keys;
    handle* keys = keys_.data() + f.keys;
    handle* values = values_.data() + f.values;
    // first[i]: the first member with the key of member i. Keys are interned: equal keys are equal handles.
    std::vector<std::uint32_t> first(n), order;
    if (n <= 32) {
        for (std::size_t i = 0; i < n; ++i)
            first[i] = size32(static_cast<std::size_t>(std::find(keys, keys + i, keys[i]) - keys));
    } else {
        order.resize(n);
        std::iota(order.begin(), order.end(), 0u);
        std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
            return keys[a] != keys[b] ? keys[a] < keys[b] : a < b;
        });
        for (std::size_t i = 0; i < n; ++i)
            first[order[i]] = i > 0 && keys[order[i]] == keys[order[i - 1]] ? first[order[i - 1]] : order[i];
    }
    // Nothing below can fail. The first place keeps the last value.
    std::size_t kept = 0;
    for (std::size_t i = 0; i < n; ++i) {
        if (first[i] == i) {
            keys[kept] = keys[i];
            values[kept] = values[i];
            first[i] = size32(kept++);
        } else {
            const std::size_t place = first[first[i]];
            generation_->release(keys[i]);
            generation_->release(values[place]);
            values[place] = values[i];
        }
    }
    if (kept == n) return;
    frames_.back().fresh = false; // the fresh child may be among the removed
    keys_.resize(f.keys + kept);
    values_.resize(f.values + kept);
}

handle builder::shape_of_top() {
    const frame& f = frames_.back();
    const auto count = [&] { return size32(keys_.size() - f.keys); };
    const auto keys = [&] { return keys_.data() + f.keys; };
    check_length(keys_.size() - f.keys);
    handle shape = missing_handle;
    if (f.previous && f.previous_size == count() && std::memcmp(f.previous_keys, keys(), std::size_t{count()} * 4) == 0) {
        shape = *generation_->node(f.previous);
        generation_->retain(shape);
    } else {
        shape = generation_->find_shape(keys(), count());
    }
    if (!shape) { // shapes have no duplicates, so only a new one needs the check
        remove_duplicates();
        shape = generation_->find_shape(keys(), count());
    }
    if (!shape) {
        shape = generation_->make_shape(keys(), count());
    } else {
        for (std::size_t i = f.keys; i < keys_.size(); ++i)
            generation_->release(keys_[i]);
    }
    keys_.resize(f.keys);
    return shape;
}

void builder::end_object() {
    if (values_.size() == frames_.back().values) {
        frames_.pop_back();
        return push(empty_object_handle);
    }
    const handle shape = shape_of_top();
    const frame& f = frames_.back();
    try {
        container(shape, values_.data() + f.values, size32(values_.size() - f.values), f.fresh, f.previous);
    } catch (...) {
        generation_->release(shape);
        throw;
    }
}

void builder::put_type_first(std::string_view api_version, std::string_view kind) {
    remove_duplicates();
    const std::size_t first_key = frames_.back().keys, first_value = frames_.back().values;
    std::size_t place = 0;
    const auto put = [&](std::string_view name, std::string_view text) {
        std::size_t at = 0;
        const std::size_t n = keys_.size() - first_key;
        while (at < n && !key_is(keys_[first_key + at], name))
            ++at;
        if (at == n) {
            if (text.empty()) return;
            key(name);
            string(text);
        }
        const auto k = keys_.begin() + static_cast<std::ptrdiff_t>(first_key);
        const auto v = values_.begin() + static_cast<std::ptrdiff_t>(first_value);
        const auto to = static_cast<std::ptrdiff_t>(place++), from = static_cast<std::ptrdiff_t>(at);
        std::rotate(k + to, k + from, k + from + 1);
        std::rotate(v + to, v + from, v + from + 1);
    };
    put("apiVersion", api_version);
    put("kind", kind);
}

void builder::copy(const generation& from, handle h) {
    struct place {
        const std::uint32_t* n;
        std::uint32_t size, at;
    };
    std::vector<place> open;
    const auto key_text = [&](handle k, char* small) {
        if (!is_node(k)) {
            for (std::uint32_t i = 0; i < 3; ++i)
                small[i] = static_cast<char>(k >> (8 * i));
            return std::string_view(small, small_string_size(k));
        }
        const std::uint32_t* n = from.node(k);
        return std::string_view(reinterpret_cast<const char*>(n + 1), header_length(*n));
    };
    const auto enter = [&](handle x) {
        if (!is_node(x)) return push(x);
        const std::uint32_t* n = from.node(x);
        if (header_is_object(*n)) {
            open.push_back({n, header_length(*from.node(*n)), 0});
            return begin_object();
        }
        const std::uint32_t length = header_length(*n);
        switch (header_kind(*n)) {
        case node_kind::array: open.push_back({n, length, 0}); return begin_array();
        case node_kind::string:
        case node_kind::number: return leaf(*n, n + 1, length);
        case node_kind::uuid: return leaf(*n, n + 1, 16);
        default: return leaf(*n, n + 1, 8);
        }
    };
    enter(h);
    while (!open.empty()) {
        const place p = open.back();
        const bool object = header_is_object(*p.n);
        if (p.at == p.size) {
            open.pop_back();
            if (object)
                end_object();
            else
                end_array();
            continue;
        }
        ++open.back().at;
        if (object) {
            char small[3];
            key(key_text(from.node(*p.n)[1 + p.at], small));
        }
        enter(p.n[1 + p.at]);
    }
}

} // namespace informer::detail
