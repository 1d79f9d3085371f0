#include "described_types.hpp"

#include "identifiers.hpp"
#include "json_members.hpp"

#include <informer/error.hpp>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace informerctl {
namespace {

namespace json = boost::json;

constexpr std::size_t columns = 120;
constexpr std::size_t most_members = 52; // that BOOST_DESCRIBE_STRUCT takes
constexpr unsigned most_levels = 200;    // of types within types; what is deeper has none
constexpr std::string_view anything = "boost::json::value";

bool has_in(const json::object& o, std::string_view key, std::string_view text) {
    const json::value* v = o.if_contains(key);
    const json::array* a = v ? v->if_array() : nullptr;
    return a && std::any_of(a->begin(), a->end(),
                            [&](const json::value& one) { return one.is_string() && one.get_string() == text; });
}

/// The first sentence, on lines that begin with `indent` and "/// ".
std::string comment(std::string_view text, const std::string& indent) {
    std::string line, all;
    const auto end_line = [&] {
        // A backslash at its end would make the next line part of the comment.
        while (!line.empty() && (line.back() == '\\' || line.back() == ' ')) line.pop_back();
        if (!line.empty()) all += indent + "/// " + line + '\n';
        line.clear();
    };
    while (!text.empty()) {
        const std::size_t n = std::min(text.find_first_of(" \t\r\n"), text.size());
        std::string word(text.substr(0, n));
        text.remove_prefix(std::min(n + 1, text.size()));
        std::erase_if(word, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; });
        if (word.empty()) continue;
        if (indent.size() + 4 + line.size() + 1 + word.size() > columns) end_line();
        line += (line.empty() ? "" : " ") + word;
        if (word.back() == '.' && word != "e.g." && word != "i.e.") break;
    }
    end_line();
    return all;
}

class maker {
public:
    maker(const json::object& schemas, const wanted_types& wanted) : schemas_(schemas), wanted_(wanted) {}

    std::string make() {
        for (const auto& [name, schema] : schemas_) {
            if (!schema.is_object() || !is_wanted(schema.get_object())) continue;
            begun_[name] = unused(type_identifier(wanted_.kind));
            add_struct(begun_[name], schema.get_object(), true);
            return header();
        }
        throw informer::error(informer::errc::unknown_resource,
                              "types of " + wanted_.kind + ": the server describes none in " + api_version());
    }

private:
    struct member {
        std::string type, name, value, about;
    };

    std::string api_version() const {
        return wanted_.group.empty() ? wanted_.version : wanted_.group + "/" + wanted_.version;
    }

    bool is_wanted(const json::object& schema) const {
        const json::value* kinds = schema.if_contains("x-kubernetes-group-version-kind");
        if (!kinds || !kinds->is_array() || kinds->get_array().size() != 1) return false; // DeleteOptions is of all
        const json::object* k = kinds->get_array()[0].if_object();
        return k && text_at(*k, "group") == wanted_.group && text_at(*k, "version") == wanted_.version &&
               text_at(*k, "kind") == wanted_.kind;
    }

    std::string unused(const std::string& name) {
        std::string one = name;
        for (unsigned n = 2; !names_.insert(one).second; ++n) one = name + std::to_string(n);
        return one;
    }

    std::string qualified(const std::string& type) const { return "::" + wanted_.name_space + "::" + type; }

    /// The type of what a schema describes. `place`: what a struct for it would be called if it has no name.
    std::string type_of(const json::object& schema, const std::string& place) {
        if (depth_ == most_levels) return std::string(anything);
        ++depth_;
        std::string type = plain_type_of(schema, place);
        --depth_;
        return type;
    }
    std::string plain_type_of(const json::object& schema, const std::string& place) {
        if (const auto ref = text_at(schema, "$ref"); !ref.empty()) return named(ref);
        if (const json::value* all = schema.if_contains("allOf");
            all && all->is_array() && all->get_array().size() == 1 && all->get_array()[0].is_object())
            return type_of(all->get_array()[0].get_object(), place);
        const json::value* mixed = schema.if_contains("x-kubernetes-int-or-string");
        if (text_at(schema, "format") == "int-or-string" || (mixed && *mixed == true))
            return "std::variant<std::int64_t, std::string>";
        if (is_quantity(schema)) return "informer::quantity";
        const auto type = text_at(schema, "type"), format = text_at(schema, "format");
        if (type == "string") return format == "date-time" ? "std::chrono::system_clock::time_point" : "std::string";
        if (type == "boolean") return "bool";
        if (type == "integer") return format == "int32" ? "std::int32_t" : "std::int64_t";
        if (type == "number") return "double";
        if (type == "array") {
            const json::object* items = object_at(&schema, "items");
            return "std::vector<" + (items ? type_of(*items, place + "_item") : std::string(anything)) + ">";
        }
        if (const json::object* members = object_at(&schema, "properties"); members && !members->empty()) {
            const std::string name = unused(place);
            add_struct(name, schema);
            return qualified(name);
        }
        if (const json::object* values = object_at(&schema, "additionalProperties"); values && !values->empty())
            return "std::map<std::string, " + type_of(*values, place + "_value") + ">";
        return std::string(anything);
    }

    static bool is_quantity(const json::object& schema) {
        const json::value* one_of = schema.if_contains("oneOf");
        if (!one_of || !one_of->is_array() || one_of->get_array().size() != 2) return false;
        std::set<std::string_view> types;
        for (const json::value& v : one_of->get_array())
            if (v.is_object()) types.insert(text_at(v.get_object(), "type"));
        return types == std::set<std::string_view>{"number", "string"};
    }

    std::string named(std::string_view ref) {
        const std::string name(ref.substr(ref.rfind('/') + 1)); // of "#/components/schemas/io.k8s.api.core.v1.PodSpec"
        const json::object* schema = object_at(&schemas_, name);
        if (!schema) return std::string(anything);
        const std::string short_name = type_identifier(std::string_view(name).substr(name.rfind('.') + 1));
        const json::object* members = object_at(schema, "properties");
        if (!members || members->empty()) {
            const auto [alias, first] = aliases_.try_emplace(name, anything); // which it is within itself
            if (first) alias->second = type_of(*schema, short_name);
            return alias->second;
        }
        const auto [at, first] = begun_.try_emplace(name);
        if (!first) return complete_.contains(at->second) ? qualified(at->second) : std::string(anything);
        const std::string type = at->second = unused(short_name);
        add_struct(type, *schema);
        return qualified(type);
    }

    void add_struct(const std::string& name, const json::object& schema, bool whole = false) {
        std::vector<member> members;
        std::string left_out;
        for (const auto& [key, v] : *object_at(&schema, "properties")) {
            if (!v.is_object()) continue;
            const std::string id = member_identifier(key);
            if (id.empty()) {
                left_out += "    // " + json::serialize(json::value(key)) + " cannot be a name: it is left out.\n";
                continue;
            }
            members.push_back(member_of(name, schema, key, id, v.get_object(), whole));
        }
        std::span<const member> rest(members);
        std::string base;
        for (; rest.size() > most_members; rest = rest.subspan(most_members)) {
            const std::string part = unused(name + "_base");
            print_struct(part, "", rest.first(most_members), base, "");
            base = part;
        }
        print_struct(name, comment(text_at(schema, "description"), ""), rest, base, left_out);
        complete_.insert(name);
    }

    member member_of(const std::string& name, const json::object& schema, std::string_view key, const std::string& id,
                     const json::object& v, bool whole) {
        member m;
        m.type = type_of(v, type_identifier(name + "_" + std::string(key)));
        m.name = id;
        m.about = comment(text_at(v, "description"), "    ");
        if (whole && (key == "apiVersion" || key == "kind") && m.type == "std::string") {
            m.value = json::serialize(json::value(key == "kind" ? wanted_.kind : api_version()));
            return m;
        }
        const json::object* by_default = object_at(&v, "default");
        const bool is_struct = m.type.starts_with("::"), is_written = is_struct && by_default && by_default->empty();
        if (whole && key == "metadata" && is_struct) return m; // which no object is without
        if (!has_in(schema, "required", key) && !is_written)
            m.type = "std::optional<" + m.type + ">";
        else if (m.type == "bool")
            m.value = "false";
        else if (m.type == "double" || m.type.starts_with("std::int"))
            m.value = "0";
        return m;
    }

    void print_struct(const std::string& name, const std::string& about, std::span<const member> members,
                      const std::string& base, const std::string& left_out) {
        text_ += "\n" + about + "struct " + name + (base.empty() ? "" : " : " + base) + " {\n" + left_out;
        std::string described, line = "BOOST_DESCRIBE_STRUCT(" + name + ", (" + base + "), (";
        for (const member& m : members) {
            text_ += m.about + "    " + m.type + " " + m.name + (m.value.empty() ? "" : " = " + m.value) + ";\n";
            const bool last = &m == &members.back();
            if (line.size() + m.name.size() + 4 > columns) {
                described += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
                line = "    ";
            }
            line += m.name + (last ? "" : ", ");
        }
        text_ += "};\n" + described + line + "))\n";
    }

    std::string header() const {
        std::string to = "// " + wanted_.kind + " (" + api_version() + "), as the API server describes it.\n";
        to += "// Made by `" + wanted_.by +
              "`.\n// clang-format off\n#pragma once\n\n#include <informer/object/quantity.hpp>\n#include "
              "<informer/object/typed.hpp>\n\n";
        to += "#include <boost/describe/class.hpp>\n#include <boost/json/value.hpp>\n\n";
        for (const char* h : {"chrono", "cstdint", "map", "optional", "string", "variant", "vector"})
            to.append("#include <").append(h).append(">\n");
        return to + "\nnamespace " + wanted_.name_space + " {\n" + text_ + "\n} // namespace " + wanted_.name_space +
               "\n";
    }

    const json::object& schemas_;
    const wanted_types& wanted_;
    std::set<std::string> names_;                ///< of structs
    std::map<std::string, std::string> begun_;   ///< schemas with a name, and the structs that they became or will be
    std::set<std::string> complete_;             ///< structs that have been printed
    std::map<std::string, std::string> aliases_; ///< schemas with a name that are no structs, and their types
    unsigned depth_ = 0;
    std::string text_;
};

} // namespace

std::string make_types(const boost::json::value& document, const wanted_types& wanted) {
    for (const std::string& s : {wanted.group, wanted.version, wanted.kind, wanted.by}) {
        if (std::any_of(s.begin(), s.end(), [](unsigned char c) { return c < ' ' || c == '\\' || c == '"'; }))
            throw informer::error(informer::errc::bad_response, "types of " + wanted.kind + ": no name of a kind");
    }
    const json::object* schemas = object_at(object_at(document.if_object(), "components"), "schemas");
    if (!schemas) {
        throw informer::error(informer::errc::bad_response,
                              "types of " + wanted.kind + ": the document of the server has no /components/schemas");
    }
    return maker(*schemas, wanted).make();
}

} // namespace informerctl
