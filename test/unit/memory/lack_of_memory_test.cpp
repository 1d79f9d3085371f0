// The document pool when the system refuses memory, at each place that asks for some: the program goes on, nothing is
// lost or kept by mistake, and what failed once works the next time. A program of its own, because its heap differs
// from that of others.
#include "refusal.hpp"
#include "support/pod_generator.hpp"
#include "support/pool.hpp"

#include <informer/object/document_pool.hpp>
#include <informer/object/framer.hpp>
#include <informer/object/json.hpp>

#include <catch2/catch_test_macros.hpp>

#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace informer;
using informer::testing::check_empty;
using informer::testing::drain;
using informer::testing::for_every_request;
using informer::testing::lack;
using informer::testing::refusal;
using informer::testing::refusal_now;

namespace {

struct text_and_result {
    explicit text_and_result(std::string t, std::optional<std::size_t> p = std::nullopt)
        : text(std::move(t)), previous(p) {}
    std::string text;
    std::optional<std::size_t> previous; ///< which of the others is the older version
    object result;
    failure f;
};
using texts = std::vector<text_and_result>;

using decoder = std::function<object(document_pool&, std::string_view, const object&, failure&)>;

object at_once(document_pool& pool, std::string_view json, const object& previous, failure& f) {
    return pool.decode(json, previous, f);
}

object in_slices(document_pool& pool, std::string_view json, const object& previous, failure& f) {
    std::unique_ptr<decoding> d;
    try {
        d = pool.begin_decode(json, previous);
    } catch (const std::bad_alloc&) { // as documented
        f = failure(errc::pool_full, std::string());
        return object();
    }
    while (!d->step(200)) {
    }
    return d->finish(f);
}

void read(document_pool& pool, texts& all, const decoder& decode) {
    for (text_and_result& t : all)
        t.result = decode(pool, t.text, t.previous ? all[*t.previous].result : object(), t.f);
}

void forget(texts& all) {
    for (text_and_result& t : all) t.result = object();
}

/// Each document is whole, or there was no memory for it.
void check_whole(const texts& all) {
    for (const text_and_result& t : all) {
        if (t.f) {
            CHECK(t.f == errc::pool_full);
            CHECK(!t.result);
        } else {
            CHECK((t.result == parse_object(t.text)));
        }
    }
}

void check_good(const texts& all) {
    for (const text_and_result& t : all) CHECK(!t.f);
    check_whole(all);
}

std::shared_ptr<document_pool> make_pool(decode_options options = decode_options()) {
    detail::pool_limits limits;
    limits.first_chunk = 1024;
    limits.template_documents = 1;
    return detail::make_pool(std::move(options), limits);
}

std::string wide(unsigned keys, unsigned step) {
    std::string s = "{";
    for (unsigned i = 0; i < keys; ++i) {
        const std::string number = std::to_string(i * step % keys);
        s.append(i == 0 ? "\"key number " : ",\"key number ").append(number).append("\":").append(number);
    }
    return s + "}";
}

std::string pod(unsigned index, unsigned revision = 0) {
    testing::pod_options o(index);
    o.revision = revision;
    return make_pod_json(o);
}

/// Documents of all kinds: new, changed, only reordered, with keys that come twice, deep, long.
texts documents() {
    const std::string deep = std::string(70, '[') + "1" + std::string(70, ']');
    std::string list = "[";
    for (int i = 0; i < 300; ++i) list.append("\"text number ").append(std::to_string(i)).append("\",");
    list += "0]";
    std::string doubled = "{"; // every key twice, so that some are dropped before the rest is looked at
    for (int i = 0; i < 300; ++i) {
        doubled.append(i == 0 ? "\"key number " : ",\"key number ").append(std::to_string(i / 2));
        doubled.append("\":\"a text, number ").append(std::to_string(i)).append("\"");
    }
    doubled += "}";
    return {text_and_result(R"({"metadata":{"name":"a","uid":"123e4567-e89b-12d3-a456-426614174000"},"w":)" +
                            wide(100, 1) + "}"),
            text_and_result(R"({"metadata":{"uid":"123e4567-e89b-12d3-a456-426614174000","name":"a"},"w":)" +
                                wide(100, 7) + "}",
                            0),
            text_and_result(R"({"metadata":{"name":"b"},"w":)" + wide(300, 1) + R"(,"x":)" + wide(300, 7) + "}"),
            text_and_result(R"({"metadata":{"name":"b"},"w":)" + wide(300, 7) + R"(,"x":0,"d":)" + deep + "}", 2),
            text_and_result(R"({"metadata":{"name":"c"},"list":)" + list +
                            R"(,"twice":["some text"],"n":1e400,"twice":[12345678901]})"),
            text_and_result(R"({"metadata":{"name":"e"},"w":)" + wide(150, 1) + "}"),
            text_and_result(R"({"metadata":{"name":"e"},"w":)" + doubled + "}", 5),
            text_and_result("{\"metadata\":{\"name\":\"d\"},\"line\\n\":\"" + std::string(2000, 'x') + "\\n\"}")};
}

texts pods() {
    texts all;
    for (unsigned i = 0; i < 4; ++i) all.emplace_back(pod(i));
    for (unsigned i = 0; i < 4; ++i) all.emplace_back(pod(i, 1), i);
    return all;
}

} // namespace

TEST_CASE("a document that lacks memory at any point is refused, and nothing of it is left", "[memory]") {
    for (const decoder& decode : {decoder(at_once), decoder(in_slices)}) {
        for (const bool difference : {false, true}) {
            for_every_request([&](const refusal& r) {
                texts all = difference ? pods() : documents();
                const auto pool = make_pool(decode_options().text_difference(difference));
                {
                    const lack l(r);
                    read(*pool, all, decode);
                }
                check_whole(all);
                forget(all);
                check_empty(*pool);
                if (r.before % 8 != 0) return;
                read(*pool, all, decode);
                check_good(all);
                forget(all);
                check_empty(*pool);
            });
        }
    }
}

TEST_CASE("after documents that lacked memory a large pool is as it was", "[memory]") {
    const auto pool = make_pool(decode_options().text_difference(false));
    texts taught; // they hardly repeat, so that the pool stops interning such texts
    for (unsigned i = 0; i < 300; ++i) {
        std::string fields = "{";
        for (unsigned k = 0; k < 40; ++k)
            fields.append(k == 0 ? "\"unique-" : ",\"unique-")
                .append(std::to_string(i * 40 + k))
                .append("\":\"value number ")
                .append(std::to_string(i * 40 + k))
                .append("\"");
        taught.emplace_back(R"({"metadata":{"name":"number )" + std::to_string(i) + R"("},"data":)" + fields + "}}");
    }
    read(*pool, taught, at_once);
    check_good(taught);
    drain(*pool);
    const pool_statistics before = pool->statistics();
    for (const decoder& decode : {decoder(at_once), decoder(in_slices)}) {
        for_every_request([&](const refusal& r) {
            texts all = documents();
            for (text_and_result& t : pods()) all.push_back(std::move(t));
            for (std::size_t i = 0; i < 4; ++i) all[all.size() - 1 - i].previous = all.size() - 5 - i;
            std::string other = taught[7].text;
            other.replace(other.find("unique-"), 7, "strange-");
            all.emplace_back(std::move(other));
            // The memory that the pool has kept suffices for these; a long text needs memory of its own each time.
            all.emplace_back(R"({"metadata":{"name":"long"},"line":")" + std::string(1'200'000, 'x') + "\\n\"}");
            {
                const lack l(r);
                read(*pool, all, decode);
            }
            check_whole(all);
            forget(all);
            drain(*pool);
            const pool_statistics after = pool->statistics();
            CHECK(after.nodes == before.nodes);
            CHECK(after.referenced_nodes == before.referenced_nodes);
            CHECK(after.node_bytes == before.node_bytes);
            CHECK(after.objects == before.objects);
        });
    }
    forget(taught);
    check_empty(*pool);
}

TEST_CASE("dropping and freeing documents needs no memory", "[memory]") {
    std::string list = "[";
    for (int i = 0; i < 20'000; ++i)
        list.append("[\"text number ").append(std::to_string(i)).append("\",").append(std::to_string(i)).append("],");
    list += "0]";
    for (const std::size_t share : {std::size_t{1}, std::size_t{100}, ~std::size_t{0}}) {
        const auto pool = document_pool::make();
        failure f;
        object o = pool->decode(R"({"metadata":{"name":"a"},"list":)" + list + "}", object(), f);
        object other = pool->decode(R"({"metadata":{"name":"b"},"w":)" + wide(300, 1) + "}", object(), f);
        const std::uint64_t empty = document_pool::make()->statistics().bytes;
        {
            const lack l{refusal()};
            o = object();
            other = object();
            while (!pool->collect(share)) {
            }
        }
        CHECK(pool->statistics().nodes == 0);
        CHECK(pool->statistics().referenced_nodes == 0);
        // Nor is the memory lost, although there was none for the lists of free pieces.
        CHECK(pool->statistics().bytes < empty + 1024 * 1024);
    }
}

TEST_CASE("a sliced decoding that is given up leaves nothing behind, wherever it lacks memory", "[memory]") {
    for_every_request([](const refusal& r) {
        texts all = documents();
        const auto pool = make_pool();
        {
            const lack l(r);
            for (const text_and_result& t : all) {
                try {
                    const auto half = pool->begin_decode(t.text, object());
                    for (int i = 0; i < 3 && !half->step(200); ++i) {
                    }
                } catch (const std::bad_alloc&) { // thrown by `begin_decode`, as documented
                }
            }
        }
        check_empty(*pool);
    });
}

TEST_CASE("without memory a compaction leaves each document whole in one generation or the other", "[memory]") {
    for (const bool sliced : {false, true}) {
        for_every_request([&](const refusal& r) {
            texts all = documents();
            const auto pool = make_pool();
            read(*pool, all, at_once);
            check_good(all);
            std::vector<object> moved(all.size());
            {
                const lack l(r);
                try {
                    pool->begin_generation();
                } catch (const std::bad_alloc&) { // as documented; nothing began
                }
                for (std::size_t i = 0; i < all.size(); ++i) {
                    if (!sliced) {
                        moved[i] = pool->move(all[i].result, all[i].f);
                        continue;
                    }
                    try {
                        const auto d = pool->begin_move(all[i].result);
                        while (!d->step(200)) {
                        }
                        moved[i] = d->finish(all[i].f);
                    } catch (const std::bad_alloc&) {
                        all[i].f = failure(errc::pool_full, std::string());
                    }
                }
            }
            for (std::size_t i = 0; i < all.size(); ++i) {
                CHECK(bool(moved[i]) == !all[i].f);
                if (moved[i]) CHECK(moved[i] == all[i].result);
            }
            moved.clear();
            forget(all);
            check_empty(*pool);
        });
    }
}

TEST_CASE("without memory a transform still runs at most once", "[memory]") {
    const std::string text = documents()[0].text;
    for_every_request([&](const refusal& r) {
        int calls = 0;
        const auto pool = make_pool(decode_options().transform_with([&](boost::json::value& v) {
            ++calls;
            v.as_object()["new"] = "some text, not a short one";
        }));
        object o;
        failure f;
        {
            const lack l(r);
            o = pool->decode(text, object(), f);
        }
        CHECK(calls <= 1);
        CHECK(bool(o) == !f);
        o = object();
        check_empty(*pool);
    });
}

namespace {

std::string_view text_of(const list_framer& f) {
    return f.item();
}
std::string_view text_of(const watch_framer& f) {
    return f.object();
}

struct cut_so_far {
    bool thrown = false, says_so = false, goes_on = false;
};

/// Cuts what is in `all`, which is fed in pieces.
template <class Framer>
void cut(Framer& framer, std::string_view all, bool lend, const std::vector<std::string>& expected, std::size_t& right,
         cut_so_far& c) {
    failure f;
    try {
        for (std::size_t from = 0; from < all.size() && !f; from += 700) {
            if (lend)
                framer.lend(all.substr(from, 700));
            else
                framer.feed(all.substr(from, 700));
            while (framer.next(f)) {
                if (right < expected.size() && text_of(framer) == expected[right]) ++right;
            }
        }
    } catch (const std::bad_alloc&) {
        c.thrown = true;
        c.goes_on = framer.next(f);
        c.says_so = f == errc::stopped;
    }
}

template <class Framer>
void check_framer(const std::string& stream, const std::vector<std::string>& expected) {
    for (const bool lend : {false, true}) {
        for_every_request([&](const refusal& r) {
            Framer framer;
            cut_so_far c;
            std::size_t right = 0;
            {
                const lack l(r);
                cut(framer, stream, lend, expected, right, c);
            }
            CHECK(c.thrown == (refusal_now.refused > 0));
            CHECK(c.says_so == c.thrown);
            CHECK_FALSE(c.goes_on);
            if (!c.thrown) CHECK(right == expected.size());
        });
    }
}

} // namespace

TEST_CASE("a framer that runs out of memory amid a stream says so and cuts nothing more", "[memory]") {
    std::string list = R"({"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[)", watch;
    std::vector<std::string> items;
    for (int i = 0; i < 60; ++i) {
        items.push_back(R"({"metadata":{"name":"number )" + std::to_string(i) + R"("},"text":")" +
                        std::string(static_cast<std::size_t>(i * 70), 'x') + "\"}");
        list.append(i == 0 ? "" : ",").append(items.back());
        watch.append(R"({"type":"ADDED","object":)").append(items.back()).append("}\n");
    }
    check_framer<list_framer>(list + "]}", items);
    check_framer<watch_framer>(watch, items);
}

TEST_CASE("reading a value needs no memory", "[memory]") {
    const std::string zeros(100, '0');
    const object o = parse_object("{\"a\":12" + zeros + "e-100,\"b\":1.25,\"c\":0." + zeros +
                                  "5e103,\"d\":18446744073709551615,\"e\":1e3,\"f\":1e400}");
    std::int64_t found[6];
    double large = 0, small = 0;
    {
        const lack l{refusal()};
        const char* const keys[] = {"a", "b", "c", "d", "e", "f"};
        for (int i = 0; i < 6; ++i) found[i] = o[keys[i]].int64_or(-1);
        large = o["f"].as_double();
        small = o["a"].as_double();
    }
    CHECK(std::vector<std::int64_t>(found, found + 6) == std::vector<std::int64_t>{12, -1, 500, -1, 1000, -1});
    CHECK(large == std::numeric_limits<double>::infinity());
    CHECK(small == 12);
}

TEST_CASE("when the system has no more memory, a small node takes a piece of a large dead one", "[memory]") {
    detail::pool_limits limits;
    limits.first_chunk = 1024 * 1024; // mapped
    const auto pool = detail::make_pool(decode_options().text_difference(false), limits);
    failure f;
    const object keep =
        pool->decode("{\"keep\":\"this one\",\"beside it\":\"" + std::string(20'000, 'y') + "\"}", object(), f);
    object large = pool->decode("{\"a\":\"" + std::string(450'000, 'x') + "\"}", object(), f);
    REQUIRE(!f);
    large = object();
    drain(*pool);
    refusal r;
    r.mapped_only = true;
    const lack l(r);
    std::vector<object> small;
    while (!f)
        small.push_back(pool->decode("{\"k\":\"text number " + std::to_string(small.size()) + "\"}", object(), f));
    CHECK(f == errc::pool_full);
    small.pop_back();
    CHECK(small.size() * 40 > 1'500'000); // of both
    for (std::size_t i = 0; i < small.size(); ++i)
        REQUIRE(small[i]["k"].as_string() == "text number " + std::to_string(i));
    CHECK(keep["keep"].as_string() == "this one");
}
