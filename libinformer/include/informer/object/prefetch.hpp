// For whoever walks many objects: asks the processor for what is read next.
#pragma once

#include <informer/object/object.hpp>
#include <informer/object/value.hpp>

namespace informer {

/// Documents lie scattered, so that reading one string of each of many objects is a row of waits for memory. Taken in
/// groups, level by level (all objects, then all their roots, then all their `metadata`), these waits overlap.
/// Only a hint: reads nothing, empty ones are fine. *Thread safety*: any thread.
/// `object`: before its `value()`. `value`: before its members or its text. `prefetch_members`, of an object whose value was
/// asked for before: its name and what stands in its outermost members (`metadata`, `spec` …).
void prefetch(const object& o) noexcept;
void prefetch(const value& v) noexcept;
void prefetch_members(const object& o) noexcept;

} // namespace informer
