// The contents of a cache as one number: equal digests mean equal caches.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <openssl/evp.h>

namespace informer::bench {

/// Sorts the lines and returns their SHA-256 in hexadecimal digits.
inline std::string digest(std::vector<std::string> lines) {
    std::sort(lines.begin(), lines.end());
    EVP_MD_CTX* const context = EVP_MD_CTX_new();
    EVP_DigestInit_ex(context, EVP_sha256(), nullptr);
    for (const std::string& l : lines) EVP_DigestUpdate(context, l.data(), l.size());
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    EVP_DigestFinal_ex(context, sum, &size);
    EVP_MD_CTX_free(context);
    std::string hex;
    for (unsigned i = 0; i < size; ++i) {
        hex += "0123456789abcdef"[sum[i] >> 4];
        hex += "0123456789abcdef"[sum[i] & 15];
    }
    return hex;
}

} // namespace informer::bench
