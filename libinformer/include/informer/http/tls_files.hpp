// TLS material in files that may be replaced.
#pragma once

#include <string>

namespace informer::http {

/// The files that parts of a client's `tls_options` or of a `server_tls` come from; empty: not from a file. Whatever
/// rotates them need not notify anybody: a client reads them again every minute, and after a certificate was refused; a
/// server reads them again for a new connection, if it has not done so for ten seconds. New material is used for new
/// connections. If it cannot be used (a file is gone, a certificate's key has not come yet), the old stays in use, this
/// is logged once for each problem, and it is tried again after the same time. Of a CA bundle it is enough if one
/// certificate can be used: those that cannot be parsed are left out, with one warning. A file that is a pipe at the
/// start is read once; a pipe that takes the place of a file later is not waited for.
class tls_files {
public:
    tls_files() {}
    std::string ca, certificate, key;
};

} // namespace informer::http
