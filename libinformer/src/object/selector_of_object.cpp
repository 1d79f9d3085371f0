// Label selectors in objects, not in a query.
#include <informer/object/selector.hpp>

#include "object/label_syntax.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace informer {

namespace {

using op = label_selector::op;
using requirements = std::vector<label_selector::requirement>;

bool absent(const value& v) noexcept {
    return !v.exists() || v.is_null();
}

/// Reads requirements into `to`. Functions return false with `wrong` set.
class reader {
public:
    requirements to;
    failure wrong;

    /// matchLabels, or a plain map.
    bool pairs(const value& labels, const std::string& where) {
        if (absent(labels)) return true;
        if (!labels.is_object()) return complain(where, found(labels) + ", not an object");
        for (const auto& [key, v] : labels.members()) {
            if (!v.is_string()) return complain(below(where, key.str()), found(v) + ", not a string");
            auto& r = add(key.str(), op::equals);
            r.values.push_back(v.as_string().str());
            if (!check(r, where)) return false;
        }
        return true;
    }

    bool expressions(const value& all, const std::string& where) {
        if (absent(all)) return true;
        if (!all.is_array()) return complain(where, found(all) + ", not an array");
        for (std::size_t i = 0; i < all.size(); ++i)
            if (!expression(all[i], where + "/" + std::to_string(i))) return false;
        return true;
    }

    /// Refuses unknown members: one of them may narrow the selection.
    bool only(const value& v, std::initializer_list<std::string_view> known, const std::string& where) {
        if (!v.is_object()) return complain(where, found(v) + ", not an object");
        for (const auto& [key, ignored] : v.members())
            if (std::find(known.begin(), known.end(), key.view()) == known.end())
                return complain(where, "'" + key.str() + "' is no member of a selector");
        return true;
    }

private:
    static std::string below(const std::string& where, const std::string& key) {
        return where.empty() ? key : where + "/" + key;
    }
    static std::string found(const value& v) { return "found " + std::string(to_string(v.kind())); }

    bool complain(const std::string& where, const std::string& what) {
        wrong = failure(errc::bad_selector, "label selector" + (where.empty() ? "" : " at " + where) + ": " + what);
        return false;
    }

    label_selector::requirement& add(std::string key, op operation) {
        auto& r = to.emplace_back();
        r.key = std::move(key);
        r.operation = operation;
        return r;
    }

    bool check(const label_selector::requirement& r, const std::string& where) {
        if (!detail::is_label_key(r.key)) return complain(where, "'" + r.key + "' is no label key");
        for (const auto& v : r.values)
            if (!detail::is_label_value(v)) return complain(below(where, r.key), "'" + v + "' is no label value");
        return true;
    }

    bool expression(const value& e, const std::string& where) {
        if (!only(e, {"key", "operator", "values"}, where)) return false;
        const std::string name = e["operator"].string_or_empty().str();
        auto& r = add(e["key"].string_or_empty().str(), op::exists);
        if (name == "In")
            r.operation = op::in;
        else if (name == "NotIn")
            r.operation = op::not_in;
        else if (name == "DoesNotExist")
            r.operation = op::not_exists;
        else if (name != "Exists")
            return complain(where, "'" + name + "' is no operator; there are In, NotIn, Exists and DoesNotExist");
        const value values = e["values"];
        if (!absent(values) && !values.is_array()) return complain(where + "/values", found(values) + ", not an array");
        for (const value v : values) {
            if (!v.is_string()) return complain(where + "/values", found(v) + ", not a string");
            r.values.push_back(v.as_string().str());
        }
        const bool wants = r.operation == op::in || r.operation == op::not_in;
        if (wants == r.values.empty()) return complain(where, name + (wants ? " needs values" : " takes no values"));
        std::sort(r.values.begin(), r.values.end());
        r.values.erase(std::unique(r.values.begin(), r.values.end()), r.values.end());
        return check(r, where);
    }
};

} // namespace

label_selector label_selector::nothing() {
    return parse("nothing,!nothing");
}

label_selector label_selector::from(const value& selector, failure& f) {
    f = failure();
    if (absent(selector)) return nothing();
    reader r;
    const bool well = r.only(selector, {"matchLabels", "matchExpressions"}, "") &&
                      r.pairs(selector["matchLabels"], "matchLabels") &&
                      r.expressions(selector["matchExpressions"], "matchExpressions");
    if (well) return label_selector(std::move(r.to));
    f = std::move(r.wrong);
    return nothing();
}

label_selector label_selector::from(const value& selector) {
    failure f;
    auto s = from(selector, f);
    throw_on(f);
    return s;
}

label_selector label_selector::from_map(const value& labels, failure& f) {
    f = failure();
    reader r;
    const bool well = r.pairs(labels, "");
    if (well) return label_selector(std::move(r.to));
    f = std::move(r.wrong);
    return nothing();
}

label_selector label_selector::from_map(const value& labels) {
    failure f;
    auto s = from_map(labels, f);
    throw_on(f);
    return s;
}

} // namespace informer
