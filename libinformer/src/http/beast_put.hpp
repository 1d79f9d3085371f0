// Feeds text to a parser of Beast.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/system/error_code.hpp>

#include <cstddef>
#include <stdexcept>
#include <string_view>

namespace informer::http::detail {

/// Like the parser's own `put`, which throws if a single field is larger than its 16-bit offsets can say; here that is
/// header_limit.
template <class Parser>
std::size_t put(Parser& p, std::string_view in, boost::system::error_code& ec) {
    try {
        return p.put(boost::asio::const_buffer(in.data(), in.size()), ec);
    } catch (const std::length_error&) {
        ec = boost::beast::http::error::header_limit;
        return 0;
    }
}

} // namespace informer::http::detail
