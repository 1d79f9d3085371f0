// A pool that is full, or nearly: what it refuses, and what it does first.
#include "object/detail/generation.hpp"
#include "object/detail/handle_stack.hpp"
#include "support/pod_generator.hpp"
#include "support/pool.hpp"

#include <informer/object/document_pool.hpp>

#include <boost/json/value.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace informer;
using informer::testing::check_empty;
using informer::testing::decode;
using informer::testing::drain;
using informer::testing::in_slices;
using informer::testing::pod;

TEST_CASE("a full pool says so and loses nothing", "[pool]") {
    detail::pool_limits limits;
    limits.max_bytes = 512 * 1024;
    const auto pool = detail::make_pool(decode_options(), limits);
    std::vector<object> pods;
    failure f;
    while (!f && pods.size() < 100'000) {
        object o = pool->decode(pod(static_cast<unsigned>(pods.size()) * 20), object(), f);
        if (o) pods.push_back(std::move(o));
    }
    CHECK(f == errc::pool_full);
    REQUIRE(pods.size() > 50);
    REQUIRE(pods.size() < 10'000);
    CHECK(pool->statistics().bytes < 1024 * 1024);
    // Single values that are too large for it: a text, a number of elements, and a key.
    CHECK_FALSE(pool->decode("{\"s\":\"" + std::string(600'000, 'x') + "\"}", object(), f));
    CHECK(f == errc::pool_full);
    CHECK_FALSE(pool->decode("{\"" + std::string(700'000, 'x') + "\":1}", object(), f));
    CHECK(f == errc::pool_full);
    for (unsigned i = 0; i < pods.size(); ++i) {
        const object expected = parse_object(pod(i * 20));
        REQUIRE(pods[i] == expected);
    }
    const std::uint64_t nodes = pool->statistics().nodes;
    CHECK(pool->decode(pod(0), pods[0], f).same_as(pods[0]));
    // Freed memory can be used at once, without a call of collect.
    pods.resize(pods.size() - 20);
    for (unsigned i = 0; i < 10; ++i) {
        pods.push_back(pool->decode(pod(i * 20 + 1), object(), f));
        CHECK(!f);
    }
    drain(*pool);
    CHECK(pool->statistics().nodes < nodes);
}

TEST_CASE("a pool that fills at any point of a document rolls back exactly", "[pool]") {
    const std::string json =
        R"({"metadata":{"name":"some name","labels":{"label one":"value one","label two":"value two"}},)"
        R"("spec":{"list":[{"port":123456789012,"ratio":0.5},{"port":123456789012,"ratio":0.5}],"twice":"a text","twice":1e400},)"
        R"("uid":"123e4567-e89b-12d3-a456-426614174000"})";
    const object expected = parse_object(json);
    unsigned full = 0, stored = 0;
    for (std::uint64_t bytes = 256; bytes < 2000; bytes += 16) {
        detail::pool_limits limits;
        limits.max_bytes = bytes;
        limits.first_chunk = 256;
        const auto pool = detail::make_pool(decode_options().type("v1", "Kind"), limits);
        failure f;
        object o = pool->decode(json, object(), f);
        if (o) {
            ++stored;
            CHECK(o["metadata"] == expected["metadata"]);
            CHECK(o["spec"] == expected["spec"]);
            o = object();
        } else {
            ++full;
            CHECK(f == errc::pool_full);
        }
        drain(*pool);
        CHECK(pool->statistics().nodes == 0);
        CHECK(pool->statistics().referenced_nodes == 0);
        CHECK(pool->statistics().objects == 0);
        CHECK(bool(pool->decode(R"({"a":[true]})", object(), f)));
    }
    CHECK(full >= 20);
    CHECK(stored > 20);
}

TEST_CASE("near its limit a pool frees dying nodes before it gives up its templates", "[pool]") {
    detail::pool_limits limits;
    limits.max_bytes = 32 * 1024 * 1024;
    limits.template_documents = 1;
    const auto pool = detail::make_pool(decode_options(), limits);
    std::vector<object> pods;
    for (unsigned i = 0; pool->statistics().bytes < 28'000'000; ++i) pods.push_back(decode(*pool, pod(i * 20)));
    pods.clear();
    while (pool->statistics().nodes > 0) pool->collect(1);
    pods.push_back(decode(*pool, pod(1)));
    pods.push_back(decode(*pool, pod(2)));
    REQUIRE(pool->statistics().templates > 0);
    REQUIRE(pool->statistics().bytes > 20'000'000); // each document frees only a little
    const object large = decode(*pool, "{\"a\":\"" + std::string(14'000'000, 'x') + "\"}");
    CHECK(large["a"].as_string().size() == 14'000'000);
    CHECK(pool->statistics().templates > 0);
}

TEST_CASE("near the limit a small node takes a piece of a large dead one", "[pool]") {
    detail::pool_limits limits;
    limits.max_bytes = 64 * 1024;
    const auto pool = detail::make_pool(decode_options(), limits);
    const object keep = decode(*pool, R"({"keep":"this one"})");
    object large = decode(*pool, "{\"a\":\"" + std::string(45'000, 'x') + "\"}");
    large = object();
    std::vector<object> small;
    for (int i = 0; i < 1000; ++i) small.push_back(decode(*pool, "{\"k\":\"text number " + std::to_string(i) + "\"}"));
    for (int i = 0; i < 1000; ++i)
        REQUIRE(small[static_cast<std::size_t>(i)]["k"].as_string() == "text number " + std::to_string(i));
    CHECK(keep["keep"].as_string() == "this one");
}

TEST_CASE("the fault of a text is reported even if the pool has no room for the text twice", "[pool]") {
    std::string text = "{\"list\":[";
    for (int i = 0; i < 1'500; ++i) text += "\"a string of its own, number " + std::to_string(i) + "\",";
    text += "\"bad\\x\"]}";
    detail::pool_limits limits;
    limits.max_bytes = 96 * 1024;
    for (const bool sliced : {false, true}) {
        const auto pool = detail::make_pool(decode_options(), limits);
        failure f;
        const object none = sliced ? in_slices(*pool, text, object(), f, 4'000) : pool->decode(text, object(), f);
        CHECK_FALSE(none);
        CHECK(f == errc::syntax_error);
        CHECK(f.message().ends_with(" at byte " + std::to_string(text.size() - 4)));
        check_empty(*pool);
    }
}

TEST_CASE("a transform runs once even if the pool was full of dead nodes", "[pool]") {
    int calls = 0;
    detail::pool_limits limits;
    limits.max_bytes = 64 * 1024;
    const auto pool = detail::make_pool(decode_options().transform_with([&](boost::json::value&) { ++calls; }), limits);
    failure f;
    object big = pool->decode("{\"a\":\"" + std::string(30'000, 'x') + "\"}", object(), f);
    REQUIRE(big);
    big = object();
    calls = 0;
    CHECK(bool(pool->decode("{\"b\":\"" + std::string(30'001, 'y') + "\"}", object(), f)));
    CHECK(calls == 1);
}

TEST_CASE("a stack of more handles than there can be is refused", "[pool]") {
    detail::handle_stack s;
    s.need(1);
    s.push(detail::true_handle);
    CHECK_THROWS_AS(s.need(0xffff'ffffu), detail::pool_is_full);
    CHECK(s.back() == detail::true_handle);
}

namespace {

/// Access to the private word of a node's count.
template <auto Count>
struct taken {
    friend std::uint32_t& count_of(informer::detail::generation& g, informer::detail::handle h) {
        return (g.*Count)(h);
    }
};
std::uint32_t& count_of(informer::detail::generation& g, informer::detail::handle h);
template struct taken<static_cast<std::uint32_t& (informer::detail::generation::*)(informer::detail::handle) noexcept>(
    &informer::detail::generation::count)>;

} // namespace

// A pool of 4 GiB that holds a hundred arrays of ten million equal strings reaches that count by itself.
TEST_CASE("a count that reaches its end stays there, and so does the node", "[pool]") {
    constexpr std::uint32_t most = (1u << 30) - 1;
    const auto pool = document_pool::make();
    const auto document = [](const std::string& name, int n) {
        std::string s = R"({"metadata":{"name":")" + name + R"("},"a":[0)";
        for (int i = 0; i < n; ++i) s += R"(,"some text")";
        return s + "]}";
    };
    object first = decode(*pool, document("a", 2));
    const value word = first["a"][1];
    REQUIRE(word.same_as(first["a"][2]));
    auto& generation = const_cast<informer::detail::generation&>(*word.generation());
    std::uint32_t& count = count_of(generation, word.handle());
    count += most - 3 - (count & most);
    object second = decode(*pool, document("b", 10));
    CHECK((count & most) == most);
    CHECK((second["a"][10].string_or_empty() == "some text"));
    second = object();
    drain(*pool);
    CHECK((count & most) == most);
    CHECK((first["a"][1].string_or_empty() == "some text"));
    const object third = decode(*pool, document("c", 3));
    CHECK(third["a"][3].same_as(first["a"][1]));
    first = object();
    drain(*pool);
    CHECK((third["a"][3].string_or_empty() == "some text"));
}
