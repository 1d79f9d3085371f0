#include "kubernetes/base64.hpp"

#include <openssl/evp.h>

#include <limits>

namespace informer::kubernetes::detail {

namespace {

constexpr std::size_t largest = std::numeric_limits<int>::max() / 4; // OpenSSL counts in int

const unsigned char* bytes_of(const std::string& s) {
    return reinterpret_cast<const unsigned char*>(s.data());
}

unsigned char* bytes_of(std::string& s) {
    return reinterpret_cast<unsigned char*>(s.data());
}

} // namespace

std::optional<std::string> base64_decode(std::string_view text) {
    std::string packed;
    packed.reserve(text.size());
    for (const char c : text)
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t') packed += c;
    if (packed.size() % 4 != 0 || packed.size() > largest) return std::nullopt;
    if (packed.empty()) return std::string();
    const std::size_t data = packed.find_last_not_of('=') + 1;
    const std::size_t padding = packed.size() - data;
    // OpenSSL skips and forgives more than RFC 4648 does.
    if (padding > 2 || packed.find('=') < data || packed.find('-') != std::string::npos) return std::nullopt;
    std::string out(packed.size() / 4 * 3, '\0');
    const int n = EVP_DecodeBlock(bytes_of(out), bytes_of(packed), static_cast<int>(packed.size()));
    if (n < 0 || static_cast<std::size_t>(n) < padding) return std::nullopt;
    out.resize(static_cast<std::size_t>(n) - padding);
    return out;
}

std::string base64_encode(std::string_view bytes) {
    const std::string in(bytes.substr(0, largest));
    std::string out((in.size() + 2) / 3 * 4 + 1, '\0'); // OpenSSL adds a NUL
    const int n = EVP_EncodeBlock(bytes_of(out), bytes_of(in), static_cast<int>(in.size()));
    out.resize(static_cast<std::size_t>(n));
    return out;
}

} // namespace informer::kubernetes::detail
