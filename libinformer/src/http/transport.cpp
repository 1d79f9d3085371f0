#include "http/transport.hpp"

#include "http/tls_stream.hpp"
#include "root/descriptor.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/this_coro.hpp>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <limits>
#include <memory>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <utility>

namespace informer::http::detail {

namespace ssl = asio::ssl;

class tls_context {
public:
    explicit tls_context(ssl::context::method m) : ssl_(m) {}
    ssl::context ssl_;
    bool verify_ = false;
};

namespace {

class plain final : public transport {
public:
    explicit plain(tcp::socket s) : socket_(std::move(s)) {}

    asio::awaitable<void> handshake(error_code& ec) override {
        ec = {};
        co_return;
    }
    asio::awaitable<std::size_t> read_some(asio::mutable_buffer to, error_code& ec) override {
        const auto [e, n] = co_await socket_.async_read_some(to, as_result);
        ec = e;
        co_return n;
    }
    asio::awaitable<std::size_t> write_some(asio::const_buffer from, error_code& ec) override {
        const auto [e, n] = co_await socket_.async_write_some(from, as_result);
        ec = e;
        co_return n;
    }
    asio::awaitable<std::size_t> look(asio::mutable_buffer to, error_code& ec) override {
        ec = {};
        while (!ec) {
            const auto n = informer::detail::uninterrupted(
                [&] { return ::recv(socket_.native_handle(), to.data(), to.size(), MSG_PEEK | MSG_DONTWAIT); });
            if (n > 0) co_return static_cast<std::size_t>(n);
            if (n == 0) {
                ec = asio::error::eof;
            } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
                const auto [e] = co_await socket_.async_wait(tcp::socket::wait_read, as_result);
                ec = e;
                const auto cancellation = co_await asio::this_coro::cancellation_state;
                if (!ec && cancellation.cancelled() != asio::cancellation_type::none)
                    ec = asio::error::operation_aborted;
            } else {
                ec = error_code(errno, boost::system::system_category());
            }
        }
        co_return 0;
    }
    const std::string& problem() const noexcept override { return problem_; }
    bool pending() const noexcept override { return false; }
    bool ended() const noexcept override { return false; }
    peer_identity peer() const override { return {}; }
    tcp::socket& socket() noexcept override { return socket_; }

private:
    tcp::socket socket_;
    std::string problem_;
};

std::string text_of(ASN1_STRING* s) {
    unsigned char* utf8 = nullptr;
    const int n = s ? ASN1_STRING_to_UTF8(&utf8, s) : -1;
    if (n < 0) return {};
    std::string out(reinterpret_cast<const char*>(utf8), static_cast<std::size_t>(n));
    OPENSSL_free(utf8);
    return out;
}

std::string address_of(const ASN1_OCTET_STRING* ip) {
    const unsigned char* data = ASN1_STRING_get0_data(ip);
    if (ASN1_STRING_length(ip) == 4) {
        asio::ip::address_v4::bytes_type b;
        std::copy_n(data, b.size(), b.begin());
        return asio::ip::address_v4(b).to_string();
    }
    if (ASN1_STRING_length(ip) == 16) {
        asio::ip::address_v6::bytes_type b;
        std::copy_n(data, b.size(), b.begin());
        return asio::ip::address_v6(b).to_string();
    }
    return {};
}

/// "localhost, 127.0.0.1": the names a certificate is valid for. A stranger's data: bounded, controls removed.
std::string names_of(X509* certificate) {
    std::string out;
    auto* names = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
    for (int i = 0; names && i < sk_GENERAL_NAME_num(names) && out.size() < 512; ++i) {
        const GENERAL_NAME* n = sk_GENERAL_NAME_value(names, i);
        std::string one;
        if (n->type == GEN_DNS)
            one = text_of(n->d.dNSName);
        else if (n->type == GEN_IPADD)
            one = address_of(n->d.iPAddress);
        if (one.empty()) continue;
        if (!out.empty()) out += ", ";
        for (const char c : one.substr(0, 255)) out += static_cast<unsigned char>(c) < ' ' ? '?' : c;
    }
    GENERAL_NAMES_free(names);
    return out;
}

bool is_address(const std::string& name) {
    error_code ec;
    asio::ip::make_address(name, ec);
    return !ec;
}

class tls final : public transport {
public:
    tls(tcp::socket s, std::shared_ptr<tls_context> c, tls_stream::role role)
        : context_(std::move(c)), stream_(std::move(s), context_->ssl_.native_handle()), role_(role) {}
    /// A client's stream to the server behind the carrier's peer.
    tls(std::shared_ptr<tls> carrier, std::shared_ptr<tls_context> c)
        : context_(std::move(c)), carrier_(std::move(carrier)),
          stream_(carrier_->stream_, context_->ssl_.native_handle()), role_(tls_stream::role::client) {}

    /// What the server's certificate must be valid for.
    void expect(std::string name) {
        name_ = std::move(name);
        // A final dot says that no search list applies; certificates and SNI are without it. (A lone dot stays: an
        // empty name would not be verified.)
        if (name_.size() > 1 && name_.ends_with('.')) name_.pop_back();
        SSL* s = stream_.handle();
        // To OpenSSL an empty name means any name, and one with a leading dot any name that ends so.
        bool known = !name_.empty() && !name_.starts_with('.') && name_.find('\0') == std::string::npos;
        if (known && is_address(name_)) { // SNI carries names only (RFC 6066, section 3)
            if (context_->verify_)
                known = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(s), name_.substr(0, name_.find('%')).c_str()) == 1;
        } else if (known) {
            SSL_set_tlsext_host_name(s, name_.c_str());
            if (context_->verify_) {
                // As in Go: the certificate's subject is never taken for a host name.
                SSL_set_hostflags(s, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
                known = SSL_set1_host(s, name_.c_str()) == 1;
            }
        }
        if (!context_->verify_) return;
        if (!known) problem_ = "the name \"" + name_ + "\" cannot be checked";
        SSL_set_app_data(s, this);
        SSL_set_verify(s, SSL_get_verify_mode(s), note);
    }

    asio::awaitable<void> handshake(error_code& ec) override {
        if (!problem_.empty()) { // otherwise OpenSSL would accept any name
            ec = asio::error::invalid_argument;
            co_return;
        }
        co_await stream_.handshake(role_, ec);
        if (problem_.empty() && is_tls_error(ec)) {
            const int reason = ERR_GET_REASON(static_cast<unsigned long>(ec.value()));
            if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
                reason == SSL_R_PACKET_LENGTH_TOO_LONG)
                problem_ = "no TLS is spoken there";
            else
                problem_ = ec.message();
        }
    }
    asio::awaitable<std::size_t> read_some(asio::mutable_buffer to, error_code& ec) override {
        return stream_.read_some(to, ec);
    }
    asio::awaitable<std::size_t> write_some(asio::const_buffer from, error_code& ec) override {
        return stream_.write_some(from, ec);
    }
    asio::awaitable<std::size_t> look(asio::mutable_buffer to, error_code& ec) override { return stream_.look(to, ec); }
    bool pending() const noexcept override { return stream_.pending(); }
    bool ended() const noexcept override { return stream_.ended(); }
    const std::string& problem() const noexcept override { return problem_; }
    tcp::socket& socket() noexcept override { return stream_.socket(); }

    peer_identity peer() const override {
        peer_identity who;
        SSL* s = stream_.handle();
        X509* certificate = SSL_get0_peer_certificate(s);
        if (!certificate || SSL_get_verify_result(s) != X509_V_OK) return who;
        X509_NAME* subject = X509_get_subject_name(certificate);
        for (int i = -1; (i = X509_NAME_get_index_by_NID(subject, NID_organizationName, i)) >= 0;)
            who.organizations.push_back(text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, i))));
        const int cn = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
        if (cn >= 0) who.common_name = text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, cn)));
        return who;
    }

private:
    /// Receives OpenSSL's verdict on a certificate; the first refusal is kept.
    static int note(int ok, X509_STORE_CTX* v) {
        const auto* s = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(v, SSL_get_ex_data_X509_STORE_CTX_idx()));
        auto& self = *static_cast<tls*>(SSL_get_app_data(s));
        if (ok == 0 && self.problem_.empty()) self.problem_ = self.explain(v);
        return ok;
    }
    std::string explain(X509_STORE_CTX* v) const {
        const int code = X509_STORE_CTX_get_error(v);
        X509* certificate = X509_STORE_CTX_get_current_cert(v);
        if (code == X509_V_ERR_HOSTNAME_MISMATCH || code == X509_V_ERR_IP_ADDRESS_MISMATCH) {
            const std::string names = certificate ? names_of(certificate) : std::string();
            if (names.empty()) return "certificate is not valid for " + name_ + ": it names no host";
            return "certificate is not valid for " + name_ + ", only for " + names;
        }
        return X509_verify_cert_error_string(code);
    }

    std::shared_ptr<tls_context> context_;
    std::shared_ptr<tls> carrier_;
    tls_stream stream_;
    tls_stream::role role_;
    std::string name_, problem_;
};

void refuse(failure& f, std::string_view what, std::string_view why) {
    f = failure(errc::bad_configuration, std::string(what) + " cannot be used: " + std::string(why));
}

void refuse(failure& f, std::string_view what, const error_code& ec) {
    refuse(f, what, ec.message());
}

/// OpenSSL may have been configured so that it can do nothing, for instance with a provider that does not exist.
std::shared_ptr<tls_context> make_context(ssl::context::method m, failure& f) {
    f = failure();
    try {
        return std::make_shared<tls_context>(m);
    } catch (const boost::system::system_error& e) {
        refuse(f, "TLS", e.code());
        return nullptr;
    }
}

std::string of_file(std::string what, const std::string& path) {
    return path.empty() ? what : std::move(what) + " of " + path;
}

/// Chain and key, in PEM.
void use_pair(ssl::context& c, const std::string& certificate, const std::string& key, const std::string& whose,
              const tls_files& from, failure& f) {
    error_code ec;
    c.use_certificate_chain(asio::buffer(certificate), ec);
    if (ec) return refuse(f, of_file(whose + " certificate", from.certificate), ec);
    c.use_private_key(asio::buffer(key), ssl::context::pem, ec); // also checks that the two belong together
    if (ec) return refuse(f, of_file(whose + " key", from.key), ec);
}

/// Which certificates of a CA bundle can be used.
struct authorities {
    std::size_t good = 0, bad = 0;
    error_code why; ///< of the first bad one
};

/// Reads them one by one, so that a bad one, or one that is still being written, does not take the others with it; what
/// is no certificate is skipped. Go's CertPool does the same. `to` may be null.
authorities read_authorities(std::string_view pem, X509_STORE* to) {
    static constexpr std::string_view begin = "-----BEGIN ";
    const auto next = [pem](std::size_t from) { // a line that begins so
        std::size_t at = pem.find(begin, from);
        while (at != std::string_view::npos && at > 0 && pem[at - 1] != '\n') at = pem.find(begin, at + 1);
        return std::min(at, pem.size());
    };
    authorities all;
    for (std::size_t at = next(0), end = 0; at < pem.size(); at = end) {
        end = next(at + begin.size());
        const std::string_view block = pem.substr(at, end - at), kind = block.substr(begin.size());
        if (!kind.starts_with("CERTIFICATE-----") && !kind.starts_with("X509 CERTIFICATE-----")) continue;
        ERR_clear_error();
        const auto size = static_cast<int>(std::min<std::size_t>(block.size(), std::numeric_limits<int>::max()));
        const std::unique_ptr<BIO, decltype(&BIO_free)> in(BIO_new_mem_buf(block.data(), size), BIO_free);
        const std::unique_ptr<X509, decltype(&X509_free)> one(
            in ? PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr) : nullptr, X509_free);
        if (one && (!to || X509_STORE_add_cert(to, one.get()) == 1)) {
            ++all.good;
        } else if (++all.bad == 1) {
            all.why = error_code(static_cast<int>(ERR_get_error()), asio::error::get_ssl_category());
        }
    }
    ERR_clear_error(); // what is left would count as an error of the next connection
    return all;
}

void trust(ssl::context& c, std::string_view pem, std::string_view what, failure& f) {
    const authorities found = read_authorities(pem, SSL_CTX_get_cert_store(c.native_handle()));
    if (found.good > 0) return;
    if (found.bad > 0) return refuse(f, what, found.why);
    refuse(f, what, "it holds no certificate");
}

/// Whether this issuer may have signed that certificate. OpenSSL goes by name and key identifiers and takes the first
/// issuer that fits. If a bundle has two authorities of one name, as during a rotation, and no identifiers, that may be
/// the wrong one; then the signature decides. It is checked only for issuers that we trust: a peer may send hundreds of
/// certificates that fit each other, and no stranger shall make us check as many signatures.
int may_have_signed(X509_STORE_CTX* of, X509* certificate, X509* issuer) {
    const int fits = X509_check_issued(issuer, certificate);
    // OpenSSL's own rule; what the key may be used for is checked later.
    if (fits != X509_V_OK && fits != X509_V_ERR_KEYUSAGE_NO_CERTSIGN) return 0;
    if (X509_get0_subject_key_id(issuer) && X509_get0_authority_key_id(certificate)) return 1;
    STACK_OF(X509)* const sent = X509_STORE_CTX_get0_untrusted(of);
    for (int i = 0; i < sk_X509_num(sent); ++i)
        if (sk_X509_value(sent, i) == issuer) return 1;
    ERR_set_mark();
    const bool signed_by = X509_verify(certificate, X509_get0_pubkey(issuer)) == 1;
    ERR_pop_to_mark();
    return signed_by ? 1 : 0;
}

void harden(ssl::context& c) {
    X509_STORE_set_check_issued(SSL_CTX_get_cert_store(c.native_handle()), may_have_signed);
    SSL_CTX_set_min_proto_version(c.native_handle(), TLS1_2_VERSION);
    SSL_CTX_set_mode(c.native_handle(), SSL_MODE_RELEASE_BUFFERS); // an idle watch need not hold 34 KB
    // An encrypted key is an error, never a question on the terminal.
    error_code ec;
    c.set_password_callback([](std::size_t, ssl::context::password_purpose) { return std::string(); }, ec);
}

} // namespace

std::shared_ptr<tls_context> make_client_context(const tls_options& o, failure& f) {
    auto context = make_context(ssl::context::tls_client, f);
    if (f) return nullptr;
    ssl::context& c = context->ssl_;
    harden(c);
    static constexpr std::array<unsigned char, 9> alpn = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
    SSL_CTX_set_alpn_protos(c.native_handle(), alpn.data(), alpn.size());

    error_code ec;
    context->verify_ = !o.insecure_;
    c.set_verify_mode(o.insecure_ ? ssl::verify_none : ssl::verify_peer, ec);
    if (!o.ca_pem_.empty()) {
        trust(c, o.ca_pem_, of_file("CA certificate", o.from_.ca), f);
        // As in Go: what the user names is trusted, be it a root, an intermediate or the server's own certificate.
        X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(c.native_handle()), X509_V_FLAG_PARTIAL_CHAIN);
    } else if (!o.insecure_) {
        c.set_default_verify_paths(ec);
        if (ec) refuse(f, "the system's CA certificates", ec);
    }
    if (!f && o.certificate_pem_.empty() != o.key_pem_.empty())
        f = failure(errc::bad_configuration,
                    o.key_pem_.empty() ? "client certificate without its key" : "client key without its certificate");
    if (!f && !o.certificate_pem_.empty()) use_pair(c, o.certificate_pem_, o.key_pem_, "client", o.from_, f);
    if (f) return nullptr;
    return context;
}

std::shared_ptr<tls_context> make_server_context(const tls_options& o, failure& f) {
    auto context = make_context(ssl::context::tls_server, f);
    if (f) return nullptr;
    ssl::context& c = context->ssl_;
    harden(c);
    use_pair(c, o.certificate_pem_, o.key_pem_, "server", o.from_, f);
    if (!f && !o.ca_pem_.empty()) {
        error_code ec;
        trust(c, o.ca_pem_, of_file("client CA certificate", o.from_.ca), f);
        c.set_verify_mode(ssl::verify_peer, ec);
        // A bad certificate makes the peer a stranger, it does not break the handshake: the handler answers 401, as
        // kube-apiserver does. OpenSSL keeps the verdict; peer() checks it.
        c.set_verify_callback([](bool, ssl::verify_context&) { return true; }, ec);
        static constexpr std::array<unsigned char, 8> session = {'i', 'n', 'f', 'o', 'r', 'm', 'e', 'r'};
        SSL_CTX_set_session_id_context(c.native_handle(), session.data(), session.size());
    }
    if (f) return nullptr;
    return context;
}

std::string left_out_authorities(const tls_options& o) {
    const authorities found = read_authorities(o.ca_pem_, nullptr);
    if (found.good == 0 || found.bad == 0) return {};
    return of_file("CA certificates", o.from_.ca) + ": " + std::to_string(found.bad) + " of " +
           std::to_string(found.good + found.bad) +
           " cannot be read and are left out; the first: " + found.why.message();
}

std::shared_ptr<transport> plain_transport(tcp::socket s) {
    return std::make_shared<plain>(std::move(s));
}

std::shared_ptr<transport> tls_client_transport(std::shared_ptr<transport> over, std::shared_ptr<tls_context> c,
                                                std::string name) {
    std::shared_ptr<tls> t;
    if (auto carrier = std::dynamic_pointer_cast<tls>(over))
        t = std::make_shared<tls>(std::move(carrier), std::move(c));
    else
        t = std::make_shared<tls>(std::move(over->socket()), std::move(c), tls_stream::role::client);
    t->expect(std::move(name));
    return t;
}

std::shared_ptr<transport> tls_server_transport(tcp::socket s, std::shared_ptr<tls_context> c) {
    return std::make_shared<tls>(std::move(s), std::move(c), tls_stream::role::server);
}

bool is_tls_error(const error_code& ec) noexcept {
    return ec.failed() && ec.category() == asio::error::get_ssl_category();
}

bool is_tls_alert(const error_code& ec) noexcept {
    const auto code = static_cast<unsigned long>(ec.value());
    return is_tls_error(ec) && ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) >= SSL_AD_REASON_OFFSET;
}

void transport::close() noexcept {
    error_code ignored;
    socket().close(ignored);
}

void transport::finish_sending() noexcept {
    error_code ignored;
    socket().shutdown(tcp::socket::shutdown_send, ignored);
}

void transport::reset() noexcept {
    error_code ignored;
    const asio::socket_base::linger at_once(true, 0);
    socket().set_option(at_once, ignored);
    socket().close(ignored);
}

bool transport::quiet() noexcept {
    if (!socket().is_open() || pending() || ended()) return false;
    char byte;
    const auto n = ::recv(socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

std::string shown(const tcp::endpoint& e) {
    asio::ip::address a = e.address();
    if (a.is_v6() && a.to_v6().is_v4_mapped()) a = asio::ip::make_address_v4(asio::ip::v4_mapped, a.to_v6());
    const bool v6 = a.is_v6();
    return (v6 ? "[" : "") + a.to_string() + (v6 ? "]:" : ":") + std::to_string(e.port());
}

void tune(tcp::socket& s) noexcept {
    error_code ignored;
    ::fcntl(s.native_handle(), F_SETFD, FD_CLOEXEC); // a credential plugin must not keep our connections open
    s.set_option(tcp::no_delay(true), ignored);
    s.set_option(asio::socket_base::keep_alive(true), ignored);
#if defined(TCP_KEEPIDLE) && defined(TCP_KEEPINTVL) && defined(TCP_KEEPCNT)
    const auto set = [&s](int option, int value) {
        ::setsockopt(s.native_handle(), IPPROTO_TCP, option, &value, sizeof value);
    };
    set(TCP_KEEPIDLE, 30); // seconds of silence; client-go's dialer has 30 as well
    set(TCP_KEEPINTVL, 10);
    set(TCP_KEEPCNT, 3);
#endif
}

} // namespace informer::http::detail
