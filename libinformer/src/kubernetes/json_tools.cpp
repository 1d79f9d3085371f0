#include "kubernetes/json_tools.hpp"

#include <boost/json/error.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/parse_options.hpp>

namespace informer::kubernetes::detail {

namespace json = boost::json;

json::value parse_answer(std::string_view text, failure& f) {
    f = failure();
    json::parse_options options;
    options.max_depth = 100;
    options.numbers = json::number_precision::precise; // what a plugin is told of its cluster is what was configured
    error_code ec;
    json::value v = json::parse(json::string_view(text.data(), text.size()), ec, {}, options);
    if (ec == json::error::too_deep)
        f = failure(errc::too_deep, "");
    else if (ec)
        f = failure(errc::syntax_error, ec.message());
    return v;
}

json::value parse_small(std::string_view text, failure& f) {
    if (text.size() <= large_text) return parse_answer(text, f);
    f = failure(errc::too_large, "over " + std::to_string(large_text) + " bytes");
    return {};
}

const json::value* member(const json::object& o, std::string_view key) noexcept {
    return o.if_contains(key);
}

const json::object* object_member(const json::object& o, std::string_view key) noexcept {
    const auto* v = member(o, key);
    return v ? v->if_object() : nullptr;
}

const json::array& array_member(const json::object& o, std::string_view key) noexcept {
    static const json::array none;
    const auto* v = member(o, key);
    const auto* a = v ? v->if_array() : nullptr;
    return a ? *a : none;
}

std::string_view string_member(const json::object& o, std::string_view key) noexcept {
    const auto* v = member(o, key);
    const auto* s = v ? v->if_string() : nullptr;
    return s ? std::string_view(s->data(), s->size()) : std::string_view();
}

std::string text_member(const json::object& o, std::string_view key) {
    return std::string(string_member(o, key));
}

object_key key_of(const json::value& o) {
    const auto* whole = o.if_object();
    const auto* metadata = whole ? object_member(*whole, "metadata") : nullptr;
    if (!metadata) return {};
    return object_key(text_member(*metadata, "namespace"), text_member(*metadata, "name"));
}

bool bool_member(const json::object& o, std::string_view key) noexcept {
    const auto* v = member(o, key);
    const auto* b = v ? v->if_bool() : nullptr;
    return b && *b;
}

std::optional<std::int64_t> int_member(const json::object& o, std::string_view key) noexcept {
    const auto* v = member(o, key);
    const auto* i = v ? v->if_int64() : nullptr;
    return i ? std::optional(*i) : std::nullopt;
}

std::vector<std::string> texts_member(const json::object& o, std::string_view key) {
    std::vector<std::string> all;
    for (const auto& v : array_member(o, key))
        if (const auto* s = v.if_string()) all.emplace_back(s->data(), s->size());
    return all;
}

} // namespace informer::kubernetes::detail
