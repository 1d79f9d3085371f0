#include <informer/object/framer.hpp>

#include "framing.hpp"

#include <algorithm>
#include <utility>

namespace informer {

struct watch_framer::impl {
    enum class state { idle, first_member, member, key, colon, value, in_value, after_value };
    enum class role { other, type, object };

    explicit impl(std::size_t limit) : max_object(limit) {}
    /// Inside a token, where white space must not be skipped.
    bool inside() const noexcept { return at == state::key || at == state::in_value; }

    std::size_t max_object;
    /// marked at the event's first byte or, if the event is skipped, at the token that is kept
    detail::framing_window text;
    detail::value_scanner scanner;
    state at = state::idle;
    role member = role::other;
    failure failed;

    std::size_t event_start = 0; ///< offsets in the stream
    std::size_t token_start = 0;
    std::size_t object_start = 0;
    std::size_t object_size = 0;
    bool skipping = false;
    bool oversized = false;
    std::string beginning; ///< of the object, in an event over the limit
    std::string type;
    std::string_view object;
    std::size_t events = 0;

    bool writes_lines = false;     ///< the server writes an event as one line, as far as is known
    std::size_t line_searched = 0; ///< offset up to which the end of the line was not found
    std::size_t line_start = 0;    ///< offset of the last line that was cut as a whole
    bool unproven = false;
    bool by_braces = false; ///< the current event is cut by its braces, not as a line

    char last_byte = 0;      ///< the last one of the token that is no white space
    bool line_begun = false; ///< there was only white space since a line feed outside of strings

    void fail(failure f) { failed = std::move(f); }
    void expected(std::string_view what) { fail(detail::framing_error("watch", text.offset(), what)); }

    bool next(failure& f);
    enum class line { none, unfinished, cut };
    line cut_line();
    void step(bool& have_event);
    bool check_size();
    bool begin_token(char first);
    std::string_view scan();
    void check_lines(detail::value_scanner before, std::string_view scanned);
    void scan_key();
    void scan_value();
    void end_event(bool& have_event);
};

bool watch_framer::impl::next(failure& f) {
    text.turn_to_lent();
    while (at == state::idle && !by_braces && !failed && text.skip_space()) {
        const line found = cut_line();
        if (found == line::cut) return true;
        if (found == line::none) break;
        if (text.more()) continue;
        // the event may be complete, and nothing may follow for long
        if (!writes_lines || detail::ends_with_brace(text.rest())) break;
        text.keep();
        return false;
    }
    return detail::advance(*this, f);
}

/// Cuts an event that is one line, as API servers write it, if the whole line is there.
watch_framer::impl::line watch_framer::impl::cut_line() {
    using namespace std::string_view_literals;
    static constexpr std::string_view head = R"({"type":")", middle = R"(","object":{)";
    const std::string_view all = text.rest();
    std::string_view rest = all;
    if (!rest.starts_with(head)) return line::none;
    rest.remove_prefix(head.size());
    std::string_view what;
    for (const std::string_view one : {"MODIFIED"sv, "ADDED"sv, "DELETED"sv})
        if (rest.starts_with(one)) what = one;
    rest.remove_prefix(what.size());
    if (what.empty() || !rest.starts_with(middle)) return line::none;
    rest.remove_prefix(middle.size() - 1);
    const std::size_t begin = text.offset(), end = all.find('\n', std::max(line_searched, begin) - begin);
    if (std::min(end, all.size()) > std::min(max_object, detail::large_text)) return line::none;
    line_searched = begin + std::min(end, all.size());
    if (end == std::string_view::npos) return line::unfinished;
    if (!all.substr(0, end).ends_with("}}")) return line::none;
    type = what;
    object = all.substr(0, end - 1).substr(all.size() - rest.size());
    line_start = begin;
    text.take(end + 1);
    unproven = writes_lines = true;
    ++events;
    return line::cut;
}

void watch_framer::impl::step(bool& have_event) {
    const char c = text.front();
    switch (at) {
    case state::idle:
        if (c != '{') return expected("'{'");
        event_start = text.offset();
        text.mark();
        text.take();
        skipping = false;
        object_size = 0;
        beginning.clear();
        type.clear();
        at = state::first_member;
        return;
    case state::first_member:
    case state::member:
        if (c == '}' && at == state::first_member) {
            text.take();
            return end_event(have_event);
        }
        if (c != '"') return expected(at == state::member ? "a key" : "a key or '}'");
        token_start = text.offset();
        if (skipping) text.mark();
        begin_token(c);
        at = state::key;
        return scan_key();
    case state::key: return scan_key();
    case state::colon:
        if (c != ':') return expected("':'");
        text.take();
        at = state::value;
        return;
    case state::value:
        if (!begin_token(c)) return expected("a value");
        token_start = text.offset();
        if (member == role::object) {
            object_start = token_start;
            object_size = 0;
            beginning.clear();
        }
        if (skipping && member == role::type) text.mark();
        at = state::in_value;
        return scan_value();
    case state::in_value: return scan_value();
    case state::after_value: break;
    }
    if (c != ',' && c != '}') return expected("',' or '}'");
    text.take();
    if (c == '}') return end_event(have_event);
    at = state::member;
}

// Past the limit only the current key or type is kept, and the beginning of the object.
bool watch_framer::impl::check_size() {
    if (at == state::idle) return true;
    const bool keeps_token = at == state::key || (at == state::in_value && member == role::type);
    if (!skipping && text.offset() - event_start > max_object) {
        skipping = true;
        if (at == state::in_value && member == role::object) object_size = text.offset() - object_start;
        if (object_size != 0) beginning = text.at_offset(object_start, std::min(object_size, detail::oversize_prefix));
        if (keeps_token)
            text.mark_offset(token_start);
        else
            text.unmark();
    }
    if (!skipping || !keeps_token || text.offset() - token_start <= detail::oversize_prefix) return true;
    fail(detail::over_limit("watch: a key or type is", detail::oversize_prefix));
    return false;
}

bool watch_framer::impl::begin_token(char first) {
    last_byte = 0;
    line_begun = false;
    return scanner.begin(first);
}

/// Scans on. If an event lacks a quote or a bracket, the next events become part of it. Counting brackets does not
/// reveal that; the line feeds between the events do.
std::string_view watch_framer::impl::scan() {
    const detail::value_scanner before = scanner;
    const std::string_view scanned = text.scan(scanner);
    if (line_begun || scanned.find('\n') != scanned.npos) check_lines(before, scanned);
    const auto last = scanned.find_last_not_of(" \t\r\n");
    if (last != scanned.npos) last_byte = scanned[last];
    return scanned;
}

/// Refuses a line feed in a string, and a '{' at the beginning of a line that does not follow a ':', ',' or '['.
void watch_framer::impl::check_lines(detail::value_scanner s, std::string_view scanned) {
    const auto wrong = [&](const char* where, std::string_view what) {
        const auto behind = static_cast<std::size_t>(scanned.data() + scanned.size() - where);
        fail(detail::framing_error("watch", text.offset() - behind, what));
    };
    char last = last_byte;
    for (std::string_view rest = scanned; !rest.empty();) {
        const std::string_view one = rest.substr(0, std::min(rest.find('\n'), rest.size() - 1) + 1);
        rest.remove_prefix(one.size());
        // First the beginning of the line, which may arrive before the rest of it.
        const auto first = one.find_first_not_of(" \t\r\n");
        if (first != one.npos) {
            const bool follows = last == ':' || last == ',' || last == '[';
            if (line_begun && one[first] == '{' && !follows) return wrong(&one[first], "the end of the event before");
            last = one[one.find_last_not_of(" \t\r\n")];
            line_begun = false;
        }
        s.scan(one.data(), one.data() + one.size());
        if (one.back() == '\n' && s.in_string()) return wrong(&one.back(), "the end of a string");
        if (one.back() == '\n') line_begun = true;
    }
}

void watch_framer::impl::scan_key() {
    scan();
    if (failed || !check_size()) return;
    if (!scanner.complete()) return;
    const std::string_view key = text.since(token_start);
    if (detail::says(key, "type"))
        member = role::type;
    else
        member = detail::says(key, "object") ? role::object : role::other;
    if (skipping) text.unmark();
    at = state::colon;
}

void watch_framer::impl::scan_value() {
    const std::string_view scanned = scan();
    if (failed) return;
    if (scanner.bad()) return expected("the end of a value");
    if (skipping && member == role::object) detail::append_up_to(beginning, scanned, detail::oversize_prefix);
    if (!check_size()) return;
    if (!scanner.complete()) return;
    if (member == role::type) type = detail::unescape(text.since(token_start)).value_or("");
    if (member == role::object) object_size = text.offset() - object_start;
    if (skipping) text.unmark();
    at = state::after_value;
}

void watch_framer::impl::end_event(bool& have_event) {
    if (!check_size()) return;
    oversized = skipping;
    if (skipping)
        object = beginning;
    else
        object = object_size == 0 ? std::string_view() : text.at_offset(object_start, object_size);
    text.unmark();
    ++events;
    have_event = true;
    by_braces = false;
    at = state::idle;
}

watch_framer::watch_framer(std::size_t max_object) : impl_(std::make_unique<impl>(max_object)) {}
watch_framer::~watch_framer() = default;
watch_framer::watch_framer(watch_framer&&) noexcept = default;
watch_framer& watch_framer::operator=(watch_framer&&) noexcept = default;

void watch_framer::feed(std::string_view bytes) {
    impl_->object = {};
    if (!impl_->failed) detail::or_fail(*impl_, [&] { impl_->text.feed(bytes); });
}

void watch_framer::lend(std::string_view bytes) {
    impl_->object = {};
    if (!impl_->failed) detail::or_fail(*impl_, [&] { impl_->text.lend(bytes); });
}

bool watch_framer::next(failure& f) {
    if (f) f = failure();
    impl_->object = {};
    impl_->oversized = impl_->unproven = false;
    return detail::or_fail(*impl_, [&] { return impl_->next(f); });
}

bool watch_framer::unproven() const noexcept {
    return impl_->unproven;
}

void watch_framer::look_again() {
    impl& s = *impl_;
    s.object = {};
    s.unproven = s.writes_lines = false;
    --s.events;
    s.text.go_back(s.line_start);
    s.by_braces = true;
}

std::string_view watch_framer::type() const noexcept {
    return impl_->type;
}
std::string_view watch_framer::object() const noexcept {
    return impl_->object;
}
bool watch_framer::oversized() const noexcept {
    return impl_->oversized;
}
bool watch_framer::idle() const noexcept {
    return impl_->at == impl::state::idle && impl_->text.empty() && !impl_->failed;
}
std::size_t watch_framer::position() const noexcept {
    return impl_->events == 0 ? 0 : impl_->events - 1;
}

} // namespace informer
