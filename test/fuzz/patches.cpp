// Patches of values. The input is a document and a patch of either kind, as parts.
#include "input.hpp"
#include "targets.hpp"

#include <informer/object/document_pool.hpp>
#include <informer/object/json.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <cmath>
#include <string_view>

namespace informer::fuzz {
namespace {

namespace json = boost::json;

template <class Is>
bool has(const json::value& v, const Is& is) {
    if (is(v)) return true;
    if (const auto* a = v.if_array())
        for (const auto& e : *a)
            if (has(e, is)) return true;
    if (const auto* o = v.if_object())
        for (const auto& m : *o)
            if (has(m.value(), is)) return true;
    return false;
}

bool has_null(const json::value& v) {
    return has(v, [](const json::value& one) { return one.is_null(); });
}

/// Boost.JSON reads a number beyond all doubles as infinity, which no document holds.
bool has_infinity(const json::value& v) {
    return has(v, [](const json::value& one) { return one.is_double() && std::isinf(one.get_double()); });
}

} // namespace

void patches(std::string_view bytes) {
    input in(bytes);
    boost::system::error_code not_json;
    const json::value from = json::parse(in.part(), not_json);
    if (not_json) return;
    const json::value patch = json::parse(in.rest(), not_json);
    if (not_json) return;

    json::value target = from;
    failure f;
    expect(apply_json_patch(target, patch, f) != bool(f), "neither done nor refused, or both");
    if (f) expect(f == errc::bad_patch && target == from, "changed by what was refused");

    json::value merged = from;
    apply_merge_patch(merged, patch);
    json::value again = merged;
    apply_merge_patch(again, patch);
    expect(again == merged, "twice is not once");
    if (!has_null(patch)) {
        json::value made = from;
        apply_merge_patch(made, make_merge_patch(from, patch));
        expect(made == patch || has_null(from), "the patch to get there does not");
    }
    if (from.is_object() && !has_infinity(from))
        expect(to_value(from_value(from)) == from, "as a document it is another value");
}

} // namespace informer::fuzz
