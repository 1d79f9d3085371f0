#include "json_tools.hpp"

#include "refusal.hpp"
#include "root/utf8.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <cmath>
#include <utility>

namespace informer::testing::detail {

namespace json = boost::json;

namespace {

template <typename Path>
const json::value* find_path(const json::object& o, const Path& path) {
    const json::object* in = &o;
    const json::value* found = nullptr;
    for (const auto& step : path) {
        if (in == nullptr) return nullptr;
        found = in->if_contains(std::string_view(step));
        if (found == nullptr) return nullptr;
        in = found->if_object();
    }
    return found;
}

} // namespace

const json::value* find_at(const json::object& o, std::initializer_list<std::string_view> path) {
    return find_path(o, path);
}

const json::value* find_at(const json::object& o, std::span<const std::string> path) {
    return find_path(o, path);
}

std::string string_at(const json::object& o, std::initializer_list<std::string_view> path) {
    const auto* v = find_path(o, path);
    if (v == nullptr || !v->is_string()) return {};
    return std::string(std::string_view(v->get_string()));
}

void set_at(json::object& o, std::span<const std::string> path, json::value v) {
    auto* at = &o;
    for (const auto& name : path.first(path.size() - 1)) at = &object_at(*at, name);
    (*at)[path.back()] = std::move(v);
}

json::object& object_at(json::object& o, std::string_view key) {
    auto& v = o[key];
    if (!v.is_object()) v.emplace_object();
    return v.get_object();
}

std::string scalar_text(const json::value& v) {
    if (v.is_string()) return std::string(std::string_view(v.get_string()));
    if (v.is_null() || v.is_structured()) return {};
    return json::serialize(v);
}

void append_json(std::string& to, const json::value& v) {
    switch (v.kind()) {
    case json::kind::object: {
        to += '{';
        bool first = true;
        for (const auto& [key, member] : v.get_object()) {
            if (!std::exchange(first, false)) to += ',';
            to += json::serialize(json::string_view(key));
            to += ':';
            append_json(to, member);
        }
        to += '}';
        return;
    }
    case json::kind::array: {
        to += '[';
        bool first = true;
        for (const auto& element : v.get_array()) {
            if (!std::exchange(first, false)) to += ',';
            append_json(to, element);
        }
        to += ']';
        return;
    }
    case json::kind::double_: {
        if (!std::isfinite(v.get_double())) { // the parser reads 1e400 as infinity, which JSON cannot express
            throw bad_request("the object provided cannot be read: a number is too large");
        }
        char buffer[32];
        to.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, v.get_double()).ptr);
        return;
    }
    default: to += json::serialize(v);
    }
}

std::string valid_utf8(std::string_view text) {
    std::string out;
    for (;;) {
        const auto good = informer::detail::utf8_end(text);
        out += text.substr(0, good);
        if (good == text.size()) return out;
        out += "\xEF\xBF\xBD";
        text.remove_prefix(good + 1);
    }
}

json::value parse_any(std::string_view text) {
    json::parse_options options;
    options.max_depth = 1000;
    options.numbers = json::number_precision::precise;
    boost::system::error_code ec;
    auto v = json::parse(text, ec, {}, options);
    if (ec) throw bad_request("the object provided cannot be read: " + ec.message());
    return v;
}

json::object parse_body(std::string_view text) {
    if (text.empty()) throw bad_request("the body is empty");
    auto v = parse_any(text);
    if (!v.is_object()) throw bad_request("the object provided cannot be read: it is no JSON object");
    return std::move(v.get_object());
}

} // namespace informer::testing::detail
