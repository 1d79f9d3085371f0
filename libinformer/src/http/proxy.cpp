#include <informer/http/proxy.hpp>

#include <informer/http/url.hpp>

#include "http/host_text.hpp"
#include "root/one_line.hpp"

#include <boost/beast/core/string.hpp>

#include <algorithm>

namespace informer::http {

namespace {

constexpr std::uint16_t http_port = 80, https_port = 443, socks_port = 1080;
constexpr std::size_t longest_login = 255; // user name or password, in RFC 1929

bool scheme_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' || c == '-' ||
           c == '.';
}

/// The URL for messages: without what stands between the scheme and an '@', wherever that is.
std::string shown(std::string_view url) {
    const auto end = url.find("://");
    const bool scheme = end != std::string_view::npos &&
                        std::all_of(url.begin(), url.begin() + static_cast<std::ptrdiff_t>(end), scheme_character);
    std::string text;
    const auto sign = url.rfind('@');
    if (sign != std::string_view::npos) {
        if (scheme) text = std::string(url.substr(0, end)) + "://";
        url.remove_prefix(sign + 1);
    }
    // If the host was forgotten, what stands in the place of a port is a password.
    const auto colon = url.rfind(':');
    if (colon != std::string_view::npos && colon + 1 < url.size() && url[colon + 1] != '/' &&
        url.find_first_not_of("0123456789/", colon + 1) != std::string_view::npos)
        url = url.substr(0, colon);
    return text + informer::detail::printable(url, 256);
}

proxy refuse(failure& f, std::string_view url, std::string_view reason) {
    f = failure(errc::bad_configuration, "'" + shown(url) + "' is no proxy that can be used: " + std::string(reason));
    return {};
}

bool names_port(std::string_view host_and_port) {
    const auto colon = host_and_port.rfind(':');
    return colon != std::string_view::npos && colon + 1 < host_and_port.size() &&
           host_and_port.find(']', colon) == std::string_view::npos;
}

std::uint16_t usual_port(proxy::protocol p) {
    if (p == proxy::protocol::https) return https_port;
    return p == proxy::protocol::http ? http_port : socks_port;
}

const char* scheme_of(proxy::protocol p) {
    if (p == proxy::protocol::https) return "https://";
    return p == proxy::protocol::http ? "http://" : "socks5://";
}

} // namespace

proxy proxy::parse(std::string_view url, failure& f) {
    f = failure();
    std::string_view scheme = "http", rest = url;
    if (const auto end = url.find("://"); end != std::string_view::npos) {
        scheme = url.substr(0, end);
        rest = url.substr(end + 3);
    }
    proxy p;
    if (boost::beast::iequals(scheme, "http"))
        p.speaks = protocol::http;
    else if (boost::beast::iequals(scheme, "socks5") || boost::beast::iequals(scheme, "socks5h"))
        p.speaks = protocol::socks5;
    else if (boost::beast::iequals(scheme, "https"))
        p.speaks = protocol::https;
    else
        return refuse(f, url, "the scheme must be http, https or socks5");

    std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
    // Otherwise half a password would be taken for a host.
    if (rest.substr(authority.size()).find('@') != std::string_view::npos)
        return refuse(f, url, "a '/', '?' or '#' of the password must be percent-encoded");
    if (const auto sign = authority.rfind('@'); sign != std::string_view::npos) {
        const std::string_view login = authority.substr(0, sign);
        const auto colon = std::min(login.find(':'), login.size());
        p.user = percent_decode(login.substr(0, colon));
        if (colon < login.size()) p.password = percent_decode(login.substr(colon + 1));
        authority.remove_prefix(sign + 1);
    }
    failure bad;
    const auto at = endpoint::parse("http://" + std::string(authority), bad);
    if (bad) return refuse(f, url, "no host, or not a port behind it");
    p.host = at.host;
    p.port = names_port(authority) ? at.port : usual_port(p.speaks);
    if (p.speaks == protocol::socks5 && p.authenticates() &&
        (p.user.empty() || p.user.size() > longest_login || p.password.size() > longest_login))
        return refuse(f, url, "SOCKS takes a user name of 1 to 255 bytes, and a password of up to 255");
    return p;
}

std::string proxy::url() const {
    if (speaks == protocol::none) return {};
    return scheme_of(speaks) + detail::in_url(host) + ":" + std::to_string(port);
}

} // namespace informer::http
