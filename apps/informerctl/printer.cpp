#include "printer.hpp"

#include "terminal.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <ostream>

namespace informerctl {

using informer::object;
using informer::value;
using informer::value_kind;

// kubectl's rules (duration.HumanDuration).
std::string age(std::chrono::milliseconds d) {
    const auto s = std::chrono::duration_cast<std::chrono::seconds>(d).count();
    if (s < -1) return "<invalid>"; // the clocks differ by more than a little
    const auto two = [](auto a, const char* ua, auto b, const char* ub) {
        return std::to_string(a) + ua + (b ? std::to_string(b) + ub : "");
    };
    const auto minutes = s / 60, hours = s / 3600, days = s / 86400;
    if (s < 120) return std::to_string(s < 0 ? 0 : s) + "s";
    if (minutes < 10) return two(minutes, "m", s % 60, "s");
    if (minutes < 3 * 60) return std::to_string(minutes) + "m";
    if (hours < 8) return two(hours, "h", minutes % 60, "m");
    if (hours < 48) return std::to_string(hours) + "h";
    if (days < 8) return two(days, "d", hours % 24, "h");
    if (days < 2 * 365) return std::to_string(days) + "d";
    if (days < 8 * 365) return two(days / 365, "y", days % 365, "d");
    return std::to_string(days / 365) + "y";
}

std::string age(const object& o, std::chrono::system_clock::time_point now) {
    using std::chrono::milliseconds; // in nanoseconds, the difference may need more than 64 bits
    const auto born = o.meta().creation_time();
    if (!born) return "<unknown>";
    return age(std::chrono::floor<milliseconds>(now) - std::chrono::floor<milliseconds>(*born));
}

std::string resource_name(const informer::api_resource& r, const object& o) {
    std::string kind = r.singular.empty() ? r.kind : r.singular;
    std::transform(kind.begin(), kind.end(), kind.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (!r.group.empty()) kind += "." + r.group;
    return visible(kind + "/" + o.meta().name().str());
}

std::string labels(const object& o) {
    std::string s;
    for (const auto m : o.meta().labels().members()) {
        if (!s.empty()) s += ',';
        s += m.key;
        s += '=';
        s += m.value.string_or_empty();
    }
    return s.empty() ? "<none>" : s;
}

std::string glance(const object& o) {
    if (o.meta().deletion_time()) return "Terminating";
    const value status = o["status"];
    // A container that waits or ended says more than the pod's phase.
    for (const value c : status["containerStatuses"]) {
        const auto waiting = c.at_pointer("/state/waiting/reason").string_or_empty();
        if (!waiting.empty()) return waiting.str();
    }
    const auto phase = status["phase"].string_or_empty();
    if (!phase.empty()) return phase.str();
    const value wanted = o.at_pointer("/spec/replicas");
    if (wanted.is_number()) {
        return std::to_string(status["readyReplicas"].int64_or(0)) + "/" + wanted.number_text();
    }
    std::string last;
    for (const value c : status["conditions"]) {
        if (c["type"] == "Ready") return c["status"] == "True" ? "Ready" : "NotReady";
        if (c["status"] == "True") last = c["type"].string_or_empty().str();
    }
    return last;
}

namespace {

bool plain_is_safe(const std::string& s) {
    if (s.empty()) return false;
    for (const char c : s) {
        const auto u = static_cast<unsigned char>(c);
        if (u < 0x20 || u == 0x7f) return false;
    }
    static constexpr std::array words{"null",  "Null",  "NULL",  "~",     "true",  "True",  "TRUE",  "false",
                                      "False", "FALSE", "yes",   "Yes",   "YES",   "no",    "No",    "NO",
                                      "on",    "On",    "ON",    "off",   "Off",   "OFF",   "y",     "Y",
                                      "n",     "N",     "<<",    "=",     ".nan",  ".NaN",  ".NAN",  ".inf",
                                      ".Inf",  ".INF",  "-.inf", "-.Inf", "-.INF", "+.inf", "+.Inf", "+.INF"};
    if (std::find(words.begin(), words.end(), s) != words.end()) return false;
    if (s.starts_with("---") || s.starts_with("...")) return false; // at the start of a line these separate documents
    // Anything that begins like a number or a date is quoted: 1, -.5, 0x1f, 1e3, 12:30, 2026-01-01.
    std::string_view number = s;
    if (number.front() == '-' || number.front() == '+') number.remove_prefix(1);
    if (number.starts_with('.')) number.remove_prefix(1);
    if (!number.empty() && number.front() >= '0' && number.front() <= '9') return false;
    return true;
}

/// The code point at `i`; moves `i` past it. Objects hold valid UTF-8 only.
char32_t code_point(const std::string& s, std::size_t& i) {
    const auto next = [&] { return i < s.size() ? static_cast<unsigned char>(s[i++]) : 0u; };
    const unsigned lead = next();
    if (lead < 0x80) return lead;
    char32_t c = lead & (lead < 0xe0 ? 0x1f : lead < 0xf0 ? 0x0f : 0x07);
    for (int more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3; more > 0; --more) c = c << 6 | (next() & 0x3f);
    return c;
}

/// Line breaks of YAML 1.1 (NEL, LS, PS), which would end a plain scalar, the other control characters from U+007F to
/// U+009F, the byte order mark, and noncharacters, for which yaml-cpp writes U+FFFD in quotes.
bool needs_escape(char32_t c) {
    return (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff || (c >= 0xfdd0 && c < 0xfdf0) ||
           (c & 0xfffe) == 0xfffe;
}

bool needs_escapes(const std::string& s) {
    for (std::size_t i = 0; i < s.size();)
        if (needs_escape(code_point(s, i))) return true;
    return false;
}

std::string escape(char32_t c) {
    static constexpr char digits[] = "0123456789ABCDEF";
    std::string out = c > 0xffff ? "\\U" : "\\u";
    for (int shift = c > 0xffff ? 28 : 12; shift >= 0; shift -= 4) out += digits[c >> shift & 15];
    return out;
}

std::string with_escapes(const std::string& s) {
    std::string out = "\"";
    for (std::size_t i = 0; i < s.size();) {
        const std::size_t begin = i;
        const char32_t c = code_point(s, i);
        if (c == '"' || c == '\\')
            out += {'\\', static_cast<char>(c)};
        else if (c == '\n')
            out += "\\n";
        else if (c == '\t')
            out += "\\t";
        else if (c == '\r')
            out += "\\r";
        else if (c < 0x20 || needs_escape(c))
            out += escape(c);
        else
            out.append(s, begin, i - begin);
    }
    return out + '"';
}

/// A scalar that is written as it is: yaml-cpp prints it with `operator<<`.
struct scalar_text {
    std::string text;
    friend std::ostream& operator<<(std::ostream& to, const scalar_text& s) { return to << s.text; }
};

void emit_string(YAML::Emitter& out, const std::string& s) {
    if (needs_escapes(s)) {
        constexpr std::size_t longest_key = 1024; // of keys without "? "
        if (s.size() > longest_key) out << YAML::LongKey;
        out.WriteIntegralType(scalar_text{with_escapes(s)});
        return;
    }
    if (!plain_is_safe(s)) out << YAML::DoubleQuoted;
    out << s;
}

void emit(YAML::Emitter& out, const value& v) {
    switch (v.kind()) {
    case value_kind::object:
        if (v.empty()) {
            out << YAML::Flow << YAML::BeginMap << YAML::EndMap;
            return;
        }
        out << YAML::BeginMap;
        for (const auto m : v.members()) {
            out << YAML::Key;
            emit_string(out, m.key.str());
            out << YAML::Value;
            emit(out, m.value);
        }
        out << YAML::EndMap;
        return;
    case value_kind::array:
        if (v.empty()) {
            out << YAML::Flow << YAML::BeginSeq << YAML::EndSeq;
            return;
        }
        out << YAML::BeginSeq;
        for (const value e : v) emit(out, e);
        out << YAML::EndSeq;
        return;
    case value_kind::string: emit_string(out, v.as_string().str()); return;
    case value_kind::boolean: out << v.as_bool(); return;
    case value_kind::null:
    case value_kind::missing: out << YAML::Null; return;
    default: out << v.number_text(); return;
    }
}

// "/spec/containers/0/image" -> ".spec.containers[0].image"; keys that are no plain words are quoted.
std::string field_path(std::string_view pointer, const object& in) {
    std::string out;
    value at = in.value();
    while (!pointer.empty()) {
        pointer.remove_prefix(1);
        const auto end = std::min(pointer.find('/'), pointer.size());
        std::string token;
        for (std::size_t i = 0; i < end; ++i) {
            if (pointer[i] == '~' && i + 1 < end)
                token += pointer[++i] == '1' ? '/' : '~';
            else
                token += pointer[i];
        }
        pointer.remove_prefix(end);
        if (at.is_array()) {
            out += "[" + token + "]";
            at = at[static_cast<std::size_t>(std::strtoull(token.c_str(), nullptr, 10))];
            continue;
        }
        at = at[token];
        const bool word = !token.empty() && std::all_of(token.begin(), token.end(), [](unsigned char c) {
            return std::isalnum(c) || c == '_' || c == '-';
        });
        out += word ? "." + token : "['" + token + "']";
    }
    return out;
}

std::string cut_to(std::string s, std::size_t most) {
    for (char& c : s)
        if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    if (s.size() > most) {
        std::size_t cut = most;
        while (cut > 0 && (static_cast<unsigned char>(s[cut]) & 0xC0) == 0x80) --cut; // not inside a character
        s = s.substr(0, cut) + "… (" + std::to_string(s.size()) + " bytes)";
    }
    return s.empty() ? "\"\"" : s;
}

std::string in_one_line(const value& v, std::size_t most) {
    return cut_to(v.is_string() ? v.as_string().str() : v.to_json(), most);
}

std::string short_json(const value& v) {
    return v.exists() ? in_one_line(v, 160) : "(none)";
}

} // namespace

std::string yaml(const value& v) {
    YAML::Emitter out;
    out.SetIndent(2);
    emit(out, v);
    return std::string(out.c_str(), out.size()) + "\n";
}

std::string diff_lines(const object& before, const object& after) {
    std::string out;
    for (const auto& c : informer::diff(before, after)) {
        if (c.pointer == "/metadata/resourceVersion") continue;
        const auto field = field_path(c.pointer, c.after.exists() ? after : before);
        out += "    " + visible(field + ": " + short_json(c.before) + " → " + short_json(c.after)) + "\n";
    }
    return out;
}

std::string plain_value(const object& o, std::size_t most) {
    std::string all;
    std::size_t members = 0;
    for (const auto m : o.value().members()) {
        if (m.key == "apiVersion" || m.key == "kind" || m.key == "metadata") continue;
        all += members++ == 0 ? "{\"" : ",\"";
        all += m.key.str() + "\":"; // not escaped: for people to look at; -o json is for programs
        m.value.to_json(all);
    }
    if (const value only = o["value"]; members == 1 && only.exists()) return in_one_line(only, most);
    return cut_to(members == 0 ? "{}" : all + "}", most);
}

namespace {

/// In code points.
std::size_t width(const std::string& s) {
    return static_cast<std::size_t>(
        std::count_if(s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

} // namespace

table::table(std::vector<std::string> header, bool show_header) {
    if (show_header) rows_.push_back(std::move(header));
}

void table::row(std::vector<std::string> cells) {
    for (auto& c : cells) c = visible(c);
    rows_.push_back(std::move(cells));
}

void table::print(const std::function<bool(std::string_view)>& to) const {
    std::vector<std::size_t> widths;
    for (const auto& r : rows_) {
        widths.resize(std::max(widths.size(), r.size()));
        for (std::size_t i = 0; i < r.size(); ++i) widths[i] = std::max(widths[i], width(r[i]));
    }
    std::string line;
    for (const auto& r : rows_) {
        line.clear();
        for (std::size_t i = 0; i < r.size(); ++i) {
            line += r[i];
            if (i + 1 < r.size()) line.append(widths[i] - width(r[i]) + 3, ' ');
        }
        while (!line.empty() && line.back() == ' ') line.pop_back();
        line += '\n';
        if (!to(line)) return;
    }
}

} // namespace informerctl
