// Small texts with a syntax of their own: written and read again, they must be the same.
//
// The input is a byte that selects the kind, and the text.
#include "input.hpp"
#include "targets.hpp"

#include "kubernetes/proxy_rules.hpp"
#include "root/base64.hpp"

#include <informer/http/proxy.hpp>
#include <informer/http/url.hpp>
#include <informer/object/document_pool.hpp>
#include <informer/object/resource_version.hpp>
#include <informer/object/rfc3339.hpp>
#include <informer/object/selector.hpp>
#include <informer/source/shard_selector.hpp>

#include <string>
#include <string_view>

namespace informer::fuzz {
namespace {

template <class Selector>
void selector(std::string_view text) {
    failure f;
    const Selector s = Selector::parse(text, f);
    if (f) return expect(s.everything(), "a selector that is none selects");
    failure g;
    const Selector again = Selector::parse(s.str(), g);
    expect(!g && again == s && again.str() == s.str(), "a selector written and read is another one");
    const auto lookup = [](std::string_view key) {
        return key.size() % 2 ? std::optional<std::string>(key) : std::nullopt;
    };
    expect(s.matches(lookup) == again.matches(lookup), "a selector written and read matches others");
}

void selector_of_object(std::string_view text) {
    failure f, g;
    const object o = parse_object(text, f);
    if (f) return;
    const label_selector s = label_selector::from(o["spec"], f), m = label_selector::from_map(o["spec"], g);
    if (!f && !s.everything()) expect(label_selector::parse(s.str(), f) == s && !f, "of an object: another one");
    if (!g && !m.everything()) expect(label_selector::parse(m.str(), g) == m && !g, "of a map: another one");
    s.matches(o);
    field_selector::parse("spec.a=b,metadata.name!=c", f).matches(o);
}

void addresses(std::string_view text) {
    failure f;
    const auto e = http::endpoint::parse(text, f);
    if (!f) {
        failure g;
        const auto again = http::endpoint::parse(e.url(), g);
        expect(!g && again.url() == e.url() && again.host == e.host && again.port == e.port, "another address");
        kubernetes::detail::exempt(e, text);
    }
    const auto p = http::proxy::parse(text, f);
    if (!f && p) {
        failure g;
        const auto again = http::proxy::parse(p.url(), g);
        expect(!g && again.host == p.host && again.port == p.port, "another proxy");
    }
    expect(http::percent_decode(http::percent_encode(text)) == text, "another text in a URL");
}

void times(std::string_view text) {
    const auto t = parse_rfc3339(text);
    if (!t) return;
    const std::string again = rfc3339(*t, 9);
    const auto same = parse_rfc3339(again);
    expect(same && *same == *t, "another time");
}

void versions(std::string_view text) {
    input in(text);
    const resource_version a(in.part()), b(in.rest());
    const auto order = a <=> b, back = b <=> a;
    expect((order < 0) == (back > 0) && (order == 0) == (back == 0), "no order");
    expect(!a.comparable() || !b.comparable() || order == 0 || order < 0 || order > 0, "versions without an order");
}

void base64(std::string_view text) {
    expect(informer::detail::base64_decode(informer::detail::base64_encode(text)) == text, "another text in base64");
    if (const auto bytes = informer::detail::base64_decode(text))
        expect(informer::detail::base64_decode(informer::detail::base64_encode(*bytes)) == *bytes, "other bytes");
}

void pointers(std::string_view text) {
    input in(text);
    const std::string_view pointer = in.part();
    failure f;
    const object o = parse_object(in.rest(), f);
    if (!f) o.at_pointer(pointer);
    try {
        projection::keep({std::string(pointer)});
    } catch (const error& e) {
        expect(e.code() == errc::bad_configuration, "an error of another kind");
    }
}

} // namespace

void texts(std::string_view bytes) {
    input in(bytes);
    const std::uint8_t which = in.byte();
    const exact same(in.rest());
    const std::string_view text = same.view();
    switch (which % 8) {
    case 0: return selector<label_selector>(text);
    case 1: return selector<field_selector>(text);
    case 2: return selector_of_object(text);
    case 3: return addresses(text);
    case 4: return times(text);
    case 5: return versions(text);
    case 6: return base64(text);
    default: return pointers(text);
    }
}

} // namespace informer::fuzz
