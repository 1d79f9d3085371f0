#include "identifiers.hpp"

#include <algorithm>
#include <array>

namespace informerctl {
namespace {

// By the ASCII alone: the locale has no say in what a name of C++ is.
bool is_upper(char c) {
    return c >= 'A' && c <= 'Z';
}
bool is_lower(char c) {
    return c >= 'a' && c <= 'z';
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
char lower(char c) {
    return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_keyword(std::string_view s) {
    static constexpr std::array<std::string_view, 100> keywords{"alignas",
                                                                "alignof",
                                                                "and",
                                                                "and_eq",
                                                                "asm",
                                                                "atomic_cancel",
                                                                "atomic_commit",
                                                                "atomic_noexcept",
                                                                "auto",
                                                                "bitand",
                                                                "bitor",
                                                                "bool",
                                                                "break",
                                                                "case",
                                                                "catch",
                                                                "char",
                                                                "char16_t",
                                                                "char32_t",
                                                                "char8_t",
                                                                "class",
                                                                "co_await",
                                                                "co_return",
                                                                "co_yield",
                                                                "compl",
                                                                "concept",
                                                                "const",
                                                                "const_cast",
                                                                "consteval",
                                                                "constexpr",
                                                                "constinit",
                                                                "continue",
                                                                "contract_assert",
                                                                "decltype",
                                                                "default",
                                                                "delete",
                                                                "do",
                                                                "double",
                                                                "dynamic_cast",
                                                                "else",
                                                                "enum",
                                                                "explicit",
                                                                "export",
                                                                "extern",
                                                                "false",
                                                                "float",
                                                                "for",
                                                                "friend",
                                                                "goto",
                                                                "if",
                                                                "inline",
                                                                "int",
                                                                "linux",
                                                                "long",
                                                                "mutable",
                                                                "namespace",
                                                                "new",
                                                                "noexcept",
                                                                "not",
                                                                "not_eq",
                                                                "nullptr",
                                                                "operator",
                                                                "or",
                                                                "or_eq",
                                                                "private",
                                                                "protected",
                                                                "public",
                                                                "reflexpr",
                                                                "register",
                                                                "reinterpret_cast",
                                                                "requires",
                                                                "return",
                                                                "short",
                                                                "signed",
                                                                "sizeof",
                                                                "static",
                                                                "static_assert",
                                                                "static_cast",
                                                                "std",
                                                                "struct",
                                                                "switch",
                                                                "synchronized",
                                                                "template",
                                                                "this",
                                                                "thread_local",
                                                                "throw",
                                                                "true",
                                                                "try",
                                                                "typedef",
                                                                "typeid",
                                                                "typename",
                                                                "union",
                                                                "unix",
                                                                "unsigned",
                                                                "using",
                                                                "virtual",
                                                                "void",
                                                                "volatile",
                                                                "wchar_t",
                                                                "while",
                                                                "xor"}; // "linux" and "unix": macros of g++
    return s == "xor_eq" || std::find(keywords.begin(), keywords.end(), s) != keywords.end();
}

bool is_identifier(std::string_view s) {
    return !s.empty() && !is_digit(s.front()) && std::all_of(s.begin(), s.end(), [](char c) {
        return is_upper(c) || is_lower(c) || is_digit(c) || c == '_';
    });
}

} // namespace

std::string member_identifier(std::string_view name) {
    if (!is_identifier(name)) return {};
    std::string to;
    for (std::size_t i = 0; i < name.size(); ++i) {
        const char c = name[i];
        if (c == '_' && i > 0) {
            to += "__"; // read back as one
        } else if (!is_upper(c) || i == 0 || is_upper(name[i - 1]) || name[i - 1] == '_') {
            to += c;
        } else {
            // A capital that stands alone comes back from a small letter; of several, each stays as it is.
            const bool alone = i + 1 == name.size() || !is_upper(name[i + 1]);
            (to += '_') += alone ? lower(c) : c;
        }
    }
    return is_keyword(to) ? to + '_' : to;
}

std::string type_identifier(std::string_view name) {
    std::string to;
    for (std::size_t i = 0; i < name.size(); ++i) {
        const char c = name[i];
        if (!is_upper(c) && !is_lower(c) && !is_digit(c)) {
            if (!to.empty() && to.back() != '_') to += '_';
            continue;
        }
        const bool begins_word =
            is_upper(c) && i > 0 && (!is_upper(name[i - 1]) || (i + 1 < name.size() && is_lower(name[i + 1])));
        if (begins_word && !to.empty() && to.back() != '_') to += '_';
        to += lower(c);
    }
    if (to.empty() || is_digit(to.front())) to.insert(0, "type_");
    return is_keyword(to) ? to + '_' : to;
}

bool is_namespace(std::string_view text) {
    for (;;) {
        const std::size_t end = text.find("::");
        const std::string_view part = text.substr(0, end);
        if (!is_identifier(part) || is_keyword(part)) return false;
        if (end == std::string_view::npos) return true;
        text.remove_prefix(end + 2);
    }
}

} // namespace informerctl
