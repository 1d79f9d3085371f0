#include "kubernetes/tls_source.hpp"

#include "kubernetes/file.hpp"

#include <utility>

namespace informer::kubernetes::detail {

namespace {

/// Nothing where no file is named.
bool read_pem(const std::string& path, std::string& into, std::string& why) {
    if (path.empty()) return true;
    const auto text = read_file(path, why);
    if (text && text->find("-----BEGIN ") != std::string::npos) {
        into = *text;
        return true;
    }
    why = path + ": " + (text ? "holds no PEM" : why);
    return false;
}

} // namespace

tls_source::tls_source(const client_config& c, runtime r)
    : runtime_(std::move(r)), files_(c.tls_files), in_use_(c.tls), next_read_(runtime_.clock().now() + interval) {}

void tls_source::look(http::client& c) {
    if (files_.ca.empty() && files_.certificate.empty() && files_.key.empty()) return;
    const auto now = runtime_.clock().now();
    if (now < next_read_) return;
    next_read_ = now + interval;
    http::tls_options fresh = in_use_;
    std::string why;
    if (read_pem(files_.ca, fresh.ca_pem_, why) && read_pem(files_.certificate, fresh.certificate_pem_, why) &&
        read_pem(files_.key, fresh.key_pem_, why)) {
        const bool same = fresh.ca_pem_ == in_use_.ca_pem_ && fresh.certificate_pem_ == in_use_.certificate_pem_ &&
                          fresh.key_pem_ == in_use_.key_pem_;
        failure f;
        if (!same) c.set_tls(fresh, f);
        if (!f) {
            if (!same) runtime_.log(log_level::info, "certificates were replaced on disk: new connections use them");
            in_use_ = std::move(fresh);
            complained_ = false;
            return;
        }
        why = f.message();
    }
    if (!complained_) runtime_.log(log_level::warning, "certificates on disk: " + why + "; those read before stay in use");
    complained_ = true;
}

void tls_source::use_certificate(http::client& c, const std::string& certificate_pem, const std::string& key_pem,
                                 failure& f) {
    http::tls_options fresh = in_use_;
    fresh.certificate(certificate_pem, key_pem);
    c.set_tls(fresh, f);
    if (!f) in_use_ = std::move(fresh);
}

} // namespace informer::kubernetes::detail
