#include "selection.hpp"

#include "refusal.hpp"

namespace informer::testing::detail {

selection::selection(const resource_type& type, std::string name_space, std::string_view labels,
                     std::string_view fields)
    : name_space_(std::move(name_space)) {
    failure f;
    labels_ = label_selector::parse(labels, f);
    if (f) throw bad_request("unable to parse the label selector \"" + std::string(labels) + "\": " + f.what());
    const auto parsed = field_selector::parse(fields, f);
    if (f) throw bad_request("unable to parse the field selector \"" + std::string(fields) + "\": " + f.what());
    for (const auto& r : parsed.requirements()) {
        term t;
        t.equal = r.equal;
        t.value = r.value;
        if (r.path == "metadata.name") {
            t.field = name_field;
        } else if (r.path == "metadata.namespace") {
            t.field = namespace_field;
        } else {
            const auto& known = type.rows->selectable;
            std::size_t i = 0;
            while (i < known.size() && known[i].label != r.path) ++i;
            if (i == known.size()) {
                throw bad_request("field label not supported: " + r.path + " (" + type.api.kind + ")");
            }
            t.field = static_cast<int>(i);
        }
        fields_.push_back(std::move(t));
    }
}

bool selection::matches(const stored_object& o) const {
    if (!name_space_.empty() && o.name_space != name_space_) return false;
    static const std::string nothing;
    for (const auto& t : fields_) {
        const auto index = static_cast<std::size_t>(t.field);
        const std::string& value = t.field == name_field        ? o.name
                                   : t.field == namespace_field ? o.name_space
                                   : index < o.fields.size()    ? o.fields[index]
                                                                : nothing;
        if ((value == t.value) != t.equal) return false;
    }
    if (labels_.everything()) return true;
    return labels_.matches([&o](std::string_view key) -> std::optional<std::string> {
        for (const auto& [k, v] : o.labels) {
            if (k == key) return v;
        }
        return std::nullopt;
    });
}

} // namespace informer::testing::detail
