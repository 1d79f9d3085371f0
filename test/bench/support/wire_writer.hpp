// Writes answers as long gathers of spans that are already in memory; only a head of a few dozen bytes is made for each
// object.
#pragma once

#include "bench/support/recorded_corpus.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace informer::bench {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
inline constexpr auto as_result = asio::as_tuple(asio::use_awaitable);

/// One connection, plain or TLS, with the spans that are not written yet.
class wire {
public:
    wire(tcp::socket s, asio::ssl::context* context) : plain_(std::move(s)) {
        boost::system::error_code ignored;
        plain_.set_option(tcp::no_delay(true), ignored);
        if (context) tls_.emplace(plain_, *context);
    }

    tcp::socket& socket() noexcept { return plain_; }
    bool broken() const noexcept { return broken_; }
    std::uint64_t written() const noexcept { return written_; }
    void close() {
        broken_ = true;
        boost::system::error_code ignored;
        plain_.close(ignored);
    }

    static asio::awaitable<void> handshake(std::shared_ptr<wire> w) {
        if (!w->tls_) co_return;
        const auto [ec] = co_await w->tls_->async_handshake(asio::ssl::stream_base::server, as_result);
        if (ec) w->close();
    }
    static asio::awaitable<std::size_t> read_some(std::shared_ptr<wire> w, asio::mutable_buffer to) {
        if (w->tls_) {
            const auto [ec, n] = co_await w->tls_->async_read_some(to, as_result);
            co_return ec ? 0 : n;
        }
        const auto [ec, n] = co_await w->plain_.async_read_some(to, as_result);
        co_return ec ? 0 : n;
    }

    /// True when there is no room for one more object (four spans and a head).
    bool full() const noexcept {
        return pieces_.size() + 4 > max_pieces || heads_used_ + max_head > heads_.size() || pending_ >= max_bytes;
    }
    /// `text` must live until the next `flush`.
    void add(std::string_view text) {
        pieces_.emplace_back(text.data(), text.size());
        pending_ += text.size();
    }
    /// Copies the texts.
    template <typename... Texts>
    void add_head(const Texts&... texts) {
        char* const begin = heads_.data() + heads_used_;
        char* end = begin;
        ((end = std::copy_n(std::string_view(texts).data(), std::string_view(texts).size(), end)), ...);
        heads_used_ += static_cast<std::size_t>(end - begin);
        add(std::string_view(begin, static_cast<std::size_t>(end - begin)));
    }
    /// Writes what was added.
    static asio::awaitable<void> flush(std::shared_ptr<wire> w) {
        if (w->broken_ || w->pieces_.empty()) {
            w->clear();
            co_return;
        }
        boost::system::error_code failed;
        if (w->tls_) { // OpenSSL takes one span at a time, so join them into a long one
            w->record_.clear();
            for (const asio::const_buffer& b : w->pieces_)
                w->record_.append(static_cast<const char*>(b.data()), b.size());
            const auto span = asio::buffer(w->record_);
            const auto [ec, n] = co_await asio::async_write(*w->tls_, span, as_result);
            failed = ec;
            w->written_ += n;
        } else {
            const auto [ec, n] = co_await asio::async_write(w->plain_, w->pieces_, as_result);
            failed = ec;
            w->written_ += n;
        }
        w->clear();
        if (failed) w->close();
    }

private:
    static constexpr std::size_t max_pieces = 64; // what one sendmsg of Asio takes
    static constexpr std::size_t max_head = 512, max_bytes = std::size_t(512) << 10;
    void clear() noexcept {
        pieces_.clear();
        heads_used_ = 0;
        pending_ = 0;
    }

    tcp::socket plain_;
    std::optional<asio::ssl::stream<tcp::socket&>> tls_;
    std::vector<asio::const_buffer> pieces_;
    std::array<char, 32 * max_head> heads_{};
    std::size_t heads_used_ = 0, pending_ = 0;
    std::string record_;
    std::uint64_t written_ = 0;
    bool broken_ = false;
};

inline std::string hex_number(std::size_t v) {
    char text[20];
    return std::string(text, std::to_chars(text, text + sizeof text, v, 16).ptr);
}

// ---- protobuf, as far as lists and bookmarks need it ------------------------------------------------------------

inline std::string varint(std::uint64_t v) {
    std::string s;
    for (; v > 127; v >>= 7) s += static_cast<char>(v | 128);
    s += static_cast<char>(v);
    return s;
}
inline std::string tagged(unsigned field, std::string_view value) {
    return varint(field << 3 | 2) + varint(value.size()).append(value);
}
/// The bytes before a message of `size` bytes: "k8s\0" and the beginning of runtime.Unknown. `unknown_tail` follows the
/// message.
inline std::string unknown_head(std::string_view api_version, std::string_view kind, std::size_t size) {
    return std::string("k8s\0", 4) + tagged(1, tagged(1, api_version) + tagged(2, kind)) + varint(2 << 3 | 2) +
           varint(size);
}
inline constexpr std::string_view unknown_tail("\x1a\x00\x22\x00", 4); // contentEncoding, contentType: always there

// ---- the parts of lists and watches in one encoding -----------------------------------------------------------------

class dialect {
public:
    dialect(const recorded_corpus& from, encoding e) : corpus_(&from), encoding_(e) {
        const bool metadata = e == encoding::json_metadata || e == encoding::protobuf_metadata;
        protobuf_ = e == encoding::protobuf || e == encoding::protobuf_metadata;
        kind_ = metadata ? "PartialObjectMetadata" : from.kind;
        api_version_ = metadata ? "meta.k8s.io/v1" : from.api_version();
        type_ = "{\"kind\":\"" + kind_ + "\",\"apiVersion\":\"" + api_version_ + "\",";
        item_ = metadata
                    ? type_
                    : "{"; // items of a PodList lack kind and apiVersion, those of PartialObjectMetadataList do not
        for (const std::string_view type : {"ADDED", "MODIFIED"})
            event_heads_[type == "MODIFIED"] =
                protobuf_ ? tagged(1, type) : "{\"type\":\"" + std::string(type) + "\",\"object\":" + type_;
        item_tail_ = metadata ? "}" : "";
        event_tail_ = metadata ? "}}\n\r\n" : "}\n\r\n";
    }

    std::string_view content_type(bool watch) const {
        if (!protobuf_) return "application/json";
        return watch ? "application/vnd.kubernetes.protobuf;stream=watch" : "application/vnd.kubernetes.protobuf";
    }

    /// Adds one event as one chunk.
    void add_event(wire& to, bool modified, std::size_t index) const {
        const std::string_view body = corpus_->now(encoding_, index).watch;
        const std::string& head = event_heads_[modified];
        if (protobuf_) {
            const std::size_t size = head.size() + body.size();
            to.add_head(hex_number(size + 4), "\r\n", frame_length(size), head);
            to.add(body);
            to.add("\r\n");
        } else {
            to.add_head(hex_number(head.size() + body.size() + event_tail_.size() - 2), "\r\n", head);
            to.add(body);
            to.add(event_tail_);
        }
    }
    std::string bookmark(bool initial_events_end) const {
        const std::string version = std::to_string(corpus_->resource_version());
        if (protobuf_) {
            std::string metadata = tagged(6, version);
            if (initial_events_end) metadata += tagged(12, tagged(1, "k8s.io/initial-events-end") + tagged(2, "true"));
            return framed("BOOKMARK", api_version_, kind_, tagged(1, metadata));
        }
        return chunk("{\"type\":\"BOOKMARK\",\"object\":" + type_ + "\"metadata\":{\"resourceVersion\":\"" + version +
                     "\",\"creationTimestamp\":null" +
                     (initial_events_end ? ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}" : "") + "}}}\n");
    }
    /// An ERROR event 410: the version is too old.
    std::string gone() const {
        static constexpr std::string_view message = "too old resource version";
        if (protobuf_)
            return framed("ERROR", "v1", "Status",
                          tagged(1, "") + tagged(2, "Failure") + tagged(3, message) + tagged(4, "Expired") +
                              varint(6 << 3) + varint(410));
        return chunk("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},"
                     "\"status\":\"Failure\","
                     "\"message\":\"" +
                     std::string(message) + "\",\"reason\":\"Expired\",\"code\":410}}\n");
    }

    /// The list of [begin, end): `head`, then all items, then `tail`. Its size is known in advance for Content-Length.
    struct list_frame {
        std::string head, tail;
        std::size_t size = 0; ///< of everything
    };
    list_frame list(std::size_t begin, std::size_t end) const {
        const std::string version = std::to_string(corpus_->resource_version());
        const std::string next = end < corpus_->size() ? std::to_string(end) : "";
        const std::size_t remaining = corpus_->size() - end;
        list_frame f;
        std::size_t items = 0;
        for (std::size_t i = begin; i < end; ++i) {
            const std::size_t n = corpus_->now(encoding_, i).list.size();
            items += protobuf_ ? 1 + varint(n).size() + n : item_.size() + n + item_tail_.size() + (i > begin);
        }
        if (protobuf_) {
            std::string metadata = tagged(1, "") + tagged(2, version) + tagged(3, next);
            if (!next.empty()) metadata += varint(4 << 3) + varint(remaining);
            const std::string envelope = tagged(1, metadata);
            f.head = unknown_head(api_version_, kind_ + "List", envelope.size() + items) + envelope;
            f.tail = unknown_tail;
        } else {
            f.head = "{\"kind\":\"" + kind_ + "List\",\"apiVersion\":\"" + api_version_ +
                     "\",\"metadata\":{\"resourceVersion\":\"" + version + "\"";
            if (!next.empty())
                f.head += ",\"continue\":\"" + next + "\",\"remainingItemCount\":" + std::to_string(remaining);
            f.head += "},\"items\":[";
            f.tail = "]}\n";
        }
        f.size = f.head.size() + items + f.tail.size();
        return f;
    }
    void add_item(wire& to, std::size_t index, bool first) const {
        const std::string_view body = corpus_->now(encoding_, index).list;
        if (protobuf_) {
            to.add_head("\x12", varint(body.size())); // PodList.items is field 2
            to.add(body);
            return;
        }
        to.add_head(first ? "" : ",", item_);
        to.add(body);
        if (!item_tail_.empty()) to.add(item_tail_);
    }

    /// A whole list in one piece.
    std::string text(const list_frame& f, std::size_t begin, std::size_t end) const {
        std::string s = f.head;
        s.reserve(f.size);
        for (std::size_t i = begin; i < end; ++i) {
            const std::string_view body = corpus_->now(encoding_, i).list;
            if (protobuf_)
                s.append("\x12").append(varint(body.size())).append(body);
            else
                s.append(i > begin ? "," : "").append(item_).append(body).append(item_tail_);
        }
        return s += f.tail;
    }

private:
    static std::string frame_length(std::size_t n) {
        std::string s;
        for (const unsigned shift : {24u, 16u, 8u, 0u}) s += static_cast<char>(n >> shift & 255);
        return s;
    }
    static std::string chunk(const std::string& body) { return hex_number(body.size()) + "\r\n" + body + "\r\n"; }
    static std::string framed(std::string_view type, std::string_view api_version, std::string_view kind,
                              const std::string& message) {
        std::string raw = unknown_head(api_version, kind, message.size());
        raw.append(message).append(unknown_tail);
        const std::string event = tagged(1, type) + tagged(2, tagged(1, raw));
        return chunk(frame_length(event.size()) + event);
    }

    const recorded_corpus* corpus_;
    encoding encoding_;
    bool protobuf_ = false;
    std::string kind_, api_version_, type_, item_, item_tail_, event_tail_;
    std::array<std::string, 2> event_heads_;
};

} // namespace informer::bench
