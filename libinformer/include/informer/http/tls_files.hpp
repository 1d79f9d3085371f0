// TLS material in files that may be replaced.
#pragma once

#include <string>

namespace informer::http {

/// The files that parts of a client's `tls_options` come from; empty: not from a file. They are read again every
/// minute, and after a certificate was refused: whatever rotates them need not notify the client. New material is used
/// for new connections. If it cannot be used (a file is gone, a certificate's key has not come yet), the old stays in
/// use, and this is logged once. Of a CA bundle it is enough if one certificate can be used: those that cannot be
/// parsed are left out, with one warning.
class tls_files {
public:
    tls_files() {}
    std::string ca, certificate, key;
};

} // namespace informer::http
