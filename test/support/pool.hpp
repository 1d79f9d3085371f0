// Helpers for tests of document pools.
#pragma once

#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace informer::testing {

/// Decodes a document that must be good.
inline object decode(document_pool& pool, std::string_view json, const object& previous = object()) {
    failure f;
    object o = pool.decode(json, previous, f);
    INFO(f.message());
    REQUIRE(!f);
    return o;
}

/// Decodes a document in slices of this size, and calls `between` between two slices.
inline object in_slices(document_pool& pool, std::string_view json, const object& previous, failure& f,
                        std::size_t bytes, const std::function<void()>& between = {}) {
    const auto d = pool.begin_decode(json, previous);
    while (!d->step(bytes))
        if (between) between();
    return d->finish(f);
}

/// The whole text of a failure.
inline std::string said(const failure& f) {
    return f.code().message() + " | " + f.message();
}

/// Frees everything that is dead.
inline void drain(document_pool& pool) {
    while (!pool.collect(1000)) {
    }
}

/// Checks that the pool is empty after a drain.
inline void check_empty(document_pool& pool) {
    drain(pool);
    const pool_statistics s = pool.statistics();
    CHECK(s.nodes == 0);
    CHECK(s.referenced_nodes == 0);
    CHECK(s.objects == 0);
    CHECK(s.generations == 1);
}

} // namespace informer::testing
