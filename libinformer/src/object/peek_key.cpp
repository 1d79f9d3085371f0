#include <informer/object/framer.hpp>

#include "detail/text_scan.hpp"
#include "json_scan.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace informer {

namespace {

using detail::longest_token;

// Walks the members of one object, whose text may be cut off anywhere. A token that is too long ends the walk as the
// end of a cut-off text does.
class member_walk {
public:
    explicit member_walk(std::string_view text) : rest_(text) {
        if (!skip_space() || !take('{')) stop();
    }

    /// Goes to the next member; the value of the one before must have been taken or passed over. False at the end of
    /// the object or where the text is cut off; `closed()` tells which.
    bool next() {
        if (stopped_ || !skip_space()) return stop();
        if (!first_ && !rest_.empty() && rest_.front() != '}' && !(take(',') && skip_space())) return stop();
        first_ = false;
        if (take('}')) {
            closed_ = true;
            return stop();
        }
        const auto name = rest_.empty() || rest_.front() != '"' ? std::nullopt : value();
        if (!name) return stop();
        key_ = *name;
        return (skip_space() && take(':') && skip_space()) || stop();
    }
    std::string_view key() const noexcept { return key_; }
    /// Takes the text of the value; nullopt if it is cut off or too long.
    std::optional<std::string_view> value() noexcept {
        detail::value_scanner scanner;
        if (rest_.empty() || !scanner.begin(rest_.front())) return std::nullopt;
        const char* const from = rest_.data();
        const char* const at = scanner.scan(from, from + std::min(rest_.size(), longest_token));
        if (!scanner.complete()) return std::nullopt;
        const auto text = rest_.substr(0, static_cast<std::size_t>(at - from));
        rest_.remove_prefix(text.size());
        return text;
    }
    /// Passes over at most `bytes` of the value. True when all of it was passed over, or where it is cut off.
    bool pass(std::size_t bytes) {
        if (!passing_ && (rest_.empty() || !scanner_.begin(rest_.front()))) return !stop();
        const char* const from = rest_.data();
        const char* const at = scanner_.scan(from, from + std::min(bytes, rest_.size()));
        rest_.remove_prefix(static_cast<std::size_t>(at - from));
        passing_ = !scanner_.complete() && !scanner_.bad() && !rest_.empty();
        if (!passing_ && !scanner_.complete()) stop();
        return !passing_;
    }
    /// The text from the current value on.
    std::string_view rest() const noexcept { return rest_; }
    bool closed() const noexcept { return closed_; }

private:
    bool stop() noexcept {
        stopped_ = true;
        return false;
    }
    /// False if there is too much white space.
    bool skip_space() noexcept {
        std::size_t n = 0;
        while (n < rest_.size() && n < longest_token && detail::is_space(rest_[n])) ++n;
        rest_.remove_prefix(n);
        return n < longest_token;
    }
    bool take(char c) noexcept {
        if (rest_.empty() || rest_.front() != c) return false;
        rest_.remove_prefix(1);
        return true;
    }

    std::string_view rest_, key_;
    bool first_ = true, stopped_ = false, closed_ = false, passing_ = false;
    detail::value_scanner scanner_; ///< of the value that is passed over
};

/// Reads the key of a text as servers write it: without spaces, and with no value but strings before metadata and,
/// inside it, up to name and namespace. Any other text, or one that is cut off, is left to the walk, which takes four
/// times as long.
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

/// Walks down to metadata, and to the name and the namespace in it.
class key_walk {
public:
    explicit key_walk(std::string_view json) : members_(json) {}

    /// Goes on over about `bytes`. True when there is nothing more to read.
    bool step(std::size_t bytes) {
        const std::size_t left = members_.rest().size(), most = std::max<std::size_t>(bytes, 1);
        for (std::size_t done = 0; done < most; done = left - members_.rest().size())
            if (step_within(most - done)) return true;
        return false;
    }
    const object_key& key() const noexcept { return key_; }

private:
    bool step_within(std::size_t left) {
        if (passing_ && !members_.pass(left)) return false;
        passing_ = false;
        if (!members_.next()) return end();
        if (!in_metadata_ && detail::says(members_.key(), "metadata")) {
            members_ = member_walk(members_.rest());
            in_metadata_ = true;
            return false;
        }
        const bool is_name = in_metadata_ && detail::says(members_.key(), "name");
        passing_ = !is_name && !(in_metadata_ && detail::says(members_.key(), "namespace"));
        return !passing_ && (!read(is_name) || (has_name_ && has_namespace_));
    }
    /// False if the value is cut off or too long.
    bool read(bool is_name) {
        const auto literal = members_.value();
        if (!literal) return !end();
        if (auto text = detail::unescape(*literal)) {
            (is_name ? key_.name : key_.name_space) = std::move(*text);
            (is_name ? has_name_ : has_namespace_) = true;
        }
        return true;
    }
    bool end() {
        // The text is cut off before a namespace was seen: half a key would name another object.
        if (!has_name_ || (!has_namespace_ && !members_.closed())) key_ = object_key();
        return true;
    }

    member_walk members_;
    bool passing_ = false; ///< inside the value of a member that is not needed
    bool in_metadata_ = false, has_name_ = false, has_namespace_ = false;
    object_key key_;
};

} // namespace

struct key_peek::impl : key_walk {
    using key_walk::key_walk;
};

key_peek::key_peek(std::string_view json) : impl_(std::make_unique<impl>(json)) {}
key_peek::~key_peek() = default;

bool key_peek::step(std::size_t bytes) {
    return impl_->step(bytes);
}
const object_key& key_peek::key() const noexcept {
    return impl_->key();
}

object_key peek_key(std::string_view json) {
    object_key key;
    if (quick_peek(json).read(key)) return key;
    key_walk all(json);
    all.step(json.size() + 1);
    return all.key();
}

std::string peek_uid(std::string_view json) {
    std::string uid;
    bool has_metadata = false, has_uid = false;
    for (member_walk all(json); all.next(); all.pass(json.size())) {
        if (!detail::says(all.key(), "metadata")) continue;
        if (std::exchange(has_metadata, true)) return {}; // of two, the decoder takes the last one
        for (member_walk inside(all.rest()); inside.next();) {
            if (!detail::says(inside.key(), "uid")) {
                inside.pass(json.size());
                continue;
            }
            const auto literal = inside.value();
            auto text = literal ? detail::unescape(*literal) : std::nullopt;
            if (!text || std::exchange(has_uid, true)) return {};
            uid = *std::move(text);
        }
    }
    return uid;
}

} // namespace informer
