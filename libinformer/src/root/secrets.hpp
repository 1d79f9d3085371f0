// What nobody may read in a message, though somebody put it there: a server or a proxy that echoes a request, a program that tells all.
#pragma once

#include <string>

namespace informer::detail {

/// Of every message: bearer tokens, Authorization and Cookie headers, what stands before the '@' of a URL, private keys, and the values of
/// names that can only be secrets (password=…, "client_secret": "…"). Names of objects, fields, files and digests stay.
std::string without_secrets(std::string text);

/// Of what a program wrote that deals in secrets, where less is at stake: also the values of all names that speak of secrets
/// (my-token: …, --secret …) unless they are plain words, and what looks like one by itself: letters and digits of at least 32 without a
/// break, which hex is, or of at least 24 where cases mix. UUIDs, paths and file names stay.
std::string without_likely_secrets(std::string text);

} // namespace informer::detail
