// For code that walks many objects: asks the processor to fetch what is read next.
#pragma once

#include <informer/object/object.hpp>
#include <informer/object/value.hpp>

namespace informer {

/// Documents lie scattered in memory, so that reading one string of each of many objects is a row of waits for memory.
/// If objects are taken in groups, level by level (all objects, then all their roots, then all their `metadata`), these
/// waits overlap. Only a hint: nothing is read, and empty arguments are fine. *Thread safety*: any thread. Prefetch an
/// `object` before its `value()`, and a `value` before its members or its text. `prefetch_members` is for an object
/// whose value was prefetched before: it fetches the object's name and what stands in its outermost members
/// (`metadata`, `spec` …).
void prefetch(const object& o) noexcept;
void prefetch(const value& v) noexcept;
void prefetch_members(const object& o) noexcept;

} // namespace informer
