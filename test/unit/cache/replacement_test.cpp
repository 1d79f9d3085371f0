// The objects collected for a new state can be read at any time, including the object put last.
#include "cache/cache_data.hpp"
#include "cache/replacement.hpp"

#include <informer/cache/indexer.hpp>
#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace informer;

namespace {

object made(const std::string& name, int v) {
    return parse_object(R"({"metadata":{"name":")" + name + R"(","namespace":"n"},"v":)" + std::to_string(v) + "}");
}

} // namespace

TEST_CASE("replacement: of each key the object put last stays, whenever it is looked up") {
    detail::replacement all(7);
    all.put(made("a", 1));
    CHECK(all.objects().size() == 1);
    all.put(made("a", 2));
    all.put(made("a", 3));
    all.put(made("b", 4));
    REQUIRE(all.objects().size() == 2);
    CHECK(all.objects().find(made("a", 0))->value()["v"].as_int64() == 3);
    CHECK(all.objects().find(made("b", 0))->value()["v"].as_int64() == 4);
}

TEST_CASE("replacement: for an empty cache the order of arrival is known, unless an object came again or was removed") {
    indexer cache(7);
    const auto names = [](detail::replacement& all) {
        const auto order = all.order();
        REQUIRE(order);
        std::string out;
        for (detail::root* const r : *order) {
            detail::retain(r);
            const object o(r);
            out += o.name().str();
        }
        return out;
    };
    detail::replacement all(cache);
    CHECK(names(all).empty());
    all.begin_page();
    for (const char* name : {"c", "a", "d"}) all.put(made(name, 1));
    CHECK(names(all) == "cad");
    all.begin_page();
    for (const char* name : {"f", "b"}) all.put(made(name, 1));
    CHECK(names(all) == "cadfb");

    SECTION("again") {
        all.put(made("a", 2));
    }
    SECTION("gone") {
        all.objects().erase(made("f", 1));
    }
    SECTION("gone and another one") {
        all.objects().erase(made("f", 1));
        all.put(made("g", 1));
    }
    SECTION("gone and again") {
        all.objects().erase(made("f", 1));
        all.put(made("f", 1));
    }
    SECTION("a page taken back") {
        all.take_back_page();
    }
    CHECK_FALSE(all.order());
}

TEST_CASE("replacement: objects are found and counted by their namespace, however these are grouped") {
    std::mt19937 random(3);
    const auto pool = document_pool::make();
    indexer cache(7);
    detail::replacement all(cache);
    std::map<std::string, std::vector<std::string>> expected;
    std::size_t put = 0;
    for (int group = 0; group < 600; ++group) {
        const std::string name_space = "ns" + std::to_string(random() % 200); // some of them share a sub-trie
        for (auto n = random() % 4; n > 0; --n) {
            const std::string name = "p" + std::to_string(put++);
            failure f;
            all.put(pool->decode(R"({"metadata":{"name":")" + name + R"(","namespace":")" + name_space + "\"}}",
                                 object(), f));
            expected[name_space].push_back(name);
            if (random() % 50 == 0) CHECK(all.objects().size() == put); // nothing waits after that
        }
    }
    REQUIRE(all.objects().size() == put);
    for (const auto& [name_space, names] : expected)
        for (const std::string& name : names) REQUIRE(all.objects().find(detail::key_view{name_space, name}));
    const auto collected = std::make_shared<cache_snapshot::data>();
    collected->objects = all.objects();
    cache.begin_fill(cache_snapshot(collected), all.draft());
    CHECK(cache.fill_step(1)); // nothing was left to do
    for (auto& [gone, names] : expected) {
        cache.publish();
        const cache_snapshot now = cache.snapshot();
        for (const auto& [name_space, there] : expected) REQUIRE(now.list_namespace(name_space).size() == there.size());
        for (const std::string& name : names) cache.erase({gone, name});
        names.clear();
    }
}

TEST_CASE("replacement: for a cache that has objects no order is kept") {
    detail::replacement all(7);
    all.put(made("a", 1));
    CHECK_FALSE(all.order());
}

TEST_CASE("replacement: a page that is taken back leaves what was there before it") {
    std::mt19937 random(5);
    for (int run = 0; run < 200; ++run) {
        detail::replacement all(7);
        std::map<std::string, int> expected;
        std::set<std::string> bad;
        std::size_t unnamed = 0;
        for (int page = 0, v = 0; page < 6; ++page) {
            auto then = expected;
            auto bad_then = bad;
            auto unnamed_then = unnamed;
            all.begin_page();
            for (auto n = random() % 120; n > 0; --n) {
                const std::string name = "p" + std::to_string(random() % 300);
                if (random() % 10 == 0) {
                    bad_object b;
                    const bool named = random() % 2 == 0;
                    if (named) b.key = object_key("n", name);
                    all.quarantine(std::move(b));
                    if (named)
                        bad_then.insert(name);
                    else
                        ++unnamed_then;
                    continue;
                }
                all.put(made(name, ++v));
                then[name] = v;
                bad_then.erase(name);
            }
            if (random() % 2 == 0) {
                all.take_back_page();
            } else {
                expected = std::move(then);
                bad = std::move(bad_then);
                unnamed = unnamed_then;
            }
            if (random() % 2 == 0) all.end_page();
            REQUIRE(all.objects().size() == expected.size());
            for (const auto& [name, value] : expected)
                REQUIRE(all.objects().find(made(name, 0))->value()["v"].as_int64() == value);
            REQUIRE(all.bad_keys.size() == bad.size());
            REQUIRE(all.unnamed == unnamed);
            REQUIRE(all.stories().size() == bad.size() + unnamed);
        }
    }
}

TEST_CASE("replacement: each bad object is reported with its last reason; of too many nameless ones, the first are") {
    detail::replacement all(7);
    const auto bad = [&all](const std::string& name, errc why) {
        bad_object b;
        if (!name.empty()) b.key = object_key("n", name);
        b.why = failure(why, name);
        all.quarantine(std::move(b));
    };
    for (int i = 0; i < 100; ++i) bad("b" + std::to_string(i), errc::syntax_error);
    bad("b7", errc::bad_utf8);
    all.put(made("b8", 1));
    for (std::size_t i = 0; i < detail::most_bad_keys + 5; ++i) bad("", errc::no_metadata);
    CHECK(all.bad_keys.size() == 99);
    CHECK(all.unnamed == detail::most_bad_keys + 5);
    const auto stories = all.stories();
    REQUIRE(stories.size() == 99 + detail::most_bad_keys);
    CHECK(stories.front()->key.empty());
    CHECK(stories[detail::most_bad_keys]->key.name == "b0");
    CHECK(stories.back()->key.name == "b99");
    CHECK(all.bad_keys.at(object_key("n", "b7"))->why == errc::bad_utf8);
    for (std::size_t i = 0; i < detail::most_bad_keys; ++i) bad("c" + std::to_string(i), errc::syntax_error);
    CHECK(all.bad_keys.size() == detail::most_bad_keys);
    CHECK(all.unnamed == detail::most_bad_keys + 5 + 99);
    CHECK_FALSE(all.proves_absence(object_key("n", "a")));
}
