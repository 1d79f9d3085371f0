// Certificates that are replaced on disk.
#pragma once

#include <informer/kubernetes/config.hpp>
#include <informer/runtime.hpp>

#include <string>

namespace informer::kubernetes::detail {

/// Re-reads the files of a configuration's CA, client certificate and key once a minute (client-go: every five). What changed is
/// used for new connections; those that are open go on, as watches end after minutes anyway. What cannot be used (a file that is
/// gone, a certificate whose key has not come yet) leaves the old ones in use, and says so once.
class tls_source {
public:
    tls_source(const client_config& c, runtime r);

    /// Before each request.
    void look(http::client& c);
    /// Another client certificate, from elsewhere than a file; empty for none. `f`: as http::client::set_tls, and the old one stays.
    void use_certificate(http::client& c, const std::string& certificate_pem, const std::string& key_pem, failure& f);
    const http::tls_options& in_use() const noexcept { return in_use_; }
    /// The server, or we, refused a certificate: look at the files before the next request.
    void refused() noexcept { next_read_ = clock::time_point::min(); }

    static constexpr std::chrono::minutes interval = std::chrono::minutes(1);

private:
    runtime runtime_;
    tls_files files_;
    http::tls_options in_use_;
    clock::time_point next_read_;
    bool complained_ = false;
};

} // namespace informer::kubernetes::detail
