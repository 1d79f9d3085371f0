// The part of kubectl's jsonpath that needs no filters: fields, quoted keys, indexes, slices, [*], text.
#pragma once

#include <informer/object/object.hpp>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace informerctl {

/// One step of a path: `.name`, `[2]`, `[1:-1:2]`, `[*]`.
struct json_path_step {
    enum class kind { field, index, slice, all } what = kind::field;
    std::string name;
    std::optional<long> begin, end, stride; ///< of a slice; an index is `begin`
};

/// `{.metadata.name}`, `{.items[*].spec['nodeName']}`, `{.spec.containers[0].image}{"\n"}`; braces may be left out for
/// a single path. Several results are joined by a blank, a missing path gives nothing; an index that a list does not
/// have is an error. Text outside of braces is printed as it is; escapes such as `\n` work only in quoted text inside
/// of braces: `{"\n"}`.
class json_path {
public:
    /// Takes a part of the result. False: no more is wanted.
    using taker = std::function<bool(std::string_view)>;

    /// nullopt and the reason, with position, when the template is not valid.
    static std::optional<json_path> parse(std::string_view text, std::string& why);

    /// False and the reason, in kubectl's words, when a list has no such index. What is before that has been handed
    /// over.
    bool evaluate(const informer::object& o, const taker& to, std::string& why) const;
    /// As on the `List` that kubectl makes of several objects: paths begin at `.items`. Hands over item by item.
    bool evaluate(const std::vector<informer::object>& items, const taker& to, std::string& why) const;

private:
    using step = json_path_step;
    struct piece {
        std::string literal; ///< the text, if `is_path` is false
        std::vector<step> steps;
        bool is_path = false;
    };
    static bool parse_path(std::string_view text, std::size_t at, std::vector<step>& into, std::string& why);
    std::vector<piece> pieces_;
};

} // namespace informerctl
