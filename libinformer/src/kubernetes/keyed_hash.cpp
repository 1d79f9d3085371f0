#include "kubernetes/keyed_hash.hpp"

#include <informer/error.hpp>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

namespace informer::kubernetes::detail {

keyed_hash::keyed_hash() {
    if (RAND_bytes(key_.data(), static_cast<int>(key_.size())) != 1)
        throw error(errc::bad_configuration, "the system has no random numbers");
}

std::string keyed_hash::operator()(std::string_view text) const {
    std::string made(32, '\0');
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    auto* into = reinterpret_cast<unsigned char*>(made.data());
    if (HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()), bytes, text.size(), into, nullptr) == nullptr)
        throw error(errc::bad_configuration, "SHA-256 cannot be computed");
    return made;
}

} // namespace informer::kubernetes::detail
