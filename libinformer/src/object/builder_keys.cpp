// The keys of objects: found in the cursor, interned or not, and gathered into shapes.
#include "detail/builder.hpp"

#include "detail/fingerprints.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

namespace informer::detail {

namespace {

constexpr std::uint32_t no_member = ~0u;
constexpr std::uint8_t most_strange = 4;

/// Finds the number of an item by the item's hash; numbers begin at 0. It grows with the number of items, not with the
/// number of look-ups: a key that comes 20,000 times needs no more memory.
class places_by_hash {
public:
    places_by_hash() = default;
    places_by_hash(const places_by_hash&) = delete;
    places_by_hash& operator=(const places_by_hash&) = delete;
    /// Returns the number for which `is` is true; if there is none, adds `next` and returns it. `hash_of` gives the
    /// hash of a number in the table.
    template <class Is, class Hash>
    std::uint32_t find_or_add(std::uint64_t hash, std::uint32_t next, const Is& is, const Hash& hash_of) {
        if (next >= table_.size() / 2) grow(next, hash_of);
        std::uint32_t& found = slot(hash, is);
        if (found == 0) found = next + 1;
        return found - 1;
    }

private:
    /// The slot of the number for which `is` is true, or a free slot.
    template <class Is>
    std::uint32_t& slot(std::uint64_t hash, const Is& is) noexcept {
        const std::size_t mask = table_.size() - 1;
        std::size_t at = hash & mask;
        while (table_[at] != 0 && !is(table_[at] - 1)) at = (at + 1) & mask;
        return table_[at];
    }
    template <class Hash>
    void grow(std::uint32_t n, const Hash& hash_of) {
        large_ = std::vector<std::uint32_t>(table_.size() * 4);
        table_ = large_;
        for (std::uint32_t i = 0; i < n; ++i) slot(hash_of(i), [](std::uint32_t) { return false; }) = i + 1;
    }

    std::uint32_t small_[64] = {};
    std::vector<std::uint32_t> large_;
    std::span<std::uint32_t> table_ = small_; ///< a number plus one; 0: free
};

} // namespace

void builder::leave_keys(frame& f) {
    if (f.same_values) leave_values(f, 1);
    keys_.need(f.at + 1);
    f.same_keys = false;
    f.keys = keys_.size();
    f.cursor_at = f.at;
    if (f.at > 0) key_hashes_.forget();
    for (std::uint32_t i = 0; i < f.at; ++i) keys_.push(key_of_cursor(f, f.cursor_keys[i]));
}

/// A key of the cursor, with a count. A key that another object takes over is interned if it is not yet, unless its
/// path has stopped interning; versions of one object share their keys anyway.
handle builder::key_of_cursor(frame& f, handle key) {
    if (f.loose_cursor && !generation_->is_interned(key)) {
        const interning_record* const record = key_record(f);
        if (!older_ && !(record && record->stopped())) {
            const std::uint32_t* const n = generation_->node(key);
            const auto r = generation_->intern(*n, n + 1, header_length(*n));
            (r.fresh ? f.new_key : f.known_key) = true;
            return r.h;
        }
        f.loose = true;
    }
    generation_->retain(key);
    return key;
}

/// The member of a cursor with few keys whose key has this handle, or no_member.
std::uint32_t builder::find_handle(const frame& f, handle key) noexcept {
    const handle *const keys = f.cursor_keys, *const end = keys + f.cursor_size;
    const handle* const found = std::find(keys, end, key);
    return found == end ? no_member : size32(static_cast<std::size_t>(found - keys));
}

/// The member of the cursor with this key, or no_member. Two versions of an object may differ in the order of members:
/// equal values must meet all the same.
std::uint32_t builder::find_in_cursor(const frame& f, std::string_view k) {
    const std::uint32_t n = f.cursor_size;
    // Mostly it is the next key, or the one after a member that is gone.
    for (std::uint32_t ahead = f.cursor_at; ahead < std::min(n, f.cursor_at + 2); ++ahead)
        if (key_is(f.cursor_keys[ahead], k)) return ahead;
    // Or the last key comes again.
    if (f.cursor_at > 0 && key_is(f.cursor_keys[f.cursor_at - 1], k)) return f.cursor_at - 1;
    if (k.size() <= 3 && n < wide_shape) return find_handle(f, make_small_string(k));
    if (shape_is_hashed(f.cursor_keys[-1])) {
        const std::uint32_t i = generation_->find_key(f.cursor_keys - 1, k);
        return i == n ? no_member : i;
    }
    std::uint32_t found = no_member;
    int tries = 8;
    for_each_alike(f.cursor_keys, n, key_fingerprint(k), [&](std::uint32_t i) {
        if (key_is(f.cursor_keys[i], k)) {
            found = i;
            return true;
        }
        if (f.loose_cursor || --tries > 0) return false; // few keys of a loose shape look alike
        // The keys were made to look alike. They are all interned, so the wanted one is found by its handle.
        const std::uint32_t header = make_header(node_kind::string, size32(k.size()));
        const handle key = generation_->find(generation_->hash(header, k.data(), k.size()), header, k.data(), k.size());
        if (key) found = find_handle(f, key);
        return true;
    });
    return found;
}

void builder::other_key(std::string_view k) {
    frame& f = frames_.back();
    if (f.same_keys) leave_keys(f);
    keys_.need(1);
    value_cursor_ = missing_handle;
    // If the cursor is another object and lacked the last keys, it will hardly have this one.
    if (f.strange < most_strange || older_) {
        if (f.cursor) {
            if (const std::uint32_t i = find_in_cursor(f, k); i != no_member) return take_key_of_cursor(f, i);
        }
        if (f.strange < most_strange) ++f.strange;
    }
    const std::uint64_t hash = k.size() > 3 ? quick_hash(k) : quick_hash_of_small(make_small_string(k));
    key_hashes_.add(f, keys_.size() - f.keys, hash);
    // Keys are interned by the rule for values: where they hardly repeat, they become nodes that no look-up finds.
    if (interning_record* const record = key_record(f); record && k.size() > 3 && !record->wanted(hash >> 32)) {
        check_length(k.size());
        f.loose = true;
        keys_.push(generation_->make_plain(make_header(node_kind::string, size32(k.size())), k.data(), k.size()));
    } else {
        keys_.push(new_key(f, k));
    }
}

void builder::take_key_of_cursor(frame& f, std::uint32_t i) {
    key_hashes_.forget();
    keys_.push(key_of_cursor(f, f.cursor_keys[i]));
    f.known_key = true;
    value_cursor_ = f.cursor_values[i];
    f.cursor_at = i + 1;
    f.strange = 0;
}

/// A key that the cursor lacks, with a count; missing_handle if it waits for others (`waiting_keys`).
handle builder::new_key(frame& f, std::string_view k) {
    if (k.size() <= 3) {
        f.known_key = true;
        return make_small_string(k);
    }
    check_length(k.size());
    if (!policy_) begin_policy();
    const std::uint32_t header = make_header(node_kind::string, size32(k.size()));
    const std::uint64_t hash = generation_->hash(header, k.data(), k.size());
    if (f.strange >= most_strange && let_wait(f, k, hash)) return missing_handle;
    const auto r = generation_->intern(hash, header, k.data(), k.size());
    if (interning_record* const record = key_record(f)) record->looked_up(!r.fresh);
    (r.fresh ? f.new_key : f.known_key) = true;
    return r.h;
}

bool builder::let_wait(const frame& f, std::string_view k, std::uint64_t hash) {
    if (k.size() > waiting_keys::longest) return false;
    if (!waiting_) waiting_ = std::make_unique<waiting_keys>();
    waiting_keys& w = *waiting_;
    if (w.n == waiting_keys::most) find_waiting();
    generation_->prefetch_slot(hash);
    std::memcpy(w.text[w.n], k.data(), k.size());
    w.keys[w.n++] = {hash, keys_.size(), size32(static_cast<std::size_t>(&f - frames_.data())), size32(k.size())};
    return true;
}

void builder::find_waiting() {
    waiting_keys& w = *waiting_;
    for (std::uint32_t i = 0; i < w.n; ++i) generation_->prefetch_found(w.keys[i].hash);
    for (std::uint32_t i = 0; i < w.n; ++i) {
        const waiting_keys::one& k = w.keys[i];
        const auto r = generation_->intern(k.hash, make_header(node_kind::string, k.size), w.text[i], k.size);
        *keys_.at(k.at) = r.h;
        frame& f = frames_[k.frame];
        if (interning_record* const record = key_record(f)) record->looked_up(!r.fresh);
        (r.fresh ? f.new_key : f.known_key) = true;
    }
    w.n = 0;
}

/// If a key came more than once, its first place keeps the last value.
void builder::remove_duplicates() {
    frame& f = frames_.back();
    key_hashes_.forget();
    const std::uint32_t n = f.at;
    handle* const keys = keys_.at(f.keys);
    handle* const values = values_.at(f.values);
    const bool loose = f.loose; // else equal keys are equal handles
    const auto same = [&](handle a, handle b) { return loose ? generation_->same_key(a, b) : a == b; };
    const auto hash = [&](handle k) { return loose ? generation_->hash_of_key(k) : generation_->hash(k); };
    places_by_hash places;
    std::uint32_t kept = 0, next = 0;
    // Also called if there is no memory for the table: then the members not looked at yet are kept.
    const auto close_gap = [&]() noexcept {
        if (kept == next) return;
        std::copy(keys + next, keys + n, keys + kept);
        std::copy(values + next, values + n, values + kept);
        f.at = kept + (n - next);
        f.fresh = generation::known; // the fresh child may be among the removed
        keys_.resize_down(f.keys + f.at);
        values_.resize_down(f.values + f.at);
    };
    try {
        for (; next < n; ++next) {
            const std::uint32_t first = places.find_or_add(
                hash(keys[next]), kept, [&](std::uint32_t i) { return same(keys[i], keys[next]); },
                [&](std::uint32_t i) { return hash(keys[i]); });
            if (first == kept) {
                keys[kept] = keys[next];
                values[kept++] = values[next];
            } else {
                generation_->release(keys[next]);
                generation_->release(values[first]);
                values[first] = values[next];
            }
        }
    } catch (...) {
        close_gap();
        throw;
    }
    close_gap();
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
    if (f.at > max_keys) throw value_is_too_long();
    if (waiting_ && waiting_->n > 0 && waiting_->keys[waiting_->n - 1].frame == frames_.size() - 1) find_waiting();
    if (f.loose) return loose_shape();
    // A key made in this object can be only in shapes made since. If no shape was made since, this one is new and is
    // not looked for. Existing shapes have no duplicate keys, so only a new shape is checked, and only if one of its
    // keys was known before.
    const bool is_new = f.new_key && f.shapes == shapes_;
    const auto find = [&] { return is_new ? missing_handle : generation_->find_shape(keys_.at(f.keys), f.at); };
    handle shape = find();
    if (!shape && f.known_key) {
        const std::uint32_t before = f.at;
        remove_duplicates();
        if (f.at != before) shape = find();
    }
    if (!shape) {
        shape = generation_->make_shape(keys_.at(f.keys), f.at);
        ++shapes_;
        f.fresh |= generation::fresh;
    } else {
        for (std::uint32_t i = f.keys; i < keys_.size(); ++i) generation_->release(*keys_.at(i));
    }
    keys_.resize_down(f.keys);
    return shape;
}

handle builder::loose_shape() {
    frame& f = frames_.back();
    handle shape = generation_->make_loose_shape(keys_.at(f.keys), f.at, key_hashes_.of(f, f.at));
    if (!shape) {
        remove_duplicates();
        shape = generation_->make_loose_shape(keys_.at(f.keys), f.at);
    }
    ++shapes_;
    f.fresh |= generation::fresh;
    keys_.resize_down(f.keys);
    return shape;
}

} // namespace informer::detail
