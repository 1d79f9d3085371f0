// Where the memory of pools comes from.
#include "support/pod_generator.hpp"
#include "support/pool.hpp"
#include "support/sanitizer.hpp"

#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <malloc.h>

#include <cstddef>
#include <memory>
#include <vector>

using namespace informer;
using informer::testing::decode;
using informer::testing::pod;

namespace {

/// Bytes that are allocated from the heap.
double on_the_heap() {
    const auto all = mallinfo2();
    return static_cast<double>(all.uordblks) + static_cast<double>(all.hblkhd);
}

} // namespace

TEST_CASE("most of a small pool is not of the heap, which would hardly give it back", "[pool]") {
    if (informer::testing::sanitized) SKIP("a sanitizer has a heap of its own");
    constexpr std::size_t n = 60;
    const double before = on_the_heap();
    std::vector<std::shared_ptr<document_pool>> pools;
    for (std::size_t i = 0; i < n; ++i) pools.push_back(document_pool::make());
    double bytes = 0;
    std::vector<object> pods;
    for (const auto& pool : pools) {
        for (unsigned p = 0; p < 200; ++p) pods.push_back(decode(*pool, pod(p)));
        bytes += static_cast<double>(pool->statistics().bytes);
    }
    REQUIRE(bytes < 0.8e6 * n);
    CHECK(on_the_heap() - before < 0.6 * bytes);
}
