#include "kubernetes/proxy_rules.hpp"

#include "root/ascii.hpp"

#include <boost/asio/ip/address.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

namespace informer::kubernetes::detail {

using informer::detail::lower;
using informer::detail::trimmed;

namespace {

using address = boost::asio::ip::address;

/// As Go compares addresses: an IPv4 address that is written as an IPv6 one (IPv4-mapped) equals the IPv4 one.
std::optional<address> parse_address(std::string_view text) {
    error_code ec;
    auto a = boost::asio::ip::make_address(std::string(text), ec);
    if (ec) return std::nullopt;
    if (a.is_v6() && a.to_v6().is_v4_mapped())
        a = boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, a.to_v6());
    if (a.is_v6()) { // without the scope
        const auto bytes = a.to_v6().to_bytes();
        a = boost::asio::ip::address_v6(bytes);
    }
    return a;
}

template <class Bytes>
bool same_prefix(const Bytes& a, const Bytes& b, unsigned bits) {
    for (std::size_t i = 0; i < a.size() && bits > 0; ++i) {
        const unsigned here = std::min(bits, 8U);
        const auto mask = static_cast<std::uint8_t>(0xff << (8 - here));
        if ((a[i] & mask) != (b[i] & mask)) return false;
        bits -= here;
    }
    return true;
}

/// Whether the host is in the network `entry` ("10.0.0.0/8"); nullopt: `entry` is no network.
std::optional<bool> in_network(std::string_view entry, const std::optional<address>& host) {
    const auto slash = entry.find('/');
    if (slash == std::string_view::npos || entry.find('%') != std::string_view::npos) return std::nullopt;
    const auto net = parse_address(entry.substr(0, slash));
    const std::string_view digits = entry.substr(slash + 1);
    unsigned bits = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    if (!net || digits.empty() || read.ec != std::errc() || read.ptr != digits.data() + digits.size())
        return std::nullopt;
    if (bits > (net->is_v4() ? 32U : 128U)) return std::nullopt;
    if (!host || host->is_v4() != net->is_v4()) return false;
    return net->is_v4() ? same_prefix(net->to_v4().to_bytes(), host->to_v4().to_bytes(), bits)
                        : same_prefix(net->to_v6().to_bytes(), host->to_v6().to_bytes(), bits);
}

/// "host:port", "[v6]:port"; else all of it is a host. As net.SplitHostPort has it.
std::pair<std::string_view, std::string_view> split_port(std::string_view s) {
    const auto colon = s.rfind(':');
    if (colon == std::string_view::npos) return {s, {}};
    std::string_view host = s.substr(0, colon);
    if (host.starts_with('[')) {
        if (host.find(']') != host.size() - 1) return {s, {}};
        host = host.substr(1, host.size() - 2);
    } else if (host.find(':') != std::string_view::npos) {
        return {s, {}};
    }
    if (host.find_first_of("[]") != std::string_view::npos) return {s, {}};
    return {host, s.substr(colon + 1)};
}

/// One entry of NO_PROXY, in lower case and neither empty nor "*".
bool covers(std::string_view entry, std::string_view host, const std::optional<address>& ip, const std::string& port) {
    if (const auto inside = in_network(entry, ip)) return *inside;
    auto [name, only] = split_port(entry);
    if (name.empty() || (!only.empty() && only != port)) return false;
    if (name.find('%') == std::string_view::npos)
        if (const auto a = parse_address(name)) return ip && *ip == *a;
    // No address is below a domain, whatever its text ends with ("10.0.0.1" and ".0.1"): Go's rule, too, since 1.24.1.
    if (ip) return false;
    if (name.starts_with("*.")) name.remove_prefix(1);
    if (name.front() == '.') return host.ends_with(name);
    return host == name ||
           (host.ends_with(name) && host.size() > name.size() && host[host.size() - name.size() - 1] == '.');
}

struct setting {
    const char* name;
    std::string value;
};

setting first_of(const std::function<std::string(const char*)>& variable, const char* upper, const char* lower_case) {
    setting s{upper, variable(upper)};
    if (s.value.empty()) s = {lower_case, variable(lower_case)};
    return s;
}

} // namespace

bool exempt(const http::endpoint& to, std::string_view no_proxy) {
    const std::string host = lower(to.host), port = std::to_string(to.port), list = lower(no_proxy);
    const auto ip = parse_address(host);
    if (to.is_loopback() || (ip && ip->is_loopback())) return true;
    bool found = false;
    for (std::size_t at = 0; at <= list.size() && !found;) {
        const auto end = std::min(list.find(',', at), list.size());
        const std::string_view entry = trimmed(std::string_view(list).substr(at, end - at), " \t\r\n\v\f");
        at = end + 1;
        found = entry == "*" || (!entry.empty() && covers(entry, host, ip, port));
    }
    return found;
}

http::proxy proxy_of_environment(const http::endpoint& to, const std::function<std::string(const char*)>& variable,
                                 failure& f) {
    f = failure();
    const setting s =
        to.tls ? first_of(variable, "HTTPS_PROXY", "https_proxy") : first_of(variable, "HTTP_PROXY", "http_proxy");
    if (s.value.empty()) return {};
    // In a CGI environment the peer can set HTTP_PROXY, by a header "Proxy".
    if (!to.tls && !variable("REQUEST_METHOD").empty()) {
        f = failure(errc::bad_configuration, std::string(s.name) + " is not taken from a CGI environment");
        return {};
    }
    if (exempt(to, first_of(variable, "NO_PROXY", "no_proxy").value)) return {};
    auto p = http::proxy::parse(s.value, f);
    if (f) f = f.within(s.name);
    return p;
}

} // namespace informer::kubernetes::detail
