// The writer's side of the cache.
#include "../object/detail/pool_core.hpp"
#include "cache_data.hpp"
#include "object_cursor.hpp"
#include "published.hpp"
#include "root/while_it_lasts.hpp"

#include <algorithm>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <random>

namespace informer {

using detail::index_definition;
using detail::index_version;
using detail::key_of_object;
using detail::key_view;
using detail::object_map;
using detail::object_traits;
using detail::posting;
using detail::posting_map;
using detail::posting_ref;
using detail::posting_traits;

namespace {

constexpr std::size_t kept_errors = 16;

std::uint64_t random_seed() {
    std::random_device device;
    return std::uint64_t(device()) << 32 | device();
}

/// `like`: the object that the posting probably holds for this key.
void put_in(index_version& index, const std::string& value, object o, const object& like, std::uint64_t hash,
            const object_traits& traits) {
    if (posting_ref* there = index.postings.edit(std::string_view(value))) {
        posting& p = there->own();
        const std::size_t before = p.bytes();
        p.objects.put(o, like, hash);
        index.posting_bytes = index.posting_bytes - before + p.bytes();
        return;
    }
    object_map one(traits);
    one.put(o, like, hash);
    posting_ref made(new posting(value, std::move(one)));
    index.posting_bytes += made->bytes();
    index.postings.put(std::move(made));
}

index_version empty_index(std::shared_ptr<const index_definition> definition, std::uint64_t seed) {
    index_version i;
    i.definition = std::move(definition);
    i.postings = posting_map(posting_traits{seed});
    return i;
}

/// `hash`: that of the key of `o`.
void count_in(detail::namespace_census& namespaces, const object& o, std::uint64_t hash) {
    const text name_space = o.name_space();
    namespaces.add(name_space.view(), detail::namespace_census::bucket(hash));
}

void count_out(detail::namespace_census& namespaces, const object& o, std::uint64_t hash) {
    const text name_space = o.name_space();
    namespaces.remove(name_space.view(), detail::namespace_census::bucket(hash));
}

void erase_in(index_version& index, const std::string& value, const object& o) {
    posting_ref* there = index.postings.edit(std::string_view(value));
    if (!there) return;
    posting& p = there->own();
    const std::size_t before = p.bytes();
    p.objects.erase(o);
    index.posting_bytes = index.posting_bytes - before + p.bytes();
    if (p.objects.empty()) {
        index.posting_bytes -= p.bytes();
        index.postings.erase(std::string_view(value));
    }
}

/// For an object whose old values are unknown, because the function threw: searches all values. The object may be under
/// none of them, and the function may throw at each change of the object.
void erase_anywhere(index_version& index, const object& o, std::uint64_t hash) {
    const key_of_object key(o);
    std::vector<std::string> values;
    detail::posting_map::cursor all(index.postings);
    while (const posting_ref* p = all.next())
        if ((*p)->objects.find(key.view(), hash)) values.push_back((*p)->value);
    for (const std::string& v : values) erase_in(index, v, o);
}

} // namespace

class indexer::draft {
public:
    std::uint64_t seed = 0;
    detail::namespace_census namespaces;
    std::vector<index_version> indexes;
    std::size_t objects = 0;
    bool broken = false; ///< an index function threw; that is noted when the object enters the cache
};

struct indexer::impl {
    // An index that is built while the cache changes: first from the objects that were there, then from what changed
    // since.
    struct building {
        index_version version;
        detail::object_cursor rest;
        bool walked = false;
        bool torn = false; // memory ran out amid a step: an object may be missing, or half of it be there
        std::deque<std::pair<object, object>> changes; // before, after
    };

    explicit impl(std::uint64_t seed) : traits{seed} {}

    object_traits traits;
    object_map objects{traits};
    detail::namespace_census namespaces;
    std::vector<index_version> indexes;
    std::list<building> begun;
    detail::object_cursor filling;
    informer::resource_version version;
    // since the last publish(); set before a write can fail half-way, so that revert() undoes half a change, too
    bool changed = false;
    bool ever_published = false; // publish() was called
    bool reverted = false;       // revert() was called: `namespaces` still counts what it took back

    detail::published<cache_snapshot::data> published{std::make_shared<cache_snapshot::data>()};

    bool in_a_function = false; // an index function runs: it must not change the indexes that are being walked
    mutable std::mutex error_mutex;
    std::deque<index_error> errors;
    std::atomic<std::uint64_t> error_count{0};

    void note(const index_definition& index, const object& o, std::string what) {
        error_count.fetch_add(1, std::memory_order_relaxed);
        const std::lock_guard lock(error_mutex);
        if (errors.size() == kept_errors) {
            // Each index keeps one error, if that is possible.
            const auto goes = std::find_if(errors.begin(), errors.end(), [&](const index_error& e) {
                const auto same = [&e](const index_error& other) { return other.index == e.index; };
                return e.index == index.name || std::count_if(errors.begin(), errors.end(), same) > 1;
            });
            errors.erase(goes == errors.end() ? errors.begin() : goes);
        }
        errors.push_back(index_error{index.name, o.key(), std::move(what)});
    }

    /// Sorted, without duplicates; empty when the function throws.
    template <class Note>
    std::vector<std::string> values_of(const index_definition& index, const object& o, Note thrown) {
        std::vector<std::string> values;
        if (!o) return values;
        const detail::while_it_lasts calling(in_a_function);
        try {
            values = index.function(o);
        } catch (const std::exception& e) {
            thrown(e.what());
        } catch (...) {
            thrown("unknown exception");
        }
        if (values.size() > 1) {
            std::sort(values.begin(), values.end());
            values.erase(std::unique(values.begin(), values.end()), values.end());
        }
        return values;
    }

    /// Brings an index from one version of an object to the next; either may be empty.
    void reindex(index_version& index, const object& before, const object& after, std::uint64_t hash) {
        reindex(index, before, after, hash, [&](const char* what) {
            if (!(before == after)) note(*index.definition, after, what); // else only moved, and noted when it came
        });
    }
    template <class Note>
    void reindex(index_version& index, const object& before, const object& after, std::uint64_t hash, Note thrown) {
        if (!before) {
            for (const std::string& v : values_of(*index.definition, after, thrown))
                put_in(index, v, after, after, hash, traits);
            return;
        }
        bool known = true; // the values of `before`
        const auto old_values = values_of(*index.definition, before, [&known](const char*) { known = false; });
        if (!known) erase_anywhere(index, before, hash);
        const std::vector<std::string> new_values = values_of(*index.definition, after, thrown);
        for (const std::string& v : old_values) {
            if (!std::binary_search(new_values.begin(), new_values.end(), v)) erase_in(index, v, before);
        }
        for (const std::string& v : new_values) put_in(index, v, after, before, hash, traits);
    }

    /// `hash`: that of their key.
    void reindex_all(const object& before, const object& after, std::uint64_t hash) {
        for (index_version& i : indexes) reindex(i, before, after, hash);
        for (building& b : begun) b.changes.emplace_back(before, after);
    }

    std::shared_ptr<const detail::mixed_namespaces> mixed() const {
        return reverted ? published.current()->mixed : namespaces.mixed();
    }

    bool knows(std::string_view name) const noexcept {
        const auto named = [&](const index_version& i) { return i.definition->name == name; };
        return std::any_of(indexes.begin(), indexes.end(), named) ||
               std::any_of(begun.begin(), begun.end(), [&](const building& b) { return named(b.version); });
    }

    /// Indexes up to `budget` objects or changes; returns what is left of the budget.
    std::size_t build(building& b, std::size_t budget) {
        if (b.torn) b = begin(b.version.definition, objects);
        b.torn = true;
        while (budget > 0 && !b.walked) {
            if (const object* o = b.rest.next()) {
                reindex(b.version, object(), *o, b.rest.hash());
                --budget;
            } else {
                b.walked = true;
                b.rest = detail::object_cursor();
            }
        }
        while (budget > 0 && b.walked && !b.changes.empty()) {
            const auto& [before, after] = b.changes.front();
            reindex(b.version, before, after, traits.hash(after ? after : before));
            b.changes.pop_front();
            --budget;
        }
        b.torn = false;
        return budget;
    }

    std::shared_ptr<const index_definition> define(std::string name, index_function f) const {
        if (knows(name)) throw error(errc::duplicate_index, "add index \"" + name + "\"");
        if (!f) throw error(errc::bad_configuration, "add index \"" + name + "\": no function");
        if (in_a_function)
            throw error(errc::bad_configuration, "add index \"" + name + "\" from within an index function");
        auto definition = std::make_shared<index_definition>();
        definition->name = std::move(name);
        definition->function = std::move(f);
        return definition;
    }

    static building begin(std::shared_ptr<const index_definition> definition, const object_map& of) {
        building b;
        b.version = empty_index(std::move(definition), of.traits().seed);
        b.rest = detail::object_cursor(of);
        return b;
    }

    std::vector<std::shared_ptr<const index_definition>> definitions_begun() const {
        std::vector<std::shared_ptr<const index_definition>> all;
        for (const building& b : begun) all.push_back(b.version.definition);
        return all;
    }

    /// Shows readers which indexes are being built, and nothing else that is new.
    void show_begun() {
        auto next = std::make_shared<cache_snapshot::data>(*published.current());
        next->begun = definitions_begun();
        published.store(std::move(next));
    }

    /// Calls `f` with a snapshot that counts nothing; it must be quick, and keep no part of it.
    template <class F>
    object read(F f) const {
        const decltype(published)::reading now(published);
        return f(
            cache_snapshot(std::shared_ptr<const cache_snapshot::data>(std::shared_ptr<void>(), now.state().get())));
    }

    std::shared_ptr<cache_snapshot::data> state() const {
        auto now = std::make_shared<cache_snapshot::data>();
        now->objects = objects;
        now->mixed = mixed();
        now->indexes = indexes;
        now->begun = definitions_begun();
        now->version = version;
        return now;
    }

    void publish() {
        auto next = state();
        changed = false;
        published.store(std::move(next));
    }

    /// A complete index takes its place. If this throws, nothing has changed.
    void show(building& b) {
        indexes.reserve(indexes.size() + 1);
        std::shared_ptr<cache_snapshot::data> next; // null: readers see the index with the next publish()
        if (!changed) {
            next = state();
            next->indexes.push_back(b.version);
        } else if (!ever_published) { // readers see an empty cache, and so an empty index
            next = std::make_shared<cache_snapshot::data>(*published.current());
            next->begun = definitions_begun();
            next->indexes.push_back(index_version{b.version.definition, posting_map(b.version.postings.traits()), 0});
        }
        if (next) std::erase(next->begun, b.version.definition);
        indexes.push_back(std::move(b.version));
        if (next) published.store(std::move(next));
    }

    /// Takes the indexes of `made` if they are exactly those of `objects`; otherwise returns false.
    bool take(draft& made) {
        const auto same = [](const index_version& a, const index_version& b) { return a.definition == b.definition; };
        if (made.broken || made.objects != objects.size() || made.seed != traits.seed || !begun.empty() ||
            !std::ranges::equal(made.indexes, indexes, same))
            return false;
        namespaces = std::move(made.namespaces);
        indexes = std::move(made.indexes);
        return true;
    }

    /// What throws in the first part leaves all as it was; then what is left to build can be built later.
    void revert() {
        if (!changed) return;
        const std::shared_ptr<const cache_snapshot::data> seen = published.current();
        std::vector<index_version> seen_indexes = seen->indexes;
        informer::resource_version seen_version = seen->version;
        std::list<building> again; // of the published state, those that were complete first
        for (const index_version& i : indexes)
            if (!seen->find(i.definition->name)) again.push_back(begin(i.definition, seen->objects));
        std::size_t complete = again.size();
        for (const building& b : begun) again.push_back(begin(b.version.definition, seen->objects));

        indexes.swap(seen_indexes);
        objects = seen->objects;
        traits = objects.traits();
        version = std::move(seen_version);
        filling = detail::object_cursor();
        begun.swap(again);
        changed = false;
        reverted = true;
        for (; complete != 0; --complete) {
            build(begun.front(), static_cast<std::size_t>(-1));
            show(begun.front());
            begun.pop_front();
        }
    }
};

indexer::indexer() : indexer(random_seed()) {}
indexer::indexer(std::uint64_t seed) : impl_(std::make_unique<impl>(seed)) {}
indexer::~indexer() = default;

cache_snapshot indexer::snapshot() const {
    return cache_snapshot(impl_->published.load());
}

object indexer::get(const object_key& key) const {
    return impl_->read([&](const cache_snapshot& s) { return s.get(key); });
}

object indexer::get(std::string_view name_space, std::string_view name) const {
    return impl_->read([&](const cache_snapshot& s) { return s.get(name_space, name); });
}

object indexer::get_by_text(std::string_view key) const {
    return impl_->read([&](const cache_snapshot& s) { return s.get(key); });
}

void indexer::add_index(std::string name, index_function f) {
    auto definition = impl_->define(std::move(name), std::move(f));
    while (!add_index_step(static_cast<std::size_t>(-1))) { // those that were begun before
    }
    impl::building one = impl::begin(std::move(definition), impl_->objects);
    impl_->build(one, static_cast<std::size_t>(-1));
    impl_->show(one);
}

void indexer::begin_index(std::string name, index_function f) {
    impl_->begun.push_back(impl::begin(impl_->define(std::move(name), std::move(f)), impl_->objects));
    try {
        impl_->show_begun();
    } catch (...) { // nobody would build it, and it would collect all changes for ever
        impl_->begun.pop_back();
        throw;
    }
}

bool indexer::add_index_step(std::size_t objects) {
    objects = std::max<std::size_t>(objects, 1);
    while (!impl_->begun.empty()) {
        impl::building& first = impl_->begun.front();
        objects = impl_->build(first, objects);
        if (!first.walked || !first.changes.empty()) return false;
        impl_->show(first);
        impl_->begun.pop_front();
        if (objects == 0) break;
    }
    return impl_->begun.empty();
}

bool indexer::knows_index(std::string_view name) const noexcept {
    return impl_->knows(name);
}

std::vector<indexer::index_error> indexer::index_errors() const {
    const std::lock_guard lock(impl_->error_mutex);
    return {impl_->errors.begin(), impl_->errors.end()};
}

std::uint64_t indexer::index_error_count() const noexcept {
    return impl_->error_count.load(std::memory_order_relaxed);
}

object indexer::current(const object_key& key) const {
    const object* o = impl_->objects.find(key_view::of(key));
    return o ? *o : object();
}

object indexer::current(std::string_view namespace_slash_name) const {
    const object* o = impl_->objects.find(key_view::parse(namespace_slash_name));
    return o ? *o : object();
}

std::size_t indexer::current_size() const noexcept {
    return impl_->objects.size();
}

cache_snapshot indexer::current_snapshot() const {
    auto now = std::make_shared<cache_snapshot::data>();
    now->objects = impl_->objects;
    now->mixed = impl_->mixed();
    now->indexes = impl_->indexes;
    now->version = impl_->version;
    return cache_snapshot(std::move(now));
}

indexer::place indexer::find_current(const object& like) const {
    place p;
    const key_of_object key(like);
    p.hash = impl_->traits.hash(key.view());
    if (const object* there = impl_->objects.find(key.view(), p.hash)) p.before = *there;
    return p;
}

indexer::place indexer::find_current(const object& like, std::uint64_t hash) const {
    const object* there = impl_->objects.find(like, hash);
    return {there ? *there : object(), hash};
}

bool indexer::is_kept_elsewhere(const object& o) const {
    std::size_t ours = 1;
    for (const index_version& i : impl_->indexes) ours += impl_->values_of(*i.definition, o, [](const char*) {}).size();
    return o.root()->count.load(std::memory_order_relaxed) > ours;
}

std::uint64_t indexer::seed() const noexcept {
    return impl_->traits.seed;
}

void indexer::put(object o, const place& at) {
    impl_->changed = true;
    if (!at.before) count_in(impl_->namespaces, o, at.hash); // first: a count too high does no harm, one too low would
    object leaf = o;
    // If the predecessor is known, the map finds it by identity, without reading a key.
    impl_->objects.put(leaf, at.before ? at.before : o, at.hash, !at.before);
    impl_->reindex_all(at.before, o, at.hash);
}

object indexer::put(object o) {
    if (!o) return {};
    place at = find_current(o);
    if (!at.before.same_as(o)) put(std::move(o), at);
    return std::move(at.before);
}

object indexer::erase(const object_key& key) {
    std::optional<object> before = impl_->objects.erase(key_view::of(key));
    if (!before) return {};
    impl_->changed = true;
    const std::uint64_t hash = impl_->traits.hash(*before);
    count_out(impl_->namespaces, *before, hash);
    impl_->reindex_all(*before, object(), hash);
    return std::move(*before);
}

void indexer::begin_fill(const cache_snapshot& all, draft* made) {
    if (!impl_->objects.empty()) throw error(errc::bad_configuration, "fill an indexer that has objects");
    impl_->changed = true;
    if (all.contents()) impl_->objects = all.contents()->objects;
    impl_->traits = impl_->objects.traits(); // for what is put into the indexes
    if (made && impl_->take(*made)) return;
    impl_->filling = detail::object_cursor(impl_->objects);
}

std::shared_ptr<indexer::draft> indexer::begin_draft() {
    auto d = std::make_shared<draft>();
    d->seed = impl_->traits.seed;
    for (const index_version& i : impl_->indexes) d->indexes.push_back(empty_index(i.definition, impl_->traits.seed));
    return d;
}

void indexer::add(draft& to, const object& o, std::uint64_t hash, bool same_namespace) {
    if (to.broken) return;
    ++to.objects; // even if it fails half-way: take() sees that there are too many
    for (index_version& i : to.indexes) impl_->reindex(i, object(), o, hash, [&](const char*) { to.broken = true; });
    if (!same_namespace || !to.namespaces.add_another()) count_in(to.namespaces, o, hash);
}

bool indexer::fill_step(std::size_t objects) {
    for (; objects > 0; --objects) {
        const object* const o = impl_->filling.next();
        if (!o) {
            impl_->filling = detail::object_cursor(); // releases its reference to the map, which is ours alone then
            return true;
        }
        const std::uint64_t hash = impl_->filling.hash();
        impl_->changed = true;
        count_in(impl_->namespaces, *o, hash);
        impl_->reindex_all(object(), *o, hash);
    }
    return false;
}

void indexer::set_resource_version(informer::resource_version v) {
    if (v.empty()) return;
    const auto order = v <=> impl_->version;
    const bool takes = order > 0 || (order == std::partial_ordering::unordered && !impl_->version.comparable());
    if (!takes) return;
    impl_->version = std::move(v);
    impl_->changed = true;
}

void indexer::force_resource_version(informer::resource_version v) {
    if (v.view() == impl_->version.view()) return;
    impl_->version = std::move(v);
    impl_->changed = true;
}

void indexer::publish() {
    if (!impl_->changed && impl_->ever_published) return;
    impl_->ever_published = true;
    impl_->publish();
}

void indexer::revert() {
    impl_->revert();
}

indexer::publication_figures indexer::publication() const noexcept {
    publication_figures f;
    f.published = impl_->published.stores();
    f.overlapping = impl_->published.overlaps();
    f.waits = impl_->published.waits();
    return f;
}

std::size_t indexer::memory() const noexcept {
    std::size_t bytes = sizeof(impl) + impl_->objects.bytes();
    for (const index_version& i : impl_->indexes) bytes += i.postings.bytes() + i.posting_bytes;
    for (const impl::building& b : impl_->begun) bytes += b.version.postings.bytes() + b.version.posting_bytes;
    return bytes;
}

} // namespace informer
