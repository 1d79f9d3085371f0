// What goes back to the system when pools become empty, as the system counts it.
#include "support/pod_generator.hpp"
#include "support/pool.hpp"
#include "support/sanitizer.hpp"

#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <vector>

using namespace informer;
using informer::testing::decode;
using informer::testing::drain;
using informer::testing::pod;

namespace {

/// Bytes of this process in memory.
double resident() {
    std::ifstream statm("/proc/self/statm");
    double size = 0, pages = 0;
    statm >> size >> pages;
    return pages * 4096;
}

} // namespace

TEST_CASE("a small pool that becomes empty gives its memory back, whatever the program has allocated before",
          "[pool]") {
    if (informer::testing::sanitized) SKIP("a sanitizer keeps what is freed");
    // From now on glibc takes whatever is smaller from its heap.
    void* const large = std::malloc(std::size_t{24} << 20);
    REQUIRE(large != nullptr);
    static_cast<volatile char*>(large)[0] = 1;
    std::free(large);

    constexpr std::size_t n = 60;
    std::vector<std::shared_ptr<document_pool>> pools;
    std::vector<std::vector<object>> pods(n);
    for (std::size_t i = 0; i < n; ++i) pools.push_back(document_pool::make());
    const double before = resident();
    for (unsigned p = 0; p < 200; ++p) // in turn: what lies between them holds the heap's memory
        for (std::size_t i = 0; i < n; ++i) pods[i].push_back(decode(*pools[i], pod(p)));
    const double full = resident() - before;
    REQUIRE(full > 10e6);
    for (auto& all : pods) all.clear();
    for (const auto& pool : pools) drain(*pool);
    CAPTURE(full);
    CHECK(resident() - before < 0.7 * full);
}
