#include "field_set.hpp"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>

namespace informer::testing::detail {

namespace json = boost::json;

namespace {

constexpr int deepest = 200; // levels of fieldsV1 that are read: it may come from a client

constexpr auto by_element = [](const field_set::child& c, std::string_view element) { return c.element < element; };

field_set read(const json::object& fields, int depth) {
    field_set s;
    for (const auto& [key, v] : fields) {
        if (key == ".") {
            s.here = true;
            continue;
        }
        const bool known = key.starts_with("f:") || key.starts_with("k:") || key.starts_with("v:");
        if (!known || !v.is_object() || depth > deepest) continue;
        auto& child = s.at(key);
        child = read(v.get_object(), depth + 1);
        if (v.get_object().empty()) child.here = true;
        if (child.empty()) s.drop(key);
    }
    return s;
}

} // namespace

std::string shown_element(const std::string& element) {
    const auto rest = std::string_view(element).substr(2);
    if (element.starts_with("f:")) return "." + std::string(rest);
    if (element.starts_with("v:")) return "[=" + std::string(rest) + "]";
    boost::system::error_code ec;
    const auto keys = json::parse(rest, ec);
    std::string out = "[";
    if (!ec && keys.is_object()) {
        for (const auto& [key, v] : keys.get_object()) {
            if (out.size() > 1) out += ',';
            out += std::string(key) + "=" + json::serialize(v);
        }
    }
    return out + "]";
}

field_set& field_set::at(std::string_view element) {
    auto it = std::lower_bound(children_.begin(), children_.end(), element, by_element);
    if (it == children_.end() || it->element != element) {
        child c;
        c.element = element;
        it = children_.insert(it, std::move(c));
    }
    return it->set;
}

const field_set* field_set::find(std::string_view element) const {
    const auto it = std::lower_bound(children_.begin(), children_.end(), element, by_element);
    return it == children_.end() || it->element != element ? nullptr : &it->set;
}

void field_set::drop(std::string_view element) {
    std::erase_if(children_, [element](const child& c) { return c.element == element; });
}

void field_set::add(const field_set& other) {
    here = here || other.here;
    for (const auto& c : other.children_) at(c.element).add(c.set);
}

void field_set::subtract(const field_set& other) {
    if (other.here) here = false;
    for (const auto& c : other.children_) {
        if (find(c.element) == nullptr) continue;
        auto& mine = at(c.element);
        mine.subtract(c.set);
        if (mine.empty()) drop(c.element);
    }
}

field_set field_set::common_with(const field_set& other) const {
    field_set both;
    both.here = here && other.here;
    for (const auto& c : children_) {
        const auto* theirs = other.find(c.element);
        if (theirs == nullptr) continue;
        auto common = c.set.common_with(*theirs);
        if (!common.empty()) both.at(c.element) = std::move(common);
    }
    return both;
}

void field_set::add_paths(const std::string& before, std::vector<std::string>& to) const {
    if (here) to.push_back(before);
    for (const auto& c : children_) c.set.add_paths(before + shown_element(c.element), to);
}

std::vector<std::string> field_set::paths() const {
    std::vector<std::string> out;
    add_paths({}, out);
    return out;
}

json::object field_set::to_json() const {
    json::object out;
    if (here && !children_.empty()) out["."] = json::object();
    for (const auto& c : children_) out[c.element] = c.set.to_json();
    return out;
}

field_set field_set::from_json(const json::object& fields) {
    return read(fields, 0);
}

} // namespace informer::testing::detail
