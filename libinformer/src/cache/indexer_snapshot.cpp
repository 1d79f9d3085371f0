// The reader's side of the cache.
#include "cache_data.hpp"

#include <informer/object/prefetch.hpp>

#include <algorithm>
#include <array>

namespace informer {

using detail::index_version;
using detail::key_view;
using detail::object_map;
using detail::object_traits;
using detail::posting_ref;

namespace {

const object_map no_objects;

const object_map& objects_of(const cache_snapshot::data* d) noexcept {
    return d ? d->objects : no_objects;
}

object find(const cache_snapshot::data* d, const key_view& key) {
    const object* o = objects_of(d).find(key);
    return o ? *o : object();
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

/// In groups, level by level: the objects' memory is waited for together.
template <class F>
void for_each_labels(object_map::cursor& c, F f) {
    constexpr std::size_t group = 32;
    std::array<const object*, group> objects{};
    std::array<value, group> values;
    for (std::size_t n = group; n == group;) {
        for (n = 0; n < group; ++n) {
            objects[n] = c.next();
            if (!objects[n]) break;
            prefetch(*objects[n]);
        }
        for (std::size_t i = 0; i < n; ++i) prefetch(values[i] = objects[i]->value());
        for (std::size_t i = 0; i < n; ++i) prefetch(values[i] = values[i]["metadata"]);
        for (std::size_t i = 0; i < n; ++i) f(*objects[i], values[i]["labels"]);
    }
}

/// Equal labels are mostly one node (those of a ReplicaSet's pods), so the latest answers are kept by it.
class label_matcher {
public:
    explicit label_matcher(const label_selector& s) noexcept : selector_(s) {}
    bool operator()(const value& labels) {
        known& k = known_[labels.handle() * 0x9e37'79b9u >> (32 - known_bits)];
        if (!labels || !k.labels.same_as(labels)) k = known{labels, selector_.matches_labels(labels)};
        return k.matches;
    }

private:
    struct known {
        value labels;
        bool matches = false;
    };
    static constexpr unsigned known_bits = 8;
    const label_selector& selector_;
    std::array<known, 1u << known_bits> known_;
};

} // namespace

namespace detail {

object_cursor::object_cursor(const cache_snapshot& s) : cursor_(objects_of(s.contents())) {}

} // namespace detail

object cache_snapshot::get(const object_key& key) const {
    return find(data_.get(), key_view::of(key));
}

object cache_snapshot::get(std::string_view namespace_slash_name) const {
    return find(data_.get(), key_view::parse(namespace_slash_name));
}

std::size_t cache_snapshot::size() const noexcept {
    return objects_of(data_.get()).size();
}

std::vector<object> cache_snapshot::list() const {
    std::vector<object> all;
    all.reserve(size());
    object_map::cursor c(objects_of(data_.get()));
    while (const object* o = c.next()) all.push_back(*o);
    return all;
}

std::vector<object> cache_snapshot::list(const label_selector& selector) const {
    if (selector.everything()) return list();
    std::vector<object> matching;
    label_matcher matches(selector);
    object_map::cursor c(objects_of(data_.get()));
    for_each_labels(c, [&](const object& o, const value& labels) {
        if (matches(labels)) matching.push_back(o);
    });
    return matching;
}

std::vector<object> cache_snapshot::list_namespace(std::string_view name_space) const {
    if (name_space.empty()) return list();
    std::vector<object> in_it;
    const object_map& all = objects_of(data_.get());
    const std::uint64_t hash = all.traits().hash_namespace(name_space);
    object_map::cursor c(all, hash, object_traits::namespace_levels);
    const auto inside = [&](const object& o) {
        return object_traits::with_key(o, [&](const key_view& k) { return k.name_space == name_space; });
    };
    const object* o = c.next();
    if (o && !data_->mixed->test(detail::namespace_census::bucket(hash))) {
        if (!inside(*o)) return {};
        for (; o; o = c.next()) in_it.push_back(*o);
    }
    for (; o; o = c.next()) {
        if (inside(*o)) in_it.push_back(*o);
    }
    return in_it;
}

std::vector<object> cache_snapshot::by_index(std::string_view index, std::string_view value) const {
    const object_map& posting = posting_of(data_.get(), index, value);
    std::vector<object> found;
    found.reserve(posting.size());
    object_map::cursor c(posting);
    while (const object* o = c.next()) found.push_back(*o);
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
