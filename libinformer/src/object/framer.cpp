#include <informer/object/framer.hpp>

#include "detail/growing_block.hpp"
#include "json_scan.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace informer {

namespace {

constexpr std::size_t none = ~std::size_t(0);
/// How much of an oversized item is kept to name it.
constexpr std::size_t oversize_prefix = std::size_t(64) << 10;
constexpr std::size_t small_buffer = std::size_t(1) << 20;
/// Moved without a second thought.
constexpr std::size_t little = std::size_t(64) << 10;
/// While a giant comes: double, but not from 64 MB to 128.
constexpr std::size_t most_growth = std::size_t(8) << 20;

/// The bytes that are not done with: [mark, …) is being cut, [at, …) is not scanned yet.
class window {
public:
    void feed(std::string_view bytes) {
        if (bytes.empty()) return;
        if (capacity_ - end_ < bytes.size()) drop_done();
        const std::size_t needed = end_ + bytes.size();
        if (capacity_ < needed) resize(std::max(needed, std::min(capacity_ * 2, capacity_ + most_growth)));
        std::memcpy(bytes_ + end_, bytes.data(), bytes.size());
        end_ = needed;
    }
    bool skip_space() noexcept {
        while (at_ < end_ && detail::is_space(bytes_[at_])) ++at_;
        return at_ < end_;
    }
    bool empty() const noexcept { return at_ == end_; }
    char front() const noexcept { return bytes_[at_]; }
    void take() noexcept { ++at_; }
    void mark() noexcept { mark_ = at_; }
    void mark_offset(std::size_t offset) noexcept { mark_ = offset - before_; }
    void unmark() noexcept { mark_ = none; }
    std::string_view since_mark() const noexcept { return between(mark_, at_); }
    std::size_t offset() const noexcept { return before_ + at_; }
    std::string_view since(std::size_t offset) const noexcept { return between(offset - before_, at_); }
    std::string_view at_offset(std::size_t offset, std::size_t size) const noexcept {
        return {bytes_ + (offset - before_), size};
    }
    /// Bytes that went by outside of here, between two values; or came back.
    void pass(std::size_t size) noexcept { before_ += size; }
    void take_back(std::size_t size) noexcept { before_ -= size; }
    /// Scans on; what was scanned.
    std::string_view scan(detail::value_scanner& s) noexcept {
        const std::size_t from = at_;
        const char* const data = bytes_;
        at_ = static_cast<std::size_t>(s.scan(data + from, data + end_) - data);
        return between(from, at_);
    }

private:
    std::string_view between(std::size_t from, std::size_t to) const noexcept {
        return {bytes_ + from, to - from};
    }

    /// Moves what is kept to the front where that keeps the total linear: it is little, or the smaller half.
    void drop_done() {
        const std::size_t keep = std::min(mark_, at_), kept = end_ - keep;
        if (kept > std::max(keep, little)) return;
        if (kept != 0 && keep != 0) std::memmove(bytes_, bytes_ + keep, kept);
        before_ += keep;
        at_ -= keep;
        end_ = kept;
        if (mark_ != none) mark_ -= keep;
        // After a giant, give its room back.
        if (capacity_ > small_buffer && kept < capacity_ / 8) resize(kept);
    }
    void resize(std::size_t capacity) {
        block_.resize(capacity);
        bytes_ = static_cast<char*>(block_.data());
        capacity_ = capacity;
    }

    detail::growing_block block_; ///< no long pause while a giant comes
    char* bytes_ = nullptr;       ///< in it
    std::size_t capacity_ = 0, end_ = 0;
    std::size_t at_ = 0;
    std::size_t mark_ = none;
    std::size_t before_ = 0; ///< bytes that were dropped
};

void append_up_to(std::string& to, std::string_view bytes, std::size_t limit) {
    if (to.size() < limit) to.append(bytes.substr(0, limit - to.size()));
}

failure syntax(const char* what, std::size_t offset, std::string_view expected) {
    std::string s(what);
    s.append(", byte ").append(std::to_string(offset)).append(": expected ").append(expected);
    return failure(errc::syntax_error, std::move(s));
}

failure over_limit(const char* what, std::size_t limit) {
    return failure(errc::too_large, std::string(what) + " over " + std::to_string(limit) + " bytes");
}

/// Steps until something whole is there; false when more bytes are needed, at the end, or on error.
template <typename Framer>
bool advance(Framer& s, failure& f) {
    bool whole = false;
    while (!s.failed && !whole) {
        if (s.inside() ? s.text.empty() : !s.text.skip_space()) return false;
        if (!s.step(whole)) break;
    }
    if (s.failed) f = s.failed;
    return whole;
}

} // namespace

// ---- lists ----

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
    /// Within a token, where white space counts.
    bool inside() const noexcept { return at == state::key || at == state::in_value || at == state::in_item; }

    std::size_t max_object;
    window text;
    detail::value_scanner scanner;
    state at = state::start;
    std::string envelope;
    bool items_member = false;
    std::size_t value_start = 0; ///< offset in the stream; the member itself starts at the mark
    failure failed;

    std::string_view item;
    std::string beginning; ///< of an item over the limit
    bool skipping = false;
    bool oversized = false;
    std::size_t items = 0;

    bool fail(failure f) {
        failed = std::move(f);
        return false;
    }
    bool expected(std::string_view what) { return fail(syntax("list", text.offset(), what)); }

    bool step(bool& have_item);
    bool begin_value(state inside);
    bool scan_key();
    bool scan_member_value();
    bool scan_item(bool& have_item);
    bool member_fits() const noexcept { return envelope.size() + text.since_mark().size() <= max_object; }
    void keep_member();
};

// One transition; the text has at least one byte. False on error.
bool list_framer::impl::step(bool& have_item) {
    const char c = text.front();
    switch (at) {
    case state::start:
        if (c != '{') return expected("'{'");
        text.take();
        envelope = "{";
        at = state::first_member;
        return true;
    case state::first_member:
    case state::member:
        if (c == '}' && at == state::first_member) {
            text.take();
            envelope += '}';
            at = state::done;
            return true;
        }
        if (c != '"') return expected(at == state::member ? "a key" : "a key or '}'");
        text.mark();
        scanner.begin(c);
        at = state::key;
        return scan_key();
    case state::key: return scan_key();
    case state::colon:
        if (c != ':') return expected("':'");
        text.take();
        at = state::value;
        return true;
    case state::value:
        if (items_member && c == '[') {
            text.take();
            text.unmark();
            at = state::first_item;
            return true;
        }
        if (!begin_value(state::in_value)) return false;
        return scan_member_value();
    case state::in_value: return scan_member_value();
    case state::after_value:
        if (c != ',' && c != '}') return expected("',' or '}'");
        text.take();
        if (c == '}') envelope += '}';
        at = c == ',' ? state::member : state::done;
        return true;
    case state::first_item:
        if (c == ']') {
            text.take();
            at = state::after_value;
            return true;
        }
        [[fallthrough]];
    case state::item:
        if (!begin_value(state::in_item)) return false;
        text.mark();
        skipping = false;
        return scan_item(have_item);
    case state::in_item: return scan_item(have_item);
    case state::after_item:
        if (c != ',' && c != ']') return expected("',' or ']'");
        text.take();
        at = c == ',' ? state::item : state::after_value;
        return true;
    case state::done: break;
    }
    return expected("nothing more");
}

bool list_framer::impl::begin_value(state inside) {
    if (!scanner.begin(text.front())) return expected("a value");
    value_start = text.offset();
    at = inside;
    return true;
}

bool list_framer::impl::scan_key() {
    text.scan(scanner);
    if (!member_fits()) return fail(over_limit("list: the envelope is", max_object));
    if (!scanner.complete()) return true;
    items_member = detail::says(text.since_mark(), "items");
    at = state::colon;
    return true;
}

bool list_framer::impl::scan_member_value() {
    text.scan(scanner);
    if (scanner.bad()) return expected("the end of a value");
    if (!member_fits()) return fail(over_limit("list: the envelope is", max_object));
    if (!scanner.complete()) return true;
    keep_member();
    text.unmark();
    at = state::after_value;
    return true;
}

void list_framer::impl::keep_member() {
    const std::string_view member = text.since_mark();
    // An empty Go slice without omitempty.
    if (items_member && text.since(value_start) == "null") return;
    if (envelope.size() > 1) envelope += ',';
    envelope += member;
}

bool list_framer::impl::scan_item(bool& have_item) {
    const std::string_view scanned = text.scan(scanner);
    if (scanner.bad()) return expected("the end of an item");
    if (skipping) {
        append_up_to(beginning, scanned, oversize_prefix);
    } else if (text.since_mark().size() > max_object) {
        skipping = true;
        beginning = text.since_mark().substr(0, oversize_prefix);
        text.unmark();
    }
    if (!scanner.complete()) return true;
    oversized = skipping;
    item = skipping ? std::string_view(beginning) : text.since_mark();
    text.unmark();
    skipping = false;
    ++items;
    have_item = true;
    at = state::after_item;
    return true;
}

list_framer::list_framer(std::size_t max_object) : impl_(std::make_unique<impl>(max_object)) {}
list_framer::~list_framer() = default;
list_framer::list_framer(list_framer&&) noexcept = default;
list_framer& list_framer::operator=(list_framer&&) noexcept = default;

void list_framer::feed(std::string_view bytes) {
    impl_->item = {};
    if (!impl_->failed) impl_->text.feed(bytes);
}

bool list_framer::next(failure& f) {
    impl_->item = {};
    impl_->oversized = false;
    return advance(*impl_, f);
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
bool list_framer::done() const noexcept {
    return impl_->at == impl::state::done && !impl_->failed;
}
const std::string& list_framer::envelope() const noexcept {
    return impl_->envelope;
}

// ---- watches ----

struct watch_framer::impl {
    enum class state { idle, first_member, member, key, colon, value, in_value, after_value };
    enum class role { other, type, object };

    explicit impl(std::size_t limit) : max_object(limit) {}
    /// Within a token, where white space counts.
    bool inside() const noexcept { return at == state::key || at == state::in_value; }

    std::size_t max_object;
    window text; ///< marked at the event's first byte unless it is skipped, then at the token that is kept
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

    std::string_view lent; ///< what is left of it
    std::string_view line; ///< the last one that was cut whole
    bool unproven = false;

    bool fail(failure f) {
        failed = std::move(f);
        return false;
    }
    bool expected(std::string_view what) { return fail(syntax("watch", text.offset(), what)); }

    bool next(failure& f);
    bool cut_line();
    bool step(bool& have_event);
    bool check_size();
    bool scan_key();
    bool scan_value();
    bool end_event(bool& have_event);
};

bool watch_framer::impl::next(failure& f) {
    for (;;) {
        if (at == state::idle && !failed && !text.skip_space() && cut_line()) return true;
        const bool whole = advance(*this, f);
        if (whole || failed || lent.empty()) return whole;
        // Up to the end of the line, where whole ones may follow.
        const std::size_t n = std::min(lent.find('\n'), lent.size() - 1) + 1;
        text.feed(lent.substr(0, n));
        lent.remove_prefix(n);
    }
}

/// An event as API servers write it, if it is all there.
bool watch_framer::impl::cut_line() {
    using namespace std::string_view_literals;
    static constexpr std::string_view head = R"({"type":")", middle = R"(","object":{)";
    std::string_view rest = lent;
    if (!rest.starts_with(head)) return false;
    rest.remove_prefix(head.size());
    std::string_view what;
    for (const std::string_view one : {"MODIFIED"sv, "ADDED"sv, "DELETED"sv})
        if (rest.starts_with(one)) what = one;
    rest.remove_prefix(what.size());
    if (what.empty() || !rest.starts_with(middle)) return false;
    rest.remove_prefix(middle.size() - 1);
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) return false;
    rest = rest.substr(0, end);
    const std::size_t size = static_cast<std::size_t>(rest.data() + rest.size() - lent.data());
    if (size > max_object || !rest.ends_with("}}")) return false;
    type = what;
    object = rest.substr(0, rest.size() - 1);
    line = lent.substr(0, size + 1);
    lent.remove_prefix(line.size());
    text.pass(line.size());
    unproven = true;
    ++events;
    return true;
}

bool watch_framer::impl::step(bool& have_event) {
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
        return true;
    case state::first_member:
    case state::member:
        if (c == '}' && at == state::first_member) {
            text.take();
            return end_event(have_event);
        }
        if (c != '"') return expected(at == state::member ? "a key" : "a key or '}'");
        token_start = text.offset();
        if (skipping) text.mark();
        scanner.begin(c);
        at = state::key;
        return scan_key();
    case state::key: return scan_key();
    case state::colon:
        if (c != ':') return expected("':'");
        text.take();
        at = state::value;
        return true;
    case state::value:
        if (!scanner.begin(c)) return expected("a value");
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
    return true;
}

// Past the limit only the token being read is kept, and the beginning of the object.
bool watch_framer::impl::check_size() {
    const bool keeps_token = at == state::key || (at == state::in_value && member == role::type);
    if (!skipping && text.offset() - event_start > max_object) {
        skipping = true;
        if (at == state::in_value && member == role::object) object_size = text.offset() - object_start;
        if (object_size != 0) beginning = text.at_offset(object_start, std::min(object_size, oversize_prefix));
        if (keeps_token)
            text.mark_offset(token_start);
        else
            text.unmark();
    }
    if (skipping && keeps_token && text.offset() - token_start > oversize_prefix)
        return fail(over_limit("watch: a key or type is", oversize_prefix));
    return true;
}

bool watch_framer::impl::scan_key() {
    text.scan(scanner);
    if (!check_size()) return false;
    if (!scanner.complete()) return true;
    const std::string_view key = text.since(token_start);
    if (detail::says(key, "type"))
        member = role::type;
    else
        member = detail::says(key, "object") ? role::object : role::other;
    if (skipping) text.unmark();
    at = state::colon;
    return true;
}

bool watch_framer::impl::scan_value() {
    const std::string_view scanned = text.scan(scanner);
    if (scanner.bad()) return expected("the end of a value");
    if (skipping && member == role::object) append_up_to(beginning, scanned, oversize_prefix);
    if (!check_size()) return false;
    if (!scanner.complete()) return true;
    if (member == role::type) type = detail::unescape(text.since(token_start)).value_or("");
    if (member == role::object) object_size = text.offset() - object_start;
    if (skipping) text.unmark();
    at = state::after_value;
    return true;
}

bool watch_framer::impl::end_event(bool& have_event) {
    if (!check_size()) return false;
    oversized = skipping;
    if (skipping)
        object = beginning;
    else
        object = object_size == 0 ? std::string_view() : text.at_offset(object_start, object_size);
    text.unmark();
    ++events;
    have_event = true;
    at = state::idle;
    return true;
}

watch_framer::watch_framer(std::size_t max_object) : impl_(std::make_unique<impl>(max_object)) {}
watch_framer::~watch_framer() = default;
watch_framer::watch_framer(watch_framer&&) noexcept = default;
watch_framer& watch_framer::operator=(watch_framer&&) noexcept = default;

void watch_framer::feed(std::string_view bytes) {
    impl_->object = {};
    if (!impl_->failed) impl_->text.feed(bytes);
}

void watch_framer::lend(std::string_view bytes) {
    impl_->object = {};
    impl_->lent = bytes;
}

bool watch_framer::next(failure& f) {
    impl_->object = {};
    impl_->oversized = impl_->unproven = false;
    return impl_->next(f);
}

bool watch_framer::unproven() const noexcept {
    return impl_->unproven;
}

void watch_framer::look_again() {
    impl& s = *impl_;
    s.object = {};
    s.unproven = false;
    --s.events;
    s.text.take_back(s.line.size());
    s.text.feed(s.line);
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
    return impl_->at == impl::state::idle && !impl_->failed;
}
std::size_t watch_framer::position() const noexcept {
    return impl_->events == 0 ? 0 : impl_->events - 1;
}

} // namespace informer
