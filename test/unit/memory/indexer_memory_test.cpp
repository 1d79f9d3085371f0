// The indexer when the system refuses memory amid a write: what was published is restored, and no object is hidden.
#include "cache/object_map.hpp"
#include "refusal.hpp"

#include <informer/cache/indexer.hpp>
#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <new>
#include <string>
#include <vector>

using namespace informer;
using informer::testing::for_every_request;
using informer::testing::lack;
using informer::testing::refusal;

namespace {

constexpr std::uint64_t seed = 1;
constexpr int spaces = 100; // some of them lie in one sub-trie of the map

object in_space(int n, const std::string& node) {
    return parse_object(R"({"metadata":{"name":"a","namespace":"space-)" + std::to_string(n) +
                        R"("},"spec":{"nodeName":")" + node + "\"}}");
}

std::vector<std::string> texts(const std::vector<object>& objects) {
    std::vector<std::string> all;
    for (const object& o : objects) all.push_back(o.to_json());
    std::sort(all.begin(), all.end());
    return all;
}

/// Reads in all the ways that there are.
std::vector<std::vector<std::string>> read(const cache_snapshot& s) {
    std::vector<std::vector<std::string>> all{texts(s.list())};
    for (int i = 0; i < spaces; ++i) all.push_back(texts(s.list_namespace("space-" + std::to_string(i))));
    if (s.size() > 0)
        for (const char* node : {"one", "two"}) all.push_back(texts(s.by_index("node", node)));
    return all;
}

} // namespace

TEST_CASE("indexer: when memory runs out amid a write, revert takes all of it back", "[memory]") {
    std::vector<object> first, second;
    for (int i = 0; i < spaces; ++i) {
        first.push_back(in_space(i, "one"));
        second.push_back(in_space(i, "two"));
    }
    for (const int write : {0, 1, 2}) {
        CAPTURE(write);
        for_every_request([&](const refusal& r) {
            indexer cache(seed);
            cache.add_index("node", index_by_pointer("/spec/nodeName"));
            for (std::size_t i = 1; i < first.size(); ++i) cache.put(first[i]);
            cache.publish();
            const auto before = read(cache.snapshot());
            try {
                const lack l(r);
                if (write == 0) cache.put(second[0]);
                if (write == 1) cache.put(second[1]);
                for (std::size_t i = 10; write == 2 && i < first.size(); ++i) cache.erase(first[i].key());
            } catch (const std::bad_alloc&) {
            }
            cache.revert();
            CHECK(read(cache.snapshot()) == before);
            CHECK(read(cache.current_snapshot()) == before);
        });
    }
    indexer source(seed);
    for (const object& o : first) source.put(o);
    for (const bool drafted : {false, true}) {
        for_every_request([&](const refusal& r) {
            indexer cache(seed);
            cache.add_index("node", index_by_pointer("/spec/nodeName"));
            const cache_snapshot all = source.current_snapshot();
            try {
                const lack l(r);
                if (drafted) {
                    const auto draft = cache.begin_draft();
                    for (const object& o : first) cache.add(*draft, o, detail::object_traits{seed}.hash(o));
                    cache.begin_fill(all, draft.get());
                } else {
                    cache.begin_fill(all);
                    cache.fill_step(3);
                }
            } catch (const std::bad_alloc&) {
            }
            cache.revert();
            CHECK(cache.current_size() == 0);
            CHECK(cache.current_snapshot().by_index("node", "one").empty());
        });
    }
}

TEST_CASE("indexer: objects that could be put only at the second attempt are found in their namespaces", "[memory]") {
    std::vector<object> all;
    for (int i = 0; i < spaces; ++i) all.push_back(in_space(i, "one"));
    for_every_request([&](const refusal& r) {
        indexer cache(seed);
        cache.put(in_space(spaces, "one"));
        try {
            const lack l(r);
            for (const object& o : all) cache.put(o);
        } catch (const std::bad_alloc&) {
        }
        for (const object& o : all) cache.put(o);
        cache.publish();
        const cache_snapshot now = cache.snapshot();
        const auto alone = [&](const object& o) { return texts(now.list_namespace(o.key().name_space)) == texts({o}); };
        CHECK(std::all_of(all.begin(), all.end(), alone));
    });
}
