// What the gateway sends: keys with their values, and messages around them. Sans-io.
#pragma once

#include <informer/error.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace informer::etcd::detail {

/// Members are zero or empty if the gateway leaves them out, as it does with zeros.
struct key_value {
    std::string key, value;
    std::int64_t create_revision = 0, mod_revision = 0, version = 0;
    bool oversized = false; ///< the value is over the limit, and is not kept
};

/// One key of a range, or one event of a watch.
struct entry {
    key_value kv;
    std::optional<key_value> previous;
    bool deleted = false;
};

/// The rest of a RangeResponse or WatchResponse.
struct message {
    std::int64_t revision = 0; ///< of the whole store
    std::string cluster;
    std::uint64_t entries = 0;
    bool more = false; ///< keys beyond the limit
    std::int64_t count = 0;
    bool created = false, canceled = false, fragment = false;
    std::int64_t compact_revision = 0;
    std::string cancel_reason;
    bool failed = false; ///< the stream ends with an error
    std::int64_t code = 0, http_code = 0;
    std::string error;
};

/// Reads range answers (one object) or a watch (objects one after the other, each in "result"), wherever the bytes
/// break.
///
/// An entry is handed out as soon as it is complete, before its message. Memory is bounded by what one `feed`
/// completes, one entry, and the limit of each key and value. Unknown members are passed over; a known one of another
/// type than it should be is an error.
class message_reader {
public:
    enum class kind { range, watch };
    enum class found { nothing, entry, message };

    message_reader(kind k, std::size_t max_object);
    ~message_reader();
    message_reader(const message_reader&) = delete;
    message_reader& operator=(const message_reader&) = delete;

    /// `f`: syntax_error, bad_response or too_large (a key); after that, only what was complete before is still handed
    /// out.
    void feed(std::string_view bytes, failure& f);
    found next();
    entry& current() noexcept; ///< of the last `next`; may be moved from
    const detail::message& message() const noexcept;
    /// Between two messages: the stream may end here.
    bool idle() const noexcept;

private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

/// The error in an answer that is not 2xx, from either generation of gateways: {"error":…,"message":…,"code":…}.
struct refusal {
    std::int64_t code = 0; ///< gRPC's; 0: the answer is not the gateway's
    std::string text;
};
refusal read_refusal(std::string_view body);

/// A member of a small flat answer ("token"), if it is a string.
std::optional<std::string> read_text_member(std::string_view body, std::string_view name);

} // namespace informer::etcd::detail
