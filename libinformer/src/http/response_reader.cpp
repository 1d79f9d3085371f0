#include "http/response_reader.hpp"

#include "http/beast_put.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/none.hpp>
#include <boost/optional.hpp>

#include <cstdint>
#include <optional>

namespace informer::http::detail {

namespace bh = boost::beast::http;

namespace {

/// A body type for Beast that copies nothing: it records where in the input the next part lies, and stops there.
struct part_body {
    using value_type = std::string_view;

    class reader {
    public:
        template <bool request, class Fields>
        reader(bh::header<request, Fields>&, value_type& part) : part_(part) {}
        void init(const boost::optional<std::uint64_t>&, error_code& ec) { ec = {}; }
        template <class Buffers>
        std::size_t put(const Buffers& bytes, error_code& ec) {
            if (!part_.empty()) {
                ec = bh::error::need_buffer;
                return 0;
            }
            ec = {};
            const boost::asio::const_buffer first(*boost::asio::buffer_sequence_begin(bytes));
            part_ = {static_cast<const char*>(first.data()), first.size()};
            return part_.size();
        }
        void finish(error_code& ec) { ec = {}; }

    private:
        value_type& part_;
    };
};
using part_parser = bh::response_parser<part_body>;

} // namespace

struct response_reader::state {
    std::optional<part_parser> parser;
};

namespace {

void prepare(std::optional<part_parser>& parser, bool head) {
    parser.emplace();
    parser->body_limit(boost::none); // lists are as long as they are; the caller reads piece by piece
    parser->header_limit(static_cast<std::uint32_t>(max_header));
    parser->skip(head);
    parser->eager(false); // so that the parser stops after the header
}

} // namespace

response_reader::response_reader(bool head) : state_(std::make_unique<state>()), head_(head) {
    prepare(state_->parser, head);
}

response_reader::~response_reader() = default;

std::size_t response_reader::header(std::string_view in, error_code& ec) {
    std::size_t used = 0;
    ec = {};
    while (!header_done_) {
        auto& p = *state_->parser;
        // Beast answers need_more only for non-empty input.
        if (used == in.size()) return used;
        const std::size_t n = put(p, in.substr(used), ec);
        used += n;
        header_bytes_ += n;
        if (header_bytes_ > max_header) ec = bh::error::header_limit;
        if (ec == bh::error::need_more) {
            ec = {};
            // A header that does not end within the limit is refused; Beast notices at the next byte only.
            if (in.size() - used >= max_header) ec = bh::error::header_limit;
            return used;
        }
        if (ec) return used;
        if (!p.is_header_done()) continue;
        const unsigned status = p.get().result_int();
        if (status >= 100 && status < 200 && status != 101)
            prepare(state_->parser, head_);
        else
            header_done_ = true;
    }
    return used;
}

std::size_t response_reader::body(std::string_view in, std::string_view& part, error_code& ec) {
    auto& p = *state_->parser;
    p.eager(true);
    p.get().body() = part = {};
    std::size_t used = 0;
    ec = {};
    if (!body_begun_ && p.chunked() && is_unfinished_end(in)) return 0;
    while (!p.is_done() && used < in.size()) {
        used += put(p, in.substr(used), ec);
        if (ec) break;
    }
    if (ec == bh::error::need_more || ec == bh::error::need_buffer) ec = {};
    body_begun_ = body_begun_ || used > 0;
    part = p.get().body();
    return used;
}

void response_reader::end_of_stream(error_code& ec) {
    ec = {};
    if (!header_done_ || !state_->parser->need_eof())
        ec = bh::error::partial_message;
    else
        state_->parser->put_eof(ec);
}

bool response_reader::done() const {
    return header_done_ && state_->parser->is_done();
}

int response_reader::status() const {
    return static_cast<int>(state_->parser->get().result_int());
}

std::string_view response_reader::field(std::string_view name) const {
    const auto& fields = state_->parser->get();
    const auto at = fields.find(name);
    if (at == fields.end()) return {};
    return at->value();
}

std::vector<std::string> response_reader::fields(std::string_view name) const {
    std::vector<std::string> out;
    const auto [first, last] = state_->parser->get().equal_range(name);
    for (auto at = first; at != last; ++at) out.emplace_back(at->value());
    return out;
}

bool response_reader::keep_alive() const {
    return state_->parser->keep_alive() && status() != 101; // 101: the connection speaks another protocol from now on
}

} // namespace informer::http::detail
