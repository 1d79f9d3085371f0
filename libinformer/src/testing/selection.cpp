#include "selection.hpp"

#include "refusal.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <utility>

namespace informer::testing::detail {

namespace {

/// Parses "shardRange(object.metadata.uid, '0x…', '0x…') || …" as Kubernetes 1.36 does, without the other
/// spellings that CEL allows.
class shard_parser {
public:
    explicit shard_parser(std::string_view text) : whole_(text), rest_(text) {}

    shard_selector parse() {
        std::vector<shard_selector::range> ranges;
        std::string field;
        do {
            want("shardRange(");
            std::string this_field = word(",");
            if (this_field != "object.metadata.uid" && this_field != "object.metadata.namespace")
                refuse("unsupported field path \"" + this_field + '"');
            if (field.empty())
                field = std::move(this_field);
            else if (field != this_field)
                refuse("all ranges must be of one field");
            const std::uint64_t first = hash(false);
            want(",");
            const std::uint64_t last = hash(true);
            want(")");
            if (last < first) refuse("a range must begin before it ends");
            ranges.emplace_back(first, last);
        } while (take("||"));
        if (!rest_.empty()) refuse("text behind its end");
        return shard_selector::of(std::move(ranges),
                                  field.ends_with("uid") ? shard_selector::by::uid : shard_selector::by::name_space);
    }

private:
    [[noreturn]] void refuse(const std::string& why) const {
        // 500 as in 1.36, which reports a selector that it cannot parse as an internal error.
        throw refused(500, "", "invalid shard selector: " + why + " (" + std::string(whole_) + ')');
    }
    void skip() {
        while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
    }
    bool take(std::string_view what) {
        skip();
        if (!rest_.starts_with(what)) return false;
        rest_.remove_prefix(what.size());
        skip();
        return true;
    }
    void want(std::string_view what) {
        if (!take(what)) refuse("expected " + std::string(what));
    }
    std::string word(std::string_view end) {
        const auto at = std::min(rest_.find(end), rest_.size());
        std::string found(rest_.substr(0, at));
        rest_.remove_prefix(at);
        want(end);
        return found;
    }
    /// Reads sixteen digits. The end of a range is exclusive and may be 2^64; returns the last included value for it.
    std::uint64_t hash(bool end) {
        want("'0x");
        const std::string digits = word("'");
        if (end && digits == "10000000000000000") return std::numeric_limits<std::uint64_t>::max();
        std::uint64_t n = 0;
        const auto [stop, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), n, 16);
        const bool lower = std::none_of(digits.begin(), digits.end(), [](char c) { return c >= 'A' && c <= 'F'; });
        if (digits.size() != 16 || bad != std::errc() || stop != digits.data() + 16 || !lower)
            refuse("'0x" + digits + "' is no 16-digit hex value");
        if (end && n == 0) refuse("a range must begin before it ends");
        return end ? n - 1 : n;
    }

    std::string_view whole_, rest_;
};

} // namespace

selection::selection(const resource_type& type, std::string name_space, std::string_view labels,
                     std::string_view fields, std::string_view shard)
    : name_space_(std::move(name_space)) {
    if (!shard.empty()) shard_ = shard_parser(shard).parse();
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
    if (!shard_.contains(shard_.field() == shard_selector::by::uid ? o.uid : o.name_space)) return false;
    if (labels_.everything()) return true;
    return labels_.matches([&o](std::string_view key) -> std::optional<std::string> {
        for (const auto& [k, v] : o.labels) {
            if (k == key) return v;
        }
        return std::nullopt;
    });
}

} // namespace informer::testing::detail
