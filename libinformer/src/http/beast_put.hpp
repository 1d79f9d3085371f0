// Text for a parser of Beast's.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/system/error_code.hpp>

#include <cstddef>
#include <stdexcept>
#include <string_view>

namespace informer::http::detail {

/// As the parser's own, which throws where a single field is larger than its 16-bit offsets can say.
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
