// TLS material that stands in files, and is replaced there.
#pragma once

#include <string>

namespace informer::http {

/// The files that parts of a client's `tls_options` come from; empty: it does not come from a file. They are read again every minute,
/// and after a certificate was refused: what rotates them need not tell us. What is new is used for new connections; what cannot be used
/// (a file that is gone, a certificate whose key has not come yet) leaves the old in use, and is logged once.
class tls_files {
public:
    tls_files() {}
    std::string ca, certificate, key;
};

} // namespace informer::http
