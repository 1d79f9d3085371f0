// The part of kubectl's jsonpath that needs no filters: fields, quoted keys, indexes, [*], text.
#pragma once

#include <informer/object/object.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace informerctl {

/// `{.metadata.name}`, `{.items[*].spec['nodeName']}`, `{.spec.containers[0].image}{"\n"}`; braces may be left out for
/// a single path. Several results are joined by a blank, a missing path gives nothing. Text outside of braces is
/// printed as it is; escapes such as `\n` work only in quoted text inside of braces: `{"\n"}`.
class json_path {
public:
    /// nullopt and the reason, with position, when the template is not valid.
    static std::optional<json_path> parse(std::string_view text, std::string& why);

    std::string evaluate(const informer::object& o) const;
    /// As on the `List` that kubectl makes of several objects: paths begin at `.items`.
    std::string evaluate(const std::vector<informer::object>& items) const;

private:
    struct step {
        enum class kind { field, index, all } what = kind::field;
        std::string name;
        long index = 0;
    };
    struct piece {
        std::string literal; ///< the text, if `is_path` is false
        std::vector<step> steps;
        bool is_path = false;
    };
    static bool parse_path(std::string_view text, std::size_t at, std::vector<step>& into, std::string& why);
    std::vector<piece> pieces_;
};

} // namespace informerctl
