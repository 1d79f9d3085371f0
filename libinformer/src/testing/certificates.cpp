#include <informer/testing/certificates.hpp>

#include <informer/error.hpp>

#include <boost/asio/ip/address.hpp>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string_view>

namespace informer::testing {

namespace {

template <auto F>
struct freer {
    template <class T>
    void operator()(T* p) const {
        F(p);
    }
};
using key = std::unique_ptr<EVP_PKEY, freer<&EVP_PKEY_free>>;
using certificate = std::unique_ptr<X509, freer<&X509_free>>;
using bio = std::unique_ptr<BIO, freer<&BIO_free_all>>;
using extension = std::unique_ptr<X509_EXTENSION, freer<&X509_EXTENSION_free>>;

[[noreturn]] void refuse(const char* doing) {
    char reason[256];
    ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
    throw error(errc::tls_failed, std::string("make a certificate: ") + doing + " (" + reason + ")");
}

void must(bool ok, const char* doing) {
    if (!ok) refuse(doing);
}

key new_key() {
    key k(EVP_EC_gen("P-256"));
    must(k != nullptr, "key");
    return k;
}

std::string text_of(BIO* b) {
    char* data = nullptr;
    const long n = BIO_get_mem_data(b, &data);
    return std::string(data, static_cast<std::size_t>(n));
}

key_pair to_pem(X509* c, EVP_PKEY* k) {
    key_pair p;
    const bio cert(BIO_new(BIO_s_mem()));
    must(cert && PEM_write_bio_X509(cert.get(), c) == 1, "write");
    p.certificate_pem = text_of(cert.get());
    const bio priv(BIO_new(BIO_s_mem()));
    must(priv && PEM_write_bio_PrivateKey(priv.get(), k, nullptr, nullptr, 0, nullptr, nullptr) == 1, "write");
    p.key_pem = text_of(priv.get());
    return p;
}

void add_name(X509_NAME* to, const char* field, const std::string& value) {
    must(X509_NAME_add_entry_by_txt(to, field, MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(value.data()),
                                    static_cast<int>(value.size()), -1, 0) == 1,
         "name");
}

void add_extension(X509* to, X509* issuer, int nid, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, to, nullptr, nullptr, 0);
    const extension e(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
    must(e && X509_add_ext(to, e.get(), -1) == 1, "extension");
}

/// A certificate without names, extensions and signature.
certificate blank(EVP_PKEY* k, std::chrono::seconds since, std::chrono::seconds until) {
    certificate c(X509_new());
    must(c != nullptr, "certificate");
    X509_set_version(c.get(), X509_VERSION_3);
    unsigned char serial[16];
    must(RAND_bytes(serial, sizeof serial) == 1, "serial number");
    serial[0] &= 0x7f;
    const std::unique_ptr<BIGNUM, freer<&BN_free>> number(BN_bin2bn(serial, sizeof serial, nullptr));
    must(number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(c.get())) != nullptr, "serial number");
    X509_gmtime_adj(X509_getm_notBefore(c.get()), static_cast<long>(since.count()));
    X509_gmtime_adj(X509_getm_notAfter(c.get()), static_cast<long>(until.count()));
    must(X509_set_pubkey(c.get(), k) == 1, "public key");
    return c;
}

struct signer {
    certificate cert;
    key priv;
};

signer read(const key_pair& p) {
    signer s;
    const bio cert(BIO_new_mem_buf(p.certificate_pem.data(), static_cast<int>(p.certificate_pem.size())));
    s.cert.reset(PEM_read_bio_X509(cert.get(), nullptr, nullptr, nullptr));
    const bio priv(BIO_new_mem_buf(p.key_pem.data(), static_cast<int>(p.key_pem.size())));
    s.priv.reset(PEM_read_bio_PrivateKey(priv.get(), nullptr, nullptr, nullptr));
    must(s.cert && s.priv, "read the authority");
    return s;
}

void sign(X509* c, X509* issuer, EVP_PKEY* by) {
    must(X509_set_issuer_name(c, X509_get_subject_name(issuer)) == 1, "issuer");
    must(X509_sign(c, by, EVP_sha256()) > 0, "sign");
}

void add_leaf_extensions(X509* c, X509* issuer, const char* usage) {
    add_extension(c, issuer, NID_basic_constraints, "critical,CA:FALSE");
    add_extension(c, issuer, NID_key_usage, "critical,digitalSignature");
    add_extension(c, issuer, NID_ext_key_usage, usage);
    add_extension(c, issuer, NID_subject_key_identifier, "hash");
    add_extension(c, issuer, NID_authority_key_identifier, "keyid:always");
}

/// One element of subjectAltName in OpenSSL's configuration syntax, where a comma would begin another element.
std::string alternative(const std::string& name) {
    if (name.empty() || name.find_first_of(",\n\r") != std::string::npos)
        throw error(errc::tls_failed, "make a certificate: '" + name + "' is no host name");
    boost::system::error_code ec;
    boost::asio::ip::make_address(name, ec);
    return (ec ? "DNS:" : "IP:") + name;
}

} // namespace

certificate_authority::certificate_authority(std::string common_name) {
    const key k = new_key();
    const certificate c = blank(k.get(), std::chrono::hours(-1), std::chrono::hours(24 * 3650));
    add_name(X509_get_subject_name(c.get()), "CN", common_name);
    add_extension(c.get(), c.get(), NID_basic_constraints, "critical,CA:TRUE");
    add_extension(c.get(), c.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
    add_extension(c.get(), c.get(), NID_subject_key_identifier, "hash");
    sign(c.get(), c.get(), k.get());
    self_ = to_pem(c.get(), k.get());
}

key_pair certificate_authority::server(std::vector<std::string> names, std::chrono::hours valid_for,
                                       std::chrono::hours valid_since) const {
    const signer s = read(self_);
    const key k = new_key();
    const certificate c = blank(k.get(), valid_since, valid_since + valid_for);
    add_name(X509_get_subject_name(c.get()), "CN", certificate_authority::server_common_name);
    std::string all;
    for (const auto& n : names) all += (all.empty() ? "" : ",") + alternative(n);
    if (!all.empty()) add_extension(c.get(), s.cert.get(), NID_subject_alt_name, all);
    add_leaf_extensions(c.get(), s.cert.get(), "serverAuth");
    sign(c.get(), s.cert.get(), s.priv.get());
    return to_pem(c.get(), k.get());
}

key_pair certificate_authority::client(std::string common_name, std::vector<std::string> organizations) const {
    const signer s = read(self_);
    const key k = new_key();
    const certificate c = blank(k.get(), std::chrono::hours(-1), std::chrono::hours(24 * 365));
    for (const auto& o : organizations) add_name(X509_get_subject_name(c.get()), "O", o);
    add_name(X509_get_subject_name(c.get()), "CN", common_name);
    add_leaf_extensions(c.get(), s.cert.get(), "clientAuth");
    sign(c.get(), s.cert.get(), s.priv.get());
    return to_pem(c.get(), k.get());
}

} // namespace informer::testing
