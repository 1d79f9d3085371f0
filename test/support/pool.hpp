// What tests do with a document pool again and again.
#pragma once

#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <string_view>

namespace informer::testing {

/// A document that must be good.
inline object decode(document_pool& pool, std::string_view json, const object& previous = object()) {
    failure f;
    object o = pool.decode(json, previous, f);
    REQUIRE(!f);
    return o;
}

/// Frees all that died.
inline void drain(document_pool& pool) {
    while (!pool.collect(1000)) {
    }
}

} // namespace informer::testing
