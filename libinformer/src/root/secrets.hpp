// Masks secrets in messages. Others may have put them there: a server or a proxy that echoes a request, a program that
// prints everything.
#pragma once

#include <string>

namespace informer::detail {

/// For every message. Masks bearer tokens, Authorization and Cookie headers, what stands before the '@' of a URL,
/// private keys, and the values of names that can only be secrets (password=…, "client_secret": "…"). Names of
/// objects, fields, files and digests stay.
std::string without_secrets(std::string text);

/// For the output of a program that handles secrets, where masking too much does less harm. Also masks the values of
/// all names that speak of secrets (my-token: …, --secret …) unless they are plain words, and text that looks like
/// a secret by itself: at least 32 letters and digits without a break, as in hex, or at least 24 characters in which
/// upper case, lower case and digits mix. UUIDs, paths and file names stay.
std::string without_likely_secrets(std::string text);

} // namespace informer::detail
