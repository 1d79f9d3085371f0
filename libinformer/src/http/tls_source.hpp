// Certificates that are replaced on disk.
#pragma once

#include <informer/http/client.hpp>
#include <informer/http/tls_files.hpp>
#include <informer/runtime.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace informer::http::detail {

/// Re-reads the files of a CA, certificate and key: a client's once a minute (client-go: every five). Changed files are
/// used for new connections; open connections go on, as watches end after minutes anyway. If something cannot be used
/// (a file that is gone, a certificate whose key has not come yet), the old material stays in use, and that is logged
/// once for each problem. Which CA certificates are left out because they cannot be parsed is logged once as well, also
/// if they come from no file.
class tls_source {
public:
    /// `in_use`: what the files held when they were read last. They are not read again before `interval` is over.
    tls_source(tls_options in_use, tls_files files, runtime r, clock::duration interval = std::chrono::minutes(1));

    /// Replaces the material in `given` by what the files hold now. `f`: bad_configuration, naming the file that cannot
    /// be used.
    static tls_options read(tls_options given, const tls_files& files, failure& f);

    /// Takes material into use, or refuses it with a failure.
    using taker = std::function<void(const tls_options&, failure&)>;
    /// To be called whenever the material is about to be used. Calls `take` if the files hold something else than what
    /// is in use.
    void look(const taker& take);
    /// The same for clients that share the material: before each request.
    void look(std::span<const std::unique_ptr<client>> all);
    /// Sets another client certificate that does not come from a file; empty for none. `f`: as for
    /// http::client::set_tls; then the old one stays in use.
    void use_certificate(client& c, const std::string& certificate_pem, const std::string& key_pem, failure& f);
    const tls_options& in_use() const noexcept { return in_use_; }
    /// Either side refused a certificate: the files are read again before the next request.
    void refused() noexcept { next_read_ = clock::time_point::min(); }

private:
    std::string replaced_by(const tls_options& fresh) const;
    void warn() const;

    runtime runtime_;
    tls_files files_;
    tls_options in_use_;
    clock::duration interval_;
    clock::time_point next_read_;
    std::string complaint_; ///< what is wrong since the files were last found in order
};

} // namespace informer::http::detail
