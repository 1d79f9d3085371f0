// Whatever a server sends is read also on a small stack of a thread.
#include "support/pool.hpp"

#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <pthread.h>

using namespace informer;
using informer::testing::decode;

namespace {

/// A document nested nearly as deep as is allowed, with a value of its own at each level.
std::string deep(int number) {
    constexpr int levels = 980;
    std::string s = R"({"apiVersion":"v1","kind":"Thing","metadata":{"name":"n)" + std::to_string(number) +
                    R"(","namespace":"a"},"spec":)";
    for (int i = 0; i < levels; ++i) s += R"({"n":)" + std::to_string(i % 7 == 0 ? number : i) + R"(,"next":)";
    s += "0";
    s.append(levels, '}');
    return s += "}";
}

void* call(void* f) {
    (*static_cast<std::function<void()>*>(f))();
    return nullptr;
}

void on_a_stack_of(std::size_t bytes, std::function<void()> f) {
    pthread_attr_t how;
    REQUIRE(::pthread_attr_init(&how) == 0);
    REQUIRE(::pthread_attr_setstacksize(&how, bytes) == 0);
    pthread_t thread{};
    REQUIRE(::pthread_create(&thread, &how, call, &f) == 0);
    REQUIRE(::pthread_join(thread, nullptr) == 0);
    ::pthread_attr_destroy(&how);
}

} // namespace

TEST_CASE("objects nearly as deep as allowed are decoded, moved and freed on a stack of 128 KiB", "[pool]") {
    const auto pool = document_pool::make();
    object last;
    on_a_stack_of(128 << 10, [&] {
        std::vector<object> all;
        for (int i = 0; i < 300; ++i) all.push_back(decode(*pool, deep(i)));
        for (int i = 0; i < 300; ++i) {
            object& o = all[static_cast<std::size_t>(i)];
            o = decode(*pool, deep(i + 1000), o);
        }
        pool->begin_generation();
        failure f;
        for (object& o : all) o = pool->move(o, f);
        last = all.back();
        all.clear();
        while (!pool->collect(10'000)) {
        }
    });
    CHECK(last.to_json() == deep(1299));
    last = object();
    while (!pool->collect(10'000)) {
    }
    CHECK(pool->statistics().nodes == 0);
}
