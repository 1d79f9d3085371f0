#include <informer/object/framer.hpp>

#include "detail/text_scan.hpp"
#include "json_scan.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace informer {

namespace {

// Walks the members of one object, which may be cut off anywhere.
class member_walk {
public:
    explicit member_walk(std::string_view text) : rest_(text) {
        skip_space();
        if (!take('{')) stop();
    }

    /// The next member. False at the end or where the text breaks off; `closed()` tells which.
    bool next() {
        if (stopped_) return false;
        if (!std::exchange(at_key_, true) && !value()) return stop();
        skip_space();
        if (!first_ && !rest_.empty() && rest_.front() != '}') {
            if (!take(',')) return stop();
            skip_space();
        }
        first_ = false;
        if (take('}')) {
            closed_ = true;
            return stop();
        }
        const auto name = rest_.empty() || rest_.front() != '"' ? std::nullopt : cut();
        if (!name) return stop();
        key_ = *name;
        skip_space();
        if (!take(':')) return stop();
        skip_space();
        at_key_ = false;
        return true;
    }
    std::string_view key() const noexcept { return key_; }
    /// The text of the value, once; nullopt where it is cut off.
    std::optional<std::string_view> value() {
        at_key_ = true;
        return cut();
    }
    /// Passes over the value, over at most `bytes` of it now. True when it is behind us, or cut off.
    bool pass(std::size_t bytes) {
        if (!passing_ && (rest_.empty() || !scanner_.begin(rest_.front()))) return true;
        const char* const from = rest_.data();
        const char* const at = scanner_.scan(from, from + std::min(bytes, rest_.size()));
        rest_.remove_prefix(static_cast<std::size_t>(at - from));
        at_key_ = scanner_.complete();
        passing_ = !at_key_ && !scanner_.bad() && !rest_.empty();
        if (!passing_ && !at_key_) stop();
        return !passing_;
    }
    /// The text from the value on.
    std::string_view rest() const noexcept { return rest_; }
    bool closed() const noexcept { return closed_; }

private:
    bool stop() noexcept {
        stopped_ = true;
        return false;
    }
    void skip_space() noexcept {
        while (!rest_.empty() && detail::is_space(rest_.front())) rest_.remove_prefix(1);
    }
    bool take(char c) noexcept {
        if (rest_.empty() || rest_.front() != c) return false;
        rest_.remove_prefix(1);
        return true;
    }
    std::optional<std::string_view> cut() noexcept {
        detail::value_scanner scanner;
        if (rest_.empty() || !scanner.begin(rest_.front())) return std::nullopt;
        const char* const from = rest_.data();
        const char* const at = scanner.scan(from, from + rest_.size());
        if (!scanner.complete()) return std::nullopt;
        const auto text = rest_.substr(0, static_cast<std::size_t>(at - from));
        rest_.remove_prefix(text.size());
        return text;
    }

    std::string_view rest_, key_;
    bool first_ = true, stopped_ = false, closed_ = false;
    bool at_key_ = true; ///< the value before was taken
    bool passing_ = false;
    detail::value_scanner scanner_; ///< of the value that is passed
};

object_key key_of_metadata(std::string_view metadata) {
    object_key key;
    bool has_name = false, has_namespace = false;
    member_walk members(metadata);
    while (!(has_name && has_namespace) && members.next()) {
        const bool is_name = detail::says(members.key(), "name");
        if (!is_name && !detail::says(members.key(), "namespace")) continue;
        const auto literal = members.value();
        if (!literal) break;
        auto text = detail::unescape(*literal);
        if (!text) continue;
        (is_name ? key.name : key.name_space) = std::move(*text);
        (is_name ? has_name : has_namespace) = true;
    }
    // Cut off before a namespace was seen: half a key would name another object.
    if (!has_name || (!has_namespace && !members.closed())) return object_key();
    return key;
}

/// As servers write it, without spaces, and with nothing but strings before metadata and up to name and namespace. Anything
/// else is left to the walk, which takes four times as long; so is a text that breaks off.
class quick_peek {
public:
    explicit quick_peek(std::string_view json) noexcept
        : at_(json.data()), end_(json.data() + std::min<std::size_t>(json.size(), 4096)) {}

    bool read(object_key& key) {
        if (!take('{') || !string()) return false;
        while (text_ != "metadata") {
            if (!take(':') || !string() || !take(',') || !string()) return false;
        }
        if (!take(':') || !take('{')) return false;
        std::string_view name, name_space;
        while (name.empty() || name_space.empty()) {
            if (!string()) return false;
            std::string_view& to = text_ == "name" ? name : text_ == "namespace" ? name_space : ignored_;
            if (!take(':') || !string()) return false;
            to = text_;
            if (!take(',')) {
                if (!take('}') || name.empty()) return false;
                break;
            }
        }
        key.name_space = name_space;
        key.name = name;
        return true;
    }

private:
    bool take(char c) noexcept {
        if (at_ == end_ || *at_ != c) return false;
        ++at_;
        return true;
    }
    bool string() noexcept {
        if (!take('"')) return false;
        const char* const from = at_;
        bool plain = true;
        at_ = detail::string_end(from, end_, plain);
        if (!at_ || !plain) return false;
        text_ = std::string_view(from, static_cast<std::size_t>(at_ - from) - 1);
        return true;
    }
    const char *at_, *end_;
    std::string_view text_, ignored_;
};

} // namespace

struct key_peek::impl {
    explicit impl(std::string_view json) : members(json) {}
    member_walk members;
    bool passing = false;
    object_key key;
};

key_peek::key_peek(std::string_view json) : impl_(std::make_unique<impl>(json)) {}
key_peek::~key_peek() = default;

bool key_peek::step(std::size_t bytes) {
    impl& i = *impl_;
    const std::size_t left = i.members.rest().size();
    for (;;) {
        const std::size_t done = left - i.members.rest().size();
        if (done >= std::max<std::size_t>(bytes, 1)) return false;
        if (i.passing && !i.members.pass(bytes - done)) return false;
        i.passing = i.members.next();
        if (!i.passing) return true;
        if (detail::says(i.members.key(), "metadata")) {
            i.key = key_of_metadata(i.members.rest());
            return true;
        }
    }
}

const object_key& key_peek::key() const noexcept {
    return impl_->key;
}

object_key peek_key(std::string_view json) {
    object_key key;
    if (quick_peek(json).read(key)) return key;
    member_walk members(json);
    while (members.next())
        if (detail::says(members.key(), "metadata")) return key_of_metadata(members.rest());
    return object_key();
}

} // namespace informer
