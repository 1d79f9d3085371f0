#include <informer/http/url.hpp>

#include "http/host_text.hpp"
#include "root/one_line.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/url/encode.hpp>
#include <boost/url/parse.hpp>
#include <boost/url/rfc/unreserved_chars.hpp>
#include <boost/url/url_view.hpp>

#include <algorithm>

namespace informer::http {

using informer::detail::printable;

namespace {

constexpr std::uint16_t http_port = 80, https_port = 443;

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/// The address as errors show it, never with a password.
std::string shown(std::string_view url) {
    if (url.find('@') != std::string_view::npos) return "the server's address";
    return "'" + printable(url, 256) + "'";
}

endpoint refuse(failure& f, std::string_view url, std::string_view reason) {
    f = failure(errc::bad_configuration, shown(url) + ": " + std::string(reason));
    return {};
}

} // namespace

endpoint endpoint::parse(std::string_view url, failure& f) {
    f = failure();
    if (url.empty()) return refuse(f, url, "the address is empty");
    std::string text(url);
    if (url.find("://") == std::string_view::npos) text.insert(0, "http://");
    const auto parsed = boost::urls::parse_uri(text);
    if (!parsed) return refuse(f, url, "not a URL");
    const boost::urls::url_view& u = *parsed;

    endpoint e;
    if (u.scheme_id() == boost::urls::scheme::https)
        e.tls = true;
    else if (u.scheme_id() != boost::urls::scheme::http)
        return refuse(f, url, "the scheme must be http or https");
    if (u.has_userinfo()) return refuse(f, url, "a user name or password in the address is not supported");
    if (u.has_query() || u.has_fragment())
        return refuse(f, url, "a query or fragment makes no sense in a server's address");
    const bool in_brackets = u.host_type() == boost::urls::host_type::ipv6;
    e.host = in_brackets ? u.host_address() : u.host();
    if (e.host.empty()) return refuse(f, url, "the host is missing");
    // Percent-encoded it could hold anything, such as the '@' or the ':' of another address. Host headers, certificates and
    // resolvers want names outside ASCII in Punycode ("xn--…").
    if (!in_brackets && !std::all_of(e.host.begin(), e.host.end(), boost::urls::unreserved_chars))
        return refuse(f, url, "the host has a character that no host name has");
    if (u.has_port() && !u.port().empty()) {
        e.port = u.port_number();
        if (e.port == 0) // Boost.URL also returns 0 if the number does not fit
            return refuse(f, url, "the port must be between 1 and 65535");
    } else {
        e.port = e.tls ? https_port : http_port;
    }
    e.prefix = std::string(u.encoded_path());
    while (!e.prefix.empty() && e.prefix.back() == '/') e.prefix.pop_back();
    return e;
}

std::string endpoint::host_header() const {
    std::string text = detail::in_url(host);
    if (port != (tls ? https_port : http_port)) text += ":" + std::to_string(port);
    return text;
}

std::string endpoint::url() const {
    return (tls ? "https://" : "http://") + host_header() + prefix;
}

bool endpoint::host_is_ip() const {
    error_code ec;
    boost::asio::ip::make_address(host, ec);
    return !ec;
}

bool endpoint::is_loopback() const {
    if (host == "localhost") return true;
    error_code ec;
    const auto address = boost::asio::ip::make_address(host, ec);
    return !ec && address.is_loopback();
}

std::string percent_encode(std::string_view s) {
    // Not the overload that makes the string: it is noexcept, so a lack of memory would end the process.
    std::string out(boost::urls::encoded_size(s, boost::urls::unreserved_chars), '\0');
    boost::urls::encode(out.data(), out.size(), s, boost::urls::unreserved_chars);
    return out;
}

std::string percent_decode(std::string_view s) {
    std::string out;
    out.reserve(s.size());
    for (std::size_t i = 0; i < s.size(); ++i) {
        const int high = s[i] == '%' && i + 2 < s.size() ? hex_digit(s[i + 1]) : -1;
        const int low = high >= 0 ? hex_digit(s[i + 2]) : -1;
        if (low >= 0) {
            out += static_cast<char>(high * 16 + low);
            i += 2;
        } else {
            out += s[i]; // a stray '%' stands for itself
        }
    }
    return out;
}

} // namespace informer::http
