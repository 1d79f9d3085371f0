#include "json_patch.hpp"

#include <informer/object/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace informer {

namespace {

namespace json = boost::json;

/// Limits on the work that a small patch can cause: each "copy" can double a document, each "move" walks through the
/// value it moves, "add" and "remove" shift what lies behind, and every recursion below relies on `max_depth`.
constexpr std::size_t max_handled_values = 1'000'000;
constexpr std::size_t max_depth = 1000;

struct extent {
    std::size_t values = 0;
    std::size_t depth = 0;
};

extent measure(const json::value& v) {
    extent e;
    e.values = 1;
    e.depth = 1;
    const auto add = [&e](const json::value& child) {
        const extent c = measure(child);
        e.values += c.values;
        e.depth = std::max(e.depth, c.depth + 1);
    };
    if (const auto* a = v.if_array())
        for (const auto& x : *a) add(x);
    if (const auto* o = v.if_object())
        for (const auto& m : *o) add(m.value());
    return e;
}

/// Compares as integers: of two neighbouring integers a double may be able to hold only one.
template <class Integer>
bool is_integer(double d, Integer n) noexcept {
    constexpr double beyond = 2.0 * static_cast<double>(std::uint64_t{1} << (std::numeric_limits<Integer>::digits - 1));
    constexpr double least = std::numeric_limits<Integer>::is_signed ? -beyond : 0;
    return d >= least && d < beyond && static_cast<Integer>(d) == n && static_cast<double>(n) == d;
}

bool is_integer(double d, const json::value& n) noexcept {
    return n.is_uint64() ? is_integer(d, n.get_uint64()) : is_integer(d, n.get_int64());
}

// RFC 6902, 4.6: numbers are equal when they are numerically equal.
bool equal(const json::value& a, const json::value& b) {
    if (a.is_number() && b.is_number()) {
        if (a.is_double() == b.is_double()) return a == b;
        return a.is_double() ? is_integer(a.get_double(), b) : is_integer(b.get_double(), a);
    }
    if (a.kind() != b.kind()) return false;
    if (const auto* x = a.if_array()) {
        const auto& y = b.get_array();
        return std::equal(x->begin(), x->end(), y.begin(), y.end(), equal);
    }
    if (const auto* x = a.if_object()) {
        const auto& y = b.get_object();
        if (x->size() != y.size()) return false;
        return std::all_of(x->begin(), x->end(), [&y](const json::key_value_pair& m) {
            const auto* other = y.if_contains(m.key());
            return other != nullptr && equal(m.value(), *other);
        });
    }
    return a == b;
}

using tokens = std::vector<std::string>;

// RFC 6901. False if `s` is no pointer.
bool parse_pointer(std::string_view s, tokens& to) {
    to.clear();
    while (!s.empty()) {
        if (s.front() != '/') return false;
        s.remove_prefix(1);
        const std::string_view part = s.substr(0, s.find('/'));
        s.remove_prefix(part.size());
        std::string token;
        for (std::size_t i = 0; i < part.size(); ++i) {
            if (part[i] != '~') {
                token += part[i];
                continue;
            }
            if (++i == part.size() || (part[i] != '0' && part[i] != '1')) return false;
            token += part[i] == '0' ? '~' : '/';
        }
        to.push_back(std::move(token));
    }
    return true;
}

// An index below `end`; RFC 6901 allows no sign and no leading zeros.
bool parse_index(std::string_view s, std::size_t end, std::size_t& index) {
    if (s.empty() || s.size() > 9 || (s.size() > 1 && s.front() == '0')) return false;
    index = 0;
    for (const char c : s) {
        if (c < '0' || c > '9') return false;
        index = index * 10 + static_cast<std::size_t>(c - '0');
    }
    return index < end;
}

// An index as the API server reads it: any integer of Go, and below zero from the end.
bool parse_go_index(std::string_view s, std::size_t end, std::size_t& index) {
    const bool plus = s.starts_with('+');
    if (plus) s.remove_prefix(1);
    std::int64_t n = 0;
    const auto [read, wrong] = std::from_chars(s.data(), s.data() + s.size(), n);
    if (wrong != std::errc() || read != s.data() + s.size() || (plus && s.front() == '-')) return false;
    const auto size = static_cast<std::int64_t>(end);
    if (n < -size || n >= size) return false;
    index = static_cast<std::size_t>(n < 0 ? n + size : n);
    return true;
}

/// Applies operations to one document. The functions return what is wrong, or nullptr.
class patcher {
public:
    patcher(json::value& document, detail::json_patch_rules rules)
        : document_(document), as_api_server_(rules == detail::json_patch_rules::api_server) {}

    const char* apply(const json::object& operation) {
        const std::string_view op = text(operation, "op");
        path_text_ = text(operation, "path");
        const auto* path = operation.if_contains("path");
        if (path == nullptr || !path->is_string()) return "\"path\" is missing or no string";
        if (!parse_pointer(path_text_, path_)) return "\"path\" is no JSON pointer";
        if (as_api_server_ && path_.empty()) return "no such path"; // it does not patch whole documents
        if (op == "remove") return remove(path_);
        if (op == "move" || op == "copy") return transfer(operation, op == "move");
        const auto* value = operation.if_contains("value");
        if (op != "add" && op != "replace" && op != "test") return "no such operation";
        static const json::value null;
        if (value == nullptr && as_api_server_) value = &null;
        if (value == nullptr) return "\"value\" is missing";
        if (op == "add") return add(*value);
        json::value* const target = find(path_.begin(), path_.end());
        if (target == nullptr && as_api_server_ && may_be_member(path_)) { // an absent member is null
            if (op == "replace") return add(*value);
            return value->is_null() ? nullptr : "the value is another one";
        }
        if (target == nullptr) return "no such path";
        if (op == "test") return equal(*target, *value) ? nullptr : "the value is another one";
        if (measure(*value).depth + path_.size() > max_depth) return "nested too deeply";
        *target = *value;
        return nullptr;
    }

    static std::string_view text(const json::object& o, std::string_view key) {
        const auto* v = o.if_contains(key);
        return v != nullptr && v->is_string() ? std::string_view(v->get_string()) : std::string_view();
    }

private:
    bool index(std::string_view token, std::size_t end, std::size_t& i) const {
        return as_api_server_ ? parse_go_index(token, end, i) : parse_index(token, end, i);
    }

    json::value* child_of(json::value& v, const std::string& token) const {
        if (auto* o = v.if_object()) return o->if_contains(token);
        std::size_t i = 0;
        auto* a = v.if_array();
        return a != nullptr && index(token, a->size(), i) ? &(*a)[i] : nullptr;
    }

    json::value* find(tokens::const_iterator from, tokens::const_iterator to) const {
        json::value* at = &document_;
        for (; from != to && at != nullptr; ++from) at = child_of(*at, *from);
        return at;
    }

    bool may_be_member(const tokens& path) const {
        const auto* parent = find(path.begin(), path.end() - 1);
        return parent != nullptr && parent->is_object();
    }

    const char* add(json::value value) {
        if (measure(value).depth + path_.size() > max_depth) return "nested too deeply";
        if (path_.empty()) {
            document_ = std::move(value);
            return nullptr;
        }
        json::value* const parent = find(path_.begin(), path_.end() - 1);
        if (parent == nullptr) return "no such path";
        if (auto* o = parent->if_object()) {
            o->insert_or_assign(path_.back(), std::move(value));
            return nullptr;
        }
        auto* a = parent->if_array();
        if (a == nullptr) return "the parent is neither an object nor an array";
        std::size_t i = a->size();
        if (path_.back() != "-" && !index(path_.back(), a->size() + 1, i)) return "no such index";
        if (const char* const wrong = shift(a->size() - i)) return wrong;
        a->insert(a->begin() + static_cast<std::ptrdiff_t>(i), std::move(value));
        return nullptr;
    }

    const char* remove(const tokens& path) {
        if (path.empty()) return "the whole document cannot be removed";
        json::value* const parent = find(path.begin(), path.end() - 1);
        if (parent == nullptr || child_of(*parent, path.back()) == nullptr) return "no such path";
        if (auto* o = parent->if_object()) {
            auto* const at = o->find(path.back());
            if (const char* const wrong = shift(static_cast<std::size_t>(o->end() - at))) return wrong;
            o->stable_erase(at);
            return nullptr;
        }
        auto& a = parent->get_array();
        std::size_t i = 0;
        index(path.back(), a.size(), i);
        if (const char* const wrong = shift(a.size() - i)) return wrong;
        a.erase(a.begin() + static_cast<std::ptrdiff_t>(i));
        return nullptr;
    }

    const char* handle(std::size_t values) {
        handled_ += values;
        return handled_ > max_handled_values ? "copies or moves too much" : nullptr;
    }
    /// Counts the values behind an inserted or removed one: they are shifted, which is far cheaper than copying them.
    const char* shift(std::size_t values) { return handle(values / 8); }

    const char* transfer(const json::object& operation, bool move) {
        const auto* from_member = operation.if_contains("from");
        if (from_member == nullptr || !from_member->is_string()) return "\"from\" is missing or no string";
        tokens from;
        if (!parse_pointer(text(operation, "from"), from)) return "\"from\" is no JSON pointer";
        json::value* const source = find(from.begin(), from.end());
        if (source == nullptr && as_api_server_ && !move && may_be_member(from)) return add(json::value());
        if (source == nullptr) return "\"from\" does not exist";
        if (move && from == path_) return nullptr;
        if (move && from.size() < path_.size() && std::equal(from.begin(), from.end(), path_.begin()))
            return "a value cannot be moved into itself";
        if (const char* const wrong = handle(measure(*source).values)) return wrong;
        if (!move) return add(*source);
        json::value value = std::move(*source);
        const char* const wrong = remove(from);
        return wrong != nullptr ? wrong : add(std::move(value));
    }

    json::value& document_;
    bool as_api_server_;
    std::string_view path_text_;
    tokens path_;
    std::size_t handled_ = 0;
};

failure bad_operation(std::size_t index, const json::value& operation, std::string_view wrong) {
    std::string s = "JSON patch, operation " + std::to_string(index);
    if (const auto* o = operation.if_object())
        s.append(" (").append(patcher::text(*o, "op")).append(" ").append(patcher::text(*o, "path")).append(")");
    return failure(errc::bad_patch, s.append(": ").append(wrong));
}

} // namespace

void apply_merge_patch(json::value& target, const json::value& patch) {
    const auto* members = patch.if_object();
    if (members == nullptr) {
        target = patch;
        return;
    }
    if (!target.is_object()) target.emplace_object();
    auto& object = target.get_object();
    std::size_t gone = 0;
    for (const auto& m : *members) {
        if (!m.value().is_null())
            apply_merge_patch(object[m.key()], m.value());
        else
            gone += object.count(m.key());
    }
    if (gone == 0) return;
    // Removes all of them at once: removing a single member in order moves all members behind it.
    json::object kept(object.storage());
    kept.reserve(object.size() - gone);
    for (auto& m : object)
        if (const auto* change = members->if_contains(m.key()); change == nullptr || !change->is_null())
            kept.emplace(m.key(), std::move(m.value()));
    object = std::move(kept);
}

bool apply_json_patch(json::value& target, const json::value& operations, failure& f) {
    return detail::apply_json_patch(target, operations, detail::json_patch_rules::rfc_6902, f);
}

bool detail::apply_json_patch(json::value& target, const json::value& operations, json_patch_rules rules, failure& f) {
    f = failure();
    const auto* list = operations.if_array();
    if (list == nullptr) {
        f = failure(errc::bad_patch, "JSON patch: not an array of operations");
        return false;
    }
    json::value document = target;
    patcher p(document, rules);
    for (std::size_t i = 0; i < list->size(); ++i) {
        const auto* operation = (*list)[i].if_object();
        const char* const wrong = operation != nullptr ? p.apply(*operation) : "not an object";
        if (wrong == nullptr) continue;
        f = bad_operation(i, (*list)[i], wrong);
        return false;
    }
    target = std::move(document);
    return true;
}

json::value make_merge_patch(const json::value& from, const json::value& to) {
    const auto* before = from.if_object();
    const auto* after = to.if_object();
    if (before == nullptr || after == nullptr) return to;
    json::object patch;
    for (const auto& m : *before)
        if (!after->contains(m.key())) patch[m.key()] = nullptr;
    for (const auto& m : *after) {
        const auto* old = before->if_contains(m.key());
        if (old == nullptr) {
            if (!m.value().is_null()) patch[m.key()] = m.value(); // a null would remove a member that is not there
        } else if (old->is_object() && m.value().is_object()) {
            auto inner = make_merge_patch(*old, m.value());
            if (!inner.get_object().empty()) patch[m.key()] = std::move(inner);
        } else if (*old != m.value()) {
            patch[m.key()] = m.value();
        }
    }
    return patch;
}

} // namespace informer
