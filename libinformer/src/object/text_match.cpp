#include "detail/json_tokens.hpp"
#include "detail/text_scan.hpp"
#include "detail/text_template.hpp"
#include "json_scan.hpp"

#include <algorithm>

namespace informer::detail {

namespace {

// A text that is rebuilt in many pieces, or for the most part, is better parsed as a whole.
constexpr std::uint32_t max_rebuilt = 8;
// So is a text that keeps hardly anything: one with so many changes, more than one in so many bytes. Twice as many
// changes end the comparison before the end of the text.
constexpr std::size_t many_changes = 32, bytes_a_change = 32;

class matcher {
public:
    matcher(const text_template& t, std::string_view text, bool rebuild, text_changes& changes)
        : template_(t), old_begin_(t.text.data()), old_end_(old_begin_ + t.text.size()), begin_(text.data()),
          end_(begin_ + text.size()), rebuild_(rebuild), changes_(changes) {}

    /// What the match has taken so far, in the units of the choice of templates.
    std::int64_t cost() const noexcept {
        return static_cast<std::int64_t>(32 + static_cast<std::size_t>(at_ - begin_) / 32 + rebuilt_bytes_ / 5 +
                                         12 * changes_.size());
    }

    /// Whether all changes are scalars, their strings plain. False also if any that was given up was not.
    bool simple() const noexcept { return simple_; }

    bool run() {
        for (;;) {
            const std::size_t n =
                common_prefix(old_, at_, static_cast<std::size_t>(std::min(old_end_ - old_, end_ - at_)));
            old_ += n;
            at_ += n;
            if (old_ == old_end_) return at_ == end_ && !is_dense(many_changes);
            const auto offset = static_cast<std::uint32_t>(old_ - old_begin_);
            if (!in_place(offset) && !rebuild(offset)) return false;
            if (is_dense(2 * many_changes)) return false;
        }
    }

private:
    bool is_dense(std::size_t from) const noexcept {
        return changes_.size() >= from && changes_.size() * bytes_a_change > static_cast<std::size_t>(at_ - begin_);
    }
    /// Takes a difference that lies in a place of the template (a scalar or an empty container): the value that
    /// stands there now becomes a change. False: it lies elsewhere, or that value cannot be such a change.
    bool in_place(std::uint32_t offset) {
        next_ = template_.place_at(next_, offset);
        const text_template::place& p = template_.places[next_];
        if (offset < p.begin) return false;
        const char* const from = at_ - (offset - p.begin);
        const char first = old_begin_[p.begin];
        if (first == '"' && from != end_ && *from == '"') [[likely]] { // a string for a string needs no checks
            if (const char* const to = plain_string_end(from + 1, end_)) [[likely]] {
                add(p, p.reach, from, to, text_change::kind::plain);
                return true;
            }
            bool plain = true;
            const char* const to = string_end(from + 1, end_, plain);
            if (!to) return false;
            simple_ = false;
            add(p, p.reach, from, to, text_change::kind::string);
            return true;
        }
        const bool bare = first != '"' && first != '{' && first != '[';
        text_change::kind what;
        const char* const to = cut(from, what);
        if (!to) return false;
        const bool scalar = what != text_change::kind::container;
        if (p.slot == text_template::is_key && (!scalar || what == text_change::kind::bare)) return false;
        const bool both_scalars = scalar && (bare || first == '"');
        if (!both_scalars && !rebuild_) return false;
        if (!scalar && (p.parent == text_template::none || !may_rebuild(from, to))) return false;
        simple_ = simple_ && scalar && what != text_change::kind::string;
        add(p, p.reach - (bare ? 1 : 0), from, to, what);
        return true;
    }
    /// Any other difference: the innermost container around it is read anew, or the next one if that was tried before.
    bool rebuild(std::uint32_t offset) {
        const std::uint32_t i = template_.container_at(offset);
        if (i == text_template::none || template_.containers[i].parent == text_template::none) return false;
        const text_template::container& o = template_.containers[i];
        // A projection decides by the path and by the kind of value, which is not possible here.
        if (o.slot != text_template::none && !rebuild_) return false;
        simple_ = false;
        while (!changes_.empty() && changes_.back().old_begin >= o.begin) changes_.pop();
        const char* const from =
            begin_ + o.begin +
            (changes_.empty() ? 0 : std::int64_t{changes_.back().end} - std::int64_t{changes_.back().old_end});
        text_change::kind what;
        const char* const to = cut(from, what);
        if (!to || !may_rebuild(from, to)) return false;
        add(o.begin, o.end, from, to, o.parent, o.slot, path_id(), what, false);
        next_ = o.last;
        return true;
    }
    /// Counts failed attempts as well.
    bool may_rebuild(const char* from, const char* to) noexcept {
        rebuilt_bytes_ += static_cast<std::size_t>(to - from);
        return ++rebuilt_ <= max_rebuilt && rebuilt_bytes_ <= static_cast<std::size_t>(end_ - begin_) / 2;
    }
    [[gnu::always_inline]] void add(const text_template::place& p, std::uint32_t old_end, const char* from,
                                    const char* to, text_change::kind what) {
        const bool stored = p.parent != text_template::none;
        add(p.begin, old_end, from, to, p.parent, stored ? p.slot : text_template::none, template_.records[next_], what,
            what != text_change::kind::container);
        ++next_;
    }
    [[gnu::always_inline]] void add(std::uint32_t old_begin, std::uint32_t old_end, const char* from, const char* to,
                                    std::uint32_t parent, std::uint32_t slot, path_id path, text_change::kind what,
                                    bool scalar) {
        changes_.need(1);
        changes_.push(static_cast<std::uint32_t>(from - begin_), static_cast<std::uint32_t>(to - begin_), old_begin,
                      old_end, parent, slot, path, what, scalar);
        old_ = old_begin_ + old_end;
        at_ = to;
    }
    /// The place behind the value at `from`, nullptr if there is none.
    const char* cut(const char* from, text_change::kind& what) const {
        if (from == end_) return nullptr;
        if (*from == '"') {
            bool plain = true;
            const char* const to = string_end(from + 1, end_, plain);
            what = plain ? text_change::kind::plain : text_change::kind::string;
            return to;
        }
        if (*from == '{' || *from == '[') {
            what = text_change::kind::container;
            value_scanner scanner;
            scanner.begin(*from);
            const char* const to = scanner.scan(from, end_);
            return scanner.complete() ? to : nullptr;
        }
        what = text_change::kind::bare;
        const char* const to = bare_end(from, end_);
        return to == from ? nullptr : to;
    }

    const text_template& template_;
    const char* const old_begin_;
    const char* const old_end_;
    const char* const begin_;
    const char* const end_;
    const bool rebuild_;
    text_changes& changes_;
    bool simple_ = true;
    const char* old_ = old_begin_;
    const char* at_ = begin_;
    std::size_t next_ = 0; ///< the first place not yet passed
    std::uint32_t rebuilt_ = 0;
    std::size_t rebuilt_bytes_ = 0;
};

} // namespace

bool match(const text_template& t, std::string_view text, bool rebuild, text_changes& changes, std::int64_t& cost,
           bool& simple) {
    changes.clear();
    if (text.size() > 0xffff'ffff) return false;
    matcher m(t, text, rebuild, changes);
    const bool found = m.run();
    cost += m.cost();
    simple = m.simple();
    return found;
}

} // namespace informer::detail
