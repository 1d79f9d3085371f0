#include <informer/object/framer.hpp>

#include "framing.hpp"

#include <algorithm>
#include <utility>

namespace informer {

struct list_framer::impl {
    enum class state {
        start,        // before the first brace
        first_member, // a key or the last brace
        member,       // a key
        key,          // inside a key
        colon,
        value,       // before a value
        in_value,    // inside a value of the envelope
        after_value, // a comma or the last brace
        first_item,  // an item or the closing bracket
        item,        // an item
        in_item,
        after_item, // a comma or the closing bracket
        done,
    };

    explicit impl(std::size_t limit) : max_object(limit) {}
    /// Inside a token, where white space must not be skipped.
    bool inside() const noexcept { return at == state::key || at == state::in_value || at == state::in_item; }

    std::size_t max_object;
    detail::framing_window text;
    detail::value_scanner scanner;
    state at = state::start;
    std::string envelope;
    bool items_member = false;
    bool has_items = false;
    std::size_t value_start = 0; ///< offset in the stream; the member itself starts at the mark
    failure failed;

    std::string_view item;
    std::string beginning; ///< of an item over the limit
    bool skipping = false;
    bool oversized = false;
    std::size_t items = 0;

    bool guesses = false;
    bool unproven = false;
    bool by_braces = false;       ///< the current item is cut by its braces, without a guess
    std::string separator;        ///< "}," and how the last item that was cut by its braces began
    std::size_t searched = 0;     ///< offset up to which no separator was found
    std::size_t guessed_from = 0; ///< offset of the last item that was cut by a guess
    std::size_t wasted = 0;       ///< bytes in which guessing found nothing, or the wrong thing

    void fail(failure f) { failed = std::move(f); }
    void expected(std::string_view what) { fail(detail::framing_error("list", text.offset(), what)); }

    bool next(failure& f);
    enum class guessed { nothing, unfinished, cut };
    guessed cut_item();
    void learn_separator();
    void step(bool& have_item);
    bool begin_value(state inside);
    void scan_key();
    void scan_member_value();
    void scan_item(bool& have_item);
    /// False on error: a member of the envelope is too large.
    bool check_size() {
        const bool in_member = at == state::key || at == state::colon || at == state::value || at == state::in_value;
        const std::size_t limit = std::min(max_object, detail::largest_envelope);
        if (!in_member || envelope.size() + text.since_mark().size() <= limit) return true;
        fail(detail::over_limit("list: the envelope is", limit));
        return false;
    }
    void keep_member();
};

bool list_framer::impl::next(failure& f) {
    text.turn_to_lent();
    while (!by_braces && !failed && !separator.empty()) {
        if (at == state::after_item && text.skip_space() && text.front() == ',') {
            text.take();
            at = state::item;
        }
        // So a text made to mislead costs a quarter more time, not quadratic time.
        if (at != state::item || !text.skip_space() || wasted > text.offset() / 4) break;
        const guessed found = cut_item();
        if (found == guessed::cut) return true;
        if (found == guessed::unfinished) {
            if (text.more()) continue;
            if (!detail::ends_with_brace(text.rest(), ",]")) { // if it does, an item or the list may end here
                text.keep();
                return false;
            }
        }
        wasted += std::max(searched, text.offset()) - text.offset();
        break;
    }
    return detail::advance(*this, f);
}

/// Cuts an item if the beginning of a similar one follows it.
list_framer::impl::guessed list_framer::impl::cut_item() {
    const std::string_view all = text.rest();
    if (!all.starts_with(std::string_view(separator).substr(2))) return guessed::nothing;
    const std::size_t begin = text.offset(), limit = std::min(max_object, detail::large_text);
    const char* const end = all.data() + std::min(all.size(), limit);
    const char* p = all.data() + (std::max(searched, begin) - begin);
    while ((p = detail::find_between_objects(p, end)) != end && !std::string_view(p, end).starts_with(separator)) ++p;
    if (p == end) {
        const auto seen = static_cast<std::size_t>(end - all.data());
        searched = begin + seen - std::min(seen, separator.size());
        return all.size() < limit ? guessed::unfinished : guessed::nothing;
    }
    item = all.substr(0, static_cast<std::size_t>(p - all.data()) + 1);
    guessed_from = begin;
    text.take(item.size() + 1); // and the comma
    unproven = true;
    ++items;
    return guessed::cut;
}

/// Called after an item was cut by its braces. The items of a list are taken to have in common all that comes before
/// the first value that is no string: {"metadata": or {"apiVersion":"example.com/v1","kind":"Thing","metadata":
void list_framer::impl::learn_separator() {
    static constexpr std::size_t longest = 160;
    const std::string_view head = item.substr(0, longest);
    std::size_t end = head.find("\":");
    while (end != head.npos && item.substr(end + 2).starts_with('"')) end = head.find("\":", end + 2);
    searched = 0;
    separator.clear();
    if (item.starts_with("{\"") && end != head.npos) separator.append("},").append(head, 0, end + 2);
}

// One transition; the text has at least one byte.
void list_framer::impl::step(bool& have_item) {
    const char c = text.front();
    switch (at) {
    case state::start:
        if (c != '{') return expected("'{'");
        text.take();
        envelope = "{";
        at = state::first_member;
        return;
    case state::first_member:
    case state::member:
        if (c == '}' && at == state::first_member) {
            text.take();
            envelope += '}';
            at = state::done;
            return;
        }
        if (c != '"') return expected(at == state::member ? "a key" : "a key or '}'");
        text.mark();
        scanner.begin(c);
        at = state::key;
        return scan_key();
    case state::key: return scan_key();
    case state::colon:
        if (!check_size()) return; // as `advance` does where the bytes end here
        if (c != ':') return expected("':'");
        text.take();
        at = state::value;
        return;
    case state::value:
        if (!check_size()) return;
        if (items_member && c == '[') {
            text.take();
            text.unmark();
            has_items = true;
            at = state::first_item;
            return;
        }
        if (!begin_value(state::in_value)) return;
        return scan_member_value();
    case state::in_value: return scan_member_value();
    case state::after_value:
        if (c != ',' && c != '}') return expected("',' or '}'");
        text.take();
        if (c == '}') envelope += '}';
        at = c == ',' ? state::member : state::done;
        return;
    case state::first_item:
        if (c == ']') {
            text.take();
            at = state::after_value;
            return;
        }
        [[fallthrough]];
    case state::item:
        if (!begin_value(state::in_item)) return;
        text.mark();
        return scan_item(have_item);
    case state::in_item: return scan_item(have_item);
    case state::after_item:
        if (c != ',' && c != ']') return expected("',' or ']'");
        text.take();
        at = c == ',' ? state::item : state::after_value;
        return;
    case state::done: break;
    }
    return expected("nothing more");
}

bool list_framer::impl::begin_value(state inside) {
    if (!scanner.begin(text.front())) {
        expected("a value");
        return false;
    }
    value_start = text.offset();
    at = inside;
    return true;
}

void list_framer::impl::scan_key() {
    text.scan(scanner);
    if (!scanner.complete()) return;
    items_member = detail::says(text.since_mark(), "items");
    at = state::colon;
}

void list_framer::impl::scan_member_value() {
    text.scan(scanner);
    if (!check_size()) return;
    if (scanner.bad()) return expected("the end of a value");
    if (!scanner.complete()) return;
    keep_member();
    text.unmark();
    at = state::after_value;
}

void list_framer::impl::keep_member() {
    const std::string_view member = text.since_mark();
    // Go writes a nil slice without omitempty as null.
    if (items_member && text.since(value_start) == "null") {
        has_items = true;
        return;
    }
    if (envelope.size() > 1) envelope += ',';
    envelope += member;
}

void list_framer::impl::scan_item(bool& have_item) {
    const std::string_view scanned = text.scan(scanner);
    if (scanner.bad()) return expected("the end of an item");
    if (skipping) {
        detail::append_up_to(beginning, scanned, detail::oversize_prefix);
    } else if (text.since_mark().size() > max_object) {
        skipping = true;
        beginning = text.since_mark().substr(0, detail::oversize_prefix);
        text.unmark();
    }
    if (!scanner.complete()) return;
    oversized = skipping;
    item = skipping ? std::string_view(beginning) : text.since_mark();
    text.unmark();
    skipping = by_braces = false;
    ++items;
    have_item = true;
    at = state::after_item;
    if (guesses) learn_separator();
}

list_framer::list_framer(std::size_t max_object) : impl_(std::make_unique<impl>(max_object)) {}
list_framer::~list_framer() = default;
list_framer::list_framer(list_framer&&) noexcept = default;
list_framer& list_framer::operator=(list_framer&&) noexcept = default;

void list_framer::feed(std::string_view bytes) {
    impl_->item = {};
    if (!impl_->failed) detail::or_fail(*impl_, [&] { impl_->text.feed(bytes); });
}

void list_framer::lend(std::string_view bytes) {
    impl_->item = {};
    if (!impl_->failed) detail::or_fail(*impl_, [&] { impl_->text.lend(bytes); });
}

bool list_framer::next(failure& f) {
    if (f) f = failure();
    impl_->item = {};
    impl_->oversized = impl_->unproven = false;
    return detail::or_fail(*impl_, [&] { return impl_->next(f); });
}

void list_framer::guess() noexcept {
    impl_->guesses = true;
}
bool list_framer::unproven() const noexcept {
    return impl_->unproven;
}

void list_framer::look_again() {
    impl& s = *impl_;
    s.wasted += s.item.size();
    s.item = {};
    s.unproven = false;
    --s.items;
    s.text.go_back(s.guessed_from);
    s.by_braces = true;
}

std::string_view list_framer::item() const noexcept {
    return impl_->item;
}
bool list_framer::oversized() const noexcept {
    return impl_->oversized;
}
std::size_t list_framer::position() const noexcept {
    return impl_->items == 0 ? 0 : impl_->items - 1;
}
bool list_framer::has_items() const noexcept {
    return impl_->has_items;
}
bool list_framer::done() const noexcept {
    return impl_->at == impl::state::done && !impl_->failed;
}
const std::string& list_framer::envelope() const noexcept {
    return impl_->envelope;
}

} // namespace informer
