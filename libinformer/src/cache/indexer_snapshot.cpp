// The reader's side of the cache.
#include "../object/detail/reading.hpp"
#include "cache_data.hpp"
#include "object_cursor.hpp"

#include <informer/object/prefetch.hpp>

#include <algorithm>
#include <array>
#include <bit>

namespace informer {

using detail::index_version;
using detail::key_view;
using detail::object_map;
using detail::object_traits;
using detail::posting_ref;

cache_snapshot::data* cache_snapshot::if_alone() const noexcept {
    if (data_.use_count() != 1) return nullptr;
    // Orders us after the threads that released their references. A fence would do that, too, but ThreadSanitizer does
    // not understand fences.
    std::shared_ptr<const data>(data_).reset();
    return const_cast<data*>(data_.get()); // it was created as non-const
}

namespace {

const object_map no_objects;

const object_map& objects_of(const cache_snapshot::data* d) noexcept {
    return d ? d->objects : no_objects;
}

object counted(const object* o) noexcept {
    return o ? *o : object();
}

/// Of all objects, or of the sub-trie that one namespace shares with few others.
object_map::cursor walk_of(const object_map& all, std::string_view name_space) {
    if (name_space.empty()) return object_map::cursor(all);
    return object_map::cursor(all, all.traits().hash_namespace(name_space), object_traits::namespace_levels);
}

const index_version& index_of(const cache_snapshot::data* d, std::string_view name) {
    if (const index_version* i = d ? d->find(name) : nullptr) return *i;
    std::string known;
    if (d) {
        for (const auto& i : d->begun) {
            if (i->name == name)
                throw error(errc::not_synced, "read index \"" + std::string(name) + "\": it is still being built");
        }
        for (const auto& i : d->indexes) known.append(known.empty() ? "" : ", ").append(i.definition->name);
    }
    throw error(errc::unknown_index, "read index \"" + std::string(name) + "\" (there " +
                                         (known.empty() ? "is none" : "are: " + known) + ")");
}

const object_map& posting_of(const cache_snapshot::data* d, std::string_view index, std::string_view value) {
    const posting_ref* p = index_of(d, index).postings.find(value);
    return p ? (*p)->objects : no_objects;
}

/// Reads objects in groups, level by level, so that the waits for their memory overlap.
template <class F>
void for_each_labels(object_map::cursor& c, F f) {
    constexpr std::size_t group = 32;
    detail::member_reader metadata("metadata"), labels("labels");
    std::array<const object*, group> objects{};
    std::array<value, group> values;
    for (std::size_t n = group; n == group;) {
        for (n = 0; n < group; ++n) {
            objects[n] = c.next();
            if (!objects[n]) break;
            prefetch(*objects[n]);
        }
        for (std::size_t i = 0; i < n; ++i) prefetch(values[i] = objects[i]->value());
        for (std::size_t i = 0; i < n; ++i) prefetch(values[i] = metadata(values[i]));
        for (std::size_t i = 0; i < n; ++i) f(*objects[i], labels(values[i]));
    }
}

/// Equal labels are mostly one node of the pool (those of a ReplicaSet's pods), so answers are kept per node.
class label_matcher {
public:
    label_matcher(const label_selector& s, std::size_t objects)
        : selector_(s), known_(std::size_t{1} << bits_for(objects)), shift_(32 - bits_for(objects)) {}
    bool operator()(const value& labels) {
        known& k = known_[labels.handle() * 0x9e37'79b9u >> shift_];
        if (!labels.exists() || k.handle != labels.handle() || k.of != labels.generation())
            k = known{labels.generation(), labels.handle(), selector_.matches_labels(labels)};
        return k.matches;
    }

private:
    struct known {
        const detail::generation* of = nullptr;
        std::uint32_t handle = 0;
        bool matches = false;
    };
    /// One slot for every four objects, and no more than 64 KiB.
    static unsigned bits_for(std::size_t objects) noexcept {
        return static_cast<unsigned>(std::clamp<std::size_t>(std::bit_width(objects / 4), 4, 12));
    }
    const label_selector& selector_;
    std::vector<known> known_;
    unsigned shift_;
};

} // namespace

namespace detail {

object_cursor::object_cursor(const cache_snapshot& s) : cursor_(objects_of(s.contents())) {}
object_cursor::object_cursor(const cache_snapshot& s, std::string_view name_space)
    : cursor_(walk_of(objects_of(s.contents()), name_space)), whole_(name_space.empty()) {}

} // namespace detail

const object* cache_snapshot::find(const object_key& key) const& noexcept {
    return objects_of(data_.get()).find(key_view::of(key));
}

const object* cache_snapshot::find_by_text(std::string_view key) const noexcept {
    return objects_of(data_.get()).find(key_view::parse(key));
}

const object* cache_snapshot::find(std::string_view name_space, std::string_view name) const& noexcept {
    return objects_of(data_.get()).find(key_view{name_space, name});
}

object cache_snapshot::get(const object_key& key) const {
    return counted(find(key));
}

object cache_snapshot::get_by_text(std::string_view key) const {
    return counted(find_by_text(key));
}

object cache_snapshot::get(std::string_view name_space, std::string_view name) const {
    return counted(find(name_space, name));
}

std::size_t cache_snapshot::size() const noexcept {
    return objects_of(data_.get()).size();
}

lent_objects cache_snapshot::list() const {
    lent_objects all(data_);
    all.reserve(size());
    object_map::cursor c(objects_of(data_.get()));
    while (const object* o = c.next()) all.add(*o);
    return all;
}

lent_objects cache_snapshot::list(const label_selector& selector) const {
    if (selector.everything()) return list();
    lent_objects matching(data_);
    label_matcher matches(selector, size());
    object_map::cursor c(objects_of(data_.get()));
    for_each_labels(c, [&](const object& o, const value& labels) {
        if (matches(labels)) matching.add(o);
    });
    return matching;
}

lent_objects cache_snapshot::list_namespace(std::string_view name_space) const {
    if (name_space.empty()) return list();
    lent_objects in_it(data_);
    const object_map& all = objects_of(data_.get());
    const std::uint64_t hash = all.traits().hash_namespace(name_space);
    object_map::cursor c(all, hash, object_traits::namespace_levels);
    const auto inside = [&](const object& o) { return o.name_space() == name_space; };
    const object* o = c.next();
    if (o && !data_->mixed->test(detail::namespace_census::bucket(hash))) {
        if (!inside(*o)) return {};
        for (; o; o = c.next()) in_it.add(*o);
    }
    for (; o; o = c.next()) {
        if (inside(*o)) in_it.add(*o);
    }
    return in_it;
}

lent_objects cache_snapshot::by_index(std::string_view index, std::string_view value) const {
    const object_map& posting = posting_of(data_.get(), index, value);
    lent_objects found(data_);
    found.reserve(posting.size());
    object_map::cursor c(posting);
    while (const object* o = c.next()) found.add(*o);
    return found;
}

std::vector<object_key> cache_snapshot::index_keys(std::string_view index, std::string_view value) const {
    const object_map& posting = posting_of(data_.get(), index, value);
    std::vector<object_key> keys;
    keys.reserve(posting.size());
    object_map::cursor c(posting);
    while (const object* o = c.next()) keys.push_back(o->key());
    std::sort(keys.begin(), keys.end());
    return keys;
}

std::vector<std::string> cache_snapshot::index_values(std::string_view index) const {
    const index_version& i = index_of(data_.get(), index);
    std::vector<std::string> values;
    values.reserve(i.postings.size());
    detail::posting_map::cursor c(i.postings);
    while (const posting_ref* p = c.next()) values.push_back((*p)->value);
    std::sort(values.begin(), values.end());
    return values;
}

bool cache_snapshot::has_index(std::string_view index) const noexcept {
    return data_ && data_->find(index);
}

void cache_snapshot::for_each(const std::function<bool(const object&)>& f) const {
    object_map::cursor c(objects_of(data_.get()));
    while (const object* o = c.next()) {
        if (!f(*o)) return;
    }
}

informer::resource_version cache_snapshot::resource_version() const {
    return data_ ? data_->version : informer::resource_version();
}

} // namespace informer
