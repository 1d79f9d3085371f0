#include "http/tls_source.hpp"

#include "http/transport.hpp"
#include "root/file.hpp"

#include <utility>

namespace informer::http::detail {

namespace {

using informer::detail::waiting;

/// Leaves `into` as it is if no file is named.
bool read_pem(const std::string& path, std::string& into, waiting how, std::string& why) {
    if (path.empty()) return true;
    const auto text = informer::detail::read_file(path, why, how);
    if (text && text->find("-----BEGIN ") != std::string::npos) {
        into = *text;
        return true;
    }
    why = path + ": " + (text ? "holds no PEM" : why);
    return false;
}

bool read_all(const tls_files& files, tls_options& into, waiting how, std::string& why) {
    return read_pem(files.ca, into.ca_pem_, how, why) && read_pem(files.certificate, into.certificate_pem_, how, why) &&
           read_pem(files.key, into.key_pem_, how, why);
}

} // namespace

tls_source::tls_source(tls_options in_use, tls_files files, runtime r, clock::duration interval)
    : runtime_(std::move(r)), files_(std::move(files)), in_use_(std::move(in_use)), interval_(interval),
      next_read_(runtime_.clock().now() + interval) {
    in_use_.from_ = files_;
    for (std::string* path : {&files_.ca, &files_.certificate, &files_.key})
        if (informer::detail::is_read_once(*path)) path->clear();
    warn();
}

tls_options tls_source::read(tls_options given, const tls_files& files, failure& f) {
    f = failure();
    std::string why;
    if (!read_all(files, given, waiting::may, why)) f = failure(errc::bad_configuration, why);
    return given;
}

/// The names of the files that hold something else than what is in use.
std::string tls_source::replaced_by(const tls_options& fresh) const {
    std::string names;
    const auto compare = [&names](const std::string& path, const std::string& a, const std::string& b) {
        if (a != b) names += (names.empty() ? "" : ", ") + path;
    };
    compare(files_.ca, fresh.ca_pem_, in_use_.ca_pem_);
    compare(files_.certificate, fresh.certificate_pem_, in_use_.certificate_pem_);
    compare(files_.key, fresh.key_pem_, in_use_.key_pem_);
    return names;
}

void tls_source::look(std::span<const std::unique_ptr<client>> all) {
    look([all](const tls_options& fresh, failure& f) {
        for (const auto& c : all)
            if (!f) c->set_tls(fresh, f); // what one client accepts, all accept
    });
}

void tls_source::look(const taker& take) {
    if (files_.ca.empty() && files_.certificate.empty() && files_.key.empty()) return;
    const auto now = runtime_.clock().now();
    if (now < next_read_) return;
    next_read_ = now + interval_;
    tls_options fresh = in_use_;
    std::string why;
    if (read_all(files_, fresh, waiting::never, why)) {
        const std::string names = replaced_by(fresh);
        failure f;
        if (!names.empty()) take(fresh, f);
        if (!f) {
            if (!names.empty())
                runtime_.log(log_level::info, "certificates were replaced on disk: new connections use " + names);
            const bool other_ca = fresh.ca_pem_ != in_use_.ca_pem_;
            in_use_ = std::move(fresh);
            complaint_.clear();
            if (other_ca) warn();
            return;
        }
        why = f.message();
    }
    if (why == complaint_) return;
    runtime_.log(log_level::warning, "certificates on disk: " + why + "; those read before stay in use");
    complaint_ = std::move(why);
}

void tls_source::warn() const {
    if (!runtime_.logs(log_level::warning)) return;
    if (const std::string what = left_out_authorities(in_use_); !what.empty()) runtime_.log(log_level::warning, what);
}

void tls_source::use_certificate(client& c, const std::string& certificate_pem, const std::string& key_pem,
                                 failure& f) {
    tls_options fresh = in_use_;
    fresh.certificate(certificate_pem, key_pem);
    fresh.from_.certificate.clear();
    fresh.from_.key.clear();
    c.set_tls(fresh, f);
    if (!f) in_use_ = std::move(fresh);
}

} // namespace informer::http::detail
