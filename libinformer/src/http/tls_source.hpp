// Certificates that are replaced on disk.
#pragma once

#include <informer/http/client.hpp>
#include <informer/http/tls_files.hpp>
#include <informer/runtime.hpp>

#include <memory>
#include <span>
#include <string>

namespace informer::http::detail {

/// Re-reads the files of a CA, client certificate and key once a minute (client-go: every five). Changed files are used
/// for new connections; open connections go on, as watches end after minutes anyway. If something cannot be used (a
/// file that is gone, a certificate whose key has not come yet), the old material stays in use, and that is logged
/// once. Which CA certificates are left out because they cannot be parsed is logged once as well, also if they come
/// from no file.
class tls_source {
public:
    /// `in_use`: what the files held when they were read last.
    tls_source(tls_options in_use, tls_files files, runtime r);

    /// Replaces the material in `given` by what the files hold now. `f`: bad_configuration, naming the file that cannot
    /// be used.
    static tls_options read(tls_options given, const tls_files& files, failure& f);

    /// To be called before each request, with the clients that share the material.
    void look(std::span<const std::unique_ptr<client>> all);
    /// Sets another client certificate that does not come from a file; empty for none. `f`: as for
    /// http::client::set_tls; then the old one stays in use.
    void use_certificate(client& c, const std::string& certificate_pem, const std::string& key_pem, failure& f);
    const tls_options& in_use() const noexcept { return in_use_; }
    /// Either side refused a certificate: the files are read again before the next request.
    void refused() noexcept { next_read_ = clock::time_point::min(); }

    static constexpr std::chrono::minutes interval = std::chrono::minutes(1);

private:
    void warn() const;

    runtime runtime_;
    tls_files files_;
    tls_options in_use_;
    clock::time_point next_read_;
    bool complained_ = false;
};

} // namespace informer::http::detail
