// TLS: what is accepted, what is refused, and whether the message says why.
#include "http/tls_stream.hpp"

#include "support.hpp"
#include "support/sanitizer.hpp"

#include <boost/asio/ssl/context.hpp>

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <ctime>

using namespace http_test;

namespace {

asio::awaitable<void> who(request_ptr q, response_ptr r) {
    std::string text = q->client_common_name;
    for (const auto& o : q->client_organizations) text += "/" + o;
    co_await r->send(200, "text/plain", std::move(text));
}

/// One request to a fresh server: the body, or the failure.
struct outcome {
    outcome() {}
    failure f;
    std::string body;
};

asio::awaitable<void> ask(http::server_tls server, http::tls_options t, std::string host,
                          std::shared_ptr<outcome> out) {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, who, http::server_options().tls(std::move(server)));
    auto c = b.tls_client(std::move(t), std::move(host));
    http::request q("GET", "/");
    auto r = co_await c->send(std::move(q), out->f);
    if (!out->f) out->body = co_await r.read_all(1000, out->f);
    CHECK(c->figures().idle == (out->f ? 0u : 1u));
    co_await b.server.stop();
}

outcome run(http::server_tls server, http::tls_options t, std::string host = "127.0.0.1") {
    const auto out = std::make_shared<outcome>();
    run_test(ask(std::move(server), std::move(t), std::move(host), out));
    UNSCOPED_INFO(out->f.what());
    return *out;
}

bool says(const failure& f, std::string_view text) {
    return f.what().find(text) != std::string::npos;
}

http::tls_options trusting() {
    return http::tls_options().ca(authority().certificate_pem());
}

/// OpenSSL's callback for SNI, which notes the name that the client sent.
int remember_sni(SSL* s, int*, void* to) {
    const char* name = SSL_get_servername(s, TLSEXT_NAMETYPE_host_name);
    *static_cast<std::string*>(to) = name ? name : "(none)";
    return SSL_TLSEXT_ERR_OK;
}

/// OpenSSL as server on a plain socket, over memory: sees the first flight of the client and no more.
asio::awaitable<void> read_client_hello(std::shared_ptr<tcp::socket> s, std::shared_ptr<std::string> sni,
                                        std::shared_ptr<int> highest) {
    std::vector<unsigned char> hello(16384);
    const auto [ec, n] = co_await s->async_read_some(asio::buffer(hello), as_result);
    SSL_CTX* c = SSL_CTX_new(TLS_server_method());
    SSL_CTX_set_max_proto_version(c, *highest);
    SSL_CTX_set_min_proto_version(c, TLS1_VERSION);
    SSL_CTX_set_tlsext_servername_callback(c, remember_sni);
    SSL_CTX_set_tlsext_servername_arg(c, sni.get());
    SSL* ssl = SSL_new(c);
    BIO* in = BIO_new(BIO_s_mem());
    BIO* out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, in, out);
    BIO_write(in, hello.data(), static_cast<int>(n));
    SSL_accept(ssl);
    ERR_clear_error();
    char* answer = nullptr;
    const long size = BIO_get_mem_data(out, &answer);
    std::string bytes(answer, static_cast<std::size_t>(size));
    SSL_free(ssl);
    SSL_CTX_free(c);
    if (!ec) co_await write_all(s, std::move(bytes));
}

struct hello_script {
    std::shared_ptr<std::string> sni;
    std::shared_ptr<int> highest = std::make_shared<int>(TLS1_3_VERSION);
    asio::awaitable<void> operator()(std::shared_ptr<tcp::socket> s) const {
        return read_client_hello(s, sni, highest);
    }
};

asio::awaitable<void> sni_of(std::string host, std::string override_name, std::shared_ptr<std::string> sni) {
    const auto ex = co_await asio::this_coro::executor;
    hello_script script;
    script.sni = sni;
    raw_peer p(ex, script);
    auto e = p.endpoint();
    e.tls = true;
    e.host = host;
    failure f;
    http::client c(runtime(ex), e, http::client_options().tls(http::tls_options().server_name(override_name)), f);
    REQUIRE_FALSE(f);
    http::request q("GET", "/");
    co_await c.send(std::move(q), f);
    CHECK(f);
    p.close();
}

std::string sni(std::string host, std::string override_name = {}) {
    const auto name = std::make_shared<std::string>();
    run_test(sni_of(std::move(host), std::move(override_name), name));
    return *name;
}

asio::awaitable<void> plain_server() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, who);
    auto e = b.endpoint();
    e.tls = true;
    failure f;
    http::client c(runtime(ex), e, http::client_options(), f);
    http::request q("GET", "/");
    co_await c.send(std::move(q), f);
    INFO(f.what());
    CHECK(f == errc::tls_failed);
    CHECK(says(f, "no TLS is spoken there"));
    co_await b.server.stop();
}

asio::awaitable<void> hang_up(std::shared_ptr<tcp::socket> s) {
    char hello[2000];
    co_await s->async_read_some(asio::buffer(hello), as_result);
}

asio::awaitable<void> broken_handshake() {
    const auto ex = co_await asio::this_coro::executor;
    raw_peer p(ex, hang_up);
    auto e = p.endpoint();
    e.tls = true;
    failure f;
    http::client c(runtime(ex), e, http::client_options(), f);
    http::request q("GET", "/");
    co_await c.send(std::move(q), f);
    CHECK(f == errc::connection_lost);
    CHECK(f == condition::retryable);
    p.close();
}

asio::awaitable<void> rotate() {
    const auto ex = co_await asio::this_coro::executor;
    auto tls = server_tls(loopback_pair());
    tls.client_ca_pem_ = authority().certificate_pem();
    bench b(ex, who, http::server_options().tls(tls));
    const auto alice = authority().client("alice", {});
    const auto bob = authority().client("bob", {});
    auto c = b.tls_client(trusting().certificate(alice.certificate_pem, alice.key_pem));
    failure f;
    http::request q("GET", "/");
    auto first = co_await c->send(q, f);
    REQUIRE_FALSE(f);
    std::string name = co_await first.read_all(100, f);
    CHECK(name == "alice");
    c->set_tls(trusting().certificate("nonsense", "nonsense"), f);
    CHECK(f == errc::bad_configuration);
    CHECK(c->figures().idle == 1); // refused material changes nothing
    auto in_flight = co_await c->send(q, f);
    REQUIRE_FALSE(f);
    c->set_tls(trusting().certificate(bob.certificate_pem, bob.key_pem), f);
    CHECK_FALSE(f);
    CHECK(c->figures().idle == 0);
    name = co_await in_flight.read_all(100, f);
    CHECK(name == "alice");
    CHECK(c->figures().idle == 0); // opened with the old material
    auto second = co_await c->send(q, f);
    REQUIRE_FALSE(f);
    name = co_await second.read_all(100, f);
    CHECK(name == "bob");
    co_await b.server.stop();
}

/// With TLS 1.3, the context's default, the client has finished its handshake and goes on writing before the server
/// misses its certificate.
asio::awaitable<void> demand_certificate(std::shared_ptr<tcp::socket> s) {
    asio::ssl::context context(asio::ssl::context::tls_server);
    context.use_certificate_chain(asio::buffer(loopback_pair().certificate_pem));
    context.use_private_key(asio::buffer(loopback_pair().key_pem), asio::ssl::context::pem);
    context.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
    http::detail::tls_stream stream(std::move(*s), context.native_handle());
    error_code ec;
    co_await stream.handshake(http::detail::tls_stream::role::server, ec);
    CHECK(ec);
} // closes the socket, whatever the client still sends

asio::awaitable<void> refused_certificate(std::size_t body) {
    const auto ex = co_await asio::this_coro::executor;
    raw_peer p(ex, demand_certificate);
    auto e = p.endpoint();
    e.tls = true;
    failure f;
    http::client c(runtime(ex), e, http::client_options().tls(trusting()), f);
    REQUIRE_FALSE(f);
    http::request q("POST", "/");
    q.body(std::string(body, 'x'), "text/plain");
    co_await c.send(std::move(q), f);
    INFO(f.what());
    CHECK(f == errc::tls_failed);
    p.close();
}

// --- authorities as old tools made them: without key identifiers -----------------------------------------------------

template <auto F>
struct freer {
    template <class T>
    void operator()(T* p) const {
        F(p);
    }
};
using certificate = std::unique_ptr<X509, freer<&X509_free>>;
using key = std::unique_ptr<EVP_PKEY, freer<&EVP_PKEY_free>>;

std::string read(BIO* b) {
    char* data = nullptr;
    const long n = BIO_get_mem_data(b, &data);
    std::string text(data, static_cast<std::size_t>(n));
    BIO_free(b);
    return text;
}

std::string pem(X509* c) {
    BIO* b = BIO_new(BIO_s_mem());
    REQUIRE(PEM_write_bio_X509(b, c) == 1);
    return read(b);
}

std::string pem(EVP_PKEY* k) {
    BIO* b = BIO_new(BIO_s_mem());
    REQUIRE(PEM_write_bio_PrivateKey(b, k, nullptr, nullptr, 0, nullptr, nullptr) == 1);
    return read(b);
}

certificate made(const char* subject, EVP_PKEY* of, const char* issuer, EVP_PKEY* by, const char* constraints) {
    const auto set = [](X509_NAME* to, const char* common_name) {
        const auto* bytes = reinterpret_cast<const unsigned char*>(common_name);
        REQUIRE(X509_NAME_add_entry_by_txt(to, "CN", MBSTRING_UTF8, bytes, -1, -1, 0) == 1);
    };
    certificate c(X509_new());
    const auto add = [&c](int nid, const char* value) {
        X509_EXTENSION* e = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
        REQUIRE(X509_add_ext(c.get(), e, -1) == 1);
        X509_EXTENSION_free(e);
    };
    X509_set_version(c.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(c.get()), 7);
    X509_gmtime_adj(X509_getm_notBefore(c.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(c.get()), 3600);
    set(X509_get_subject_name(c.get()), subject);
    set(X509_get_issuer_name(c.get()), issuer);
    X509_set_pubkey(c.get(), of);
    add(NID_basic_constraints, constraints);
    add(NID_subject_alt_name, "IP:127.0.0.1");
    REQUIRE(X509_sign(c.get(), by, EVP_sha256()) > 0);
    return c;
}

class old_authority {
public:
    explicit old_authority(const char* name)
        : name_(name), key_(EVP_EC_gen("P-256")), self_(made(name, key_.get(), name, key_.get(), "CA:TRUE")) {}
    std::string pem() const { return ::pem(self_.get()); }
    http::server_tls server() const {
        const key k(EVP_EC_gen("P-256"));
        http::server_tls t;
        t.certificate_pem_ = ::pem(made("server", k.get(), name_, key_.get(), "CA:FALSE").get());
        t.key_pem_ = ::pem(k.get());
        return t;
    }

private:
    const char* name_;
    key key_;
    certificate self_;
};

/// A server whose certificates are each signed by the next one, bear two names in turn, and come in the reverse order:
/// by name each fits half of the others.
class ladder {
public:
    explicit ladder(int rungs) {
        std::vector<key> keys;
        for (int i = 0; i <= rungs; ++i) keys.emplace_back(EVP_EC_gen(i == 0 ? "P-256" : "P-521"));
        std::vector<certificate> all;
        for (int i = 0; i < rungs; ++i) {
            const char *self = i % 2 ? "B" : "A", *other = i % 2 ? "A" : "B";
            const auto n = static_cast<std::size_t>(i);
            all.push_back(made(self, keys[n].get(), other, keys[n + 1].get(), i == 0 ? "CA:FALSE" : "CA:TRUE"));
        }
        tls.certificate_pem_ = pem(all[0].get());
        for (std::size_t i = all.size() - 1; i > 0; --i) tls.certificate_pem_ += pem(all[i].get());
        tls.key_pem_ = pem(keys[0].get());
        constexpr int times = 20;
        const std::clock_t start = std::clock();
        for (int i = 0; i < times; ++i) CHECK(X509_verify(all[1].get(), keys[2].get()) == 1);
        one_signature = static_cast<double>(std::clock() - start) / times;
    }
    http::server_tls tls;
    double one_signature = 0; ///< the cost of checking one
};

failure configuration(http::tls_options t) {
    asio::io_context context;
    failure ignored, f;
    http::client c(runtime(context.get_executor()), http::endpoint::parse("https://127.0.0.1", ignored),
                   http::client_options().tls(std::move(t)), f);
    return f;
}

} // namespace

TEST_CASE("a server is verified by address and by name") {
    CHECK_FALSE(run(server_tls(loopback_pair()), trusting()).f);
    CHECK_FALSE(run(server_tls(loopback_pair()), trusting(), "localhost").f);
}

TEST_CASE("tls-server-name replaces the name that is checked") {
    CHECK_FALSE(run(server_tls(authority().server({"api.test"})), trusting().server_name("api.test")).f);
    CHECK_FALSE(run(server_tls(authority().server({"10.9.8.7"})), trusting().server_name("10.9.8.7")).f);
    const auto o = run(server_tls(loopback_pair()), trusting().server_name("other.test"));
    CHECK(o.f == errc::tls_failed);
}

TEST_CASE("SNI is sent for names and never for addresses") {
    CHECK(sni("localhost") == "localhost");
    CHECK(sni("127.0.0.1") == "(none)");
    CHECK(sni("127.0.0.1", "api.test") == "api.test");
    CHECK(sni("localhost", "10.0.0.1") == "(none)");
}

TEST_CASE("the dot at the end of a complete name is neither checked nor sent") {
    CHECK(sni("127.0.0.1", "api.test.") == "api.test");
    CHECK_FALSE(run(server_tls(authority().server({"api.test"})), trusting().server_name("api.test.")).f);
    for (const char* other : {"test.", ".", ".."})
        CHECK(run(server_tls(authority().server({"api.test"})), trusting().server_name(other)).f == errc::tls_failed);
}

TEST_CASE("a name that OpenSSL would match with many names is refused") {
    using namespace std::string_literals;
    for (const auto& name : {".test"s, ".api.test"s, "\0"s, "\0api.test"s, "api.test\0.other"s})
        CHECK(run(server_tls(authority().server({"api.test", "x.api.test"})), trusting().server_name(name)).f ==
              errc::tls_failed);
}

TEST_CASE("a certificate for another host is refused, and the error lists its names") {
    auto o = run(server_tls(authority().server({"api.test", "10.0.0.1"})), trusting());
    CHECK(o.f == errc::tls_failed);
    CHECK(says(o.f, "not valid for 127.0.0.1"));
    CHECK(says(o.f, "api.test, 10.0.0.1"));
    o = run(server_tls(authority().server({"api.test"})), trusting(), "localhost");
    CHECK(o.f == errc::tls_failed);
    CHECK(says(o.f, "not valid for localhost"));
    o = run(server_tls(authority().server({})), trusting());
    CHECK(o.f == errc::tls_failed);
}

TEST_CASE("the common name of a certificate is no host name") {
    const std::string name = informer::testing::certificate_authority::server_common_name;
    for (const auto& names : {std::vector<std::string>(), {"api.test"}, {"10.0.0.1"}}) {
        const auto o = run(server_tls(authority().server(names)), trusting().server_name(name));
        CHECK(o.f == errc::tls_failed);
        CHECK(says(o.f, "not valid for " + name));
    }
}

TEST_CASE("an expired certificate and one not yet valid are refused with the reason") {
    using std::chrono::hours;
    auto o = run(server_tls(authority().server({"127.0.0.1"}, hours(1), hours(-3))), trusting());
    CHECK(o.f == errc::tls_failed);
    CHECK(says(o.f, "certificate has expired"));
    o = run(server_tls(authority().server({"127.0.0.1"}, hours(1), hours(3))), trusting());
    CHECK(o.f == errc::tls_failed);
    CHECK(says(o.f, "not yet valid"));
}

TEST_CASE("a certificate of an unknown authority is refused with the reason") {
    const informer::testing::certificate_authority stranger("stranger");
    auto o = run(server_tls(stranger.server({"127.0.0.1"})), trusting());
    CHECK(o.f == errc::tls_failed);
    CHECK(says(o.f, "unable to get local issuer certificate"));
    o = run(server_tls(loopback_pair()), http::tls_options()); // against the system's roots
    CHECK(o.f == errc::tls_failed);
}

TEST_CASE("of two authorities of one name the one that signed is found, with key identifiers or without") {
    const old_authority before("kubernetes"), after("kubernetes"), stranger("kubernetes");
    for (const auto& bundle : {before.pem() + after.pem(), after.pem() + before.pem()}) {
        CHECK_FALSE(run(before.server(), http::tls_options().ca(bundle)).f);
        CHECK_FALSE(run(after.server(), http::tls_options().ca(bundle)).f);
        CHECK(run(stranger.server(), http::tls_options().ca(bundle)).f == errc::tls_failed);
    }
    const informer::testing::certificate_authority one("kubernetes"), other("kubernetes");
    for (const auto& bundle : {one.certificate_pem() + other.certificate_pem(), before.pem() + one.certificate_pem(),
                               one.certificate_pem() + before.pem()}) {
        CHECK_FALSE(run(server_tls(one.server({"127.0.0.1"})), http::tls_options().ca(bundle)).f);
    }
    CHECK_FALSE(run(before.server(), http::tls_options().ca(one.certificate_pem() + before.pem())).f);
    CHECK_FALSE(run(before.server(), http::tls_options().ca(before.pem() + one.certificate_pem())).f);
}

TEST_CASE("an unknown server cannot make us check more signatures than it sends") {
    constexpr int rungs = 120;
    const ladder stranger(rungs);
    const std::clock_t start = std::clock();
    const auto o = run(stranger.tls, trusting());
    const auto took = static_cast<double>(std::clock() - start);
    CHECK(o.f == errc::tls_failed);
    constexpr int most = informer::testing::sanitized ? 10 : 5;
    CHECK(took < most * rungs * stranger.one_signature); // by name alone thousands fit: thirty times as many
}

TEST_CASE("of a bundle of authorities those count that can be parsed, on either side") {
    const std::string good = authority().certificate_pem(),
                      no_base64 = "-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----\n",
                      no_certificate = "-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----\n",
                      no_end = "-----BEGIN CERTIFICATE-----\n" + good.substr(28, 65);
    for (const auto& bundle : {no_base64 + good, good + no_base64, no_certificate + good, good + no_certificate,
                               no_end + good, good + no_end, "about it\n" + good + "and more"}) {
        CAPTURE(bundle);
        CHECK_FALSE(run(server_tls(loopback_pair()), http::tls_options().ca(bundle)).f);
        auto tls = server_tls(loopback_pair());
        tls.client_ca_pem_ = bundle;
        const auto admin = authority().client("admin", {});
        CHECK(run(tls, trusting().certificate(admin.certificate_pem, admin.key_pem)).body == "admin");
    }
    for (const auto& bundle : {no_base64, no_certificate, no_end, no_base64 + no_end}) {
        CAPTURE(bundle);
        const failure f = configuration(http::tls_options().ca(bundle));
        CHECK(f == errc::bad_configuration);
        CHECK(says(f, "CA certificate cannot be used: "));
    }
    CHECK(ERR_peek_error() == 0); // it would count as an error of the next connection
}

TEST_CASE("what is no certificate in a bundle of authorities is skipped") {
    const auto pair = authority().client("a", {});
    CHECK_FALSE(
        run(server_tls(loopback_pair()), http::tls_options().ca(pair.key_pem + authority().certificate_pem())).f);
    const failure f = configuration(http::tls_options().ca(pair.key_pem));
    CHECK(says(f, "CA certificate cannot be used: it holds no certificate"));
}

TEST_CASE("insecure accepts any certificate, only when asked") {
    const informer::testing::certificate_authority stranger("stranger");
    CHECK_FALSE(run(server_tls(stranger.server({"elsewhere"})), http::tls_options().insecure()).f);
}

TEST_CASE("the server's own certificate may be the trust anchor") {
    CHECK_FALSE(run(server_tls(loopback_pair()), http::tls_options().ca(loopback_pair().certificate_pem)).f);
}

TEST_CASE("the server sees the name and the groups of a client certificate") {
    auto tls = server_tls(loopback_pair());
    tls.client_ca_pem_ = authority().certificate_pem();
    const auto admin = authority().client("kubernetes-admin", {"system:masters", "ops"});
    CHECK(run(tls, trusting().certificate(admin.certificate_pem, admin.key_pem)).body ==
          "kubernetes-admin/system:masters/ops");
    CHECK(run(tls, trusting()).body.empty());
}

TEST_CASE("a client certificate of an unknown authority has no name") {
    auto tls = server_tls(loopback_pair());
    tls.client_ca_pem_ = authority().certificate_pem();
    const informer::testing::certificate_authority stranger("stranger");
    const auto mallory = stranger.client("kubernetes-admin", {"system:masters"});
    const auto o = run(tls, trusting().certificate(mallory.certificate_pem, mallory.key_pem));
    CHECK_FALSE(o.f);
    CHECK(o.body.empty());
    // A server certificate is no proof of a client either.
    const auto wrong_use = authority().server({"kubernetes-admin"});
    CHECK(run(tls, trusting().certificate(wrong_use.certificate_pem, wrong_use.key_pem)).body.empty());
}

TEST_CASE("a client certificate that is refused is a failed check, also in the middle of a long request") {
    run_test(refused_certificate(1));
    run_test(refused_certificate(std::size_t(32) << 20)); // more than the sockets' buffers take
}

TEST_CASE("a server that speaks plain HTTP is reported as such") {
    run_test(plain_server());
}

TEST_CASE("a peer that hangs up during the handshake is a lost connection, not a failed check") {
    run_test(broken_handshake());
}

TEST_CASE("new TLS material serves new connections and retires the old ones") {
    run_test(rotate());
}

TEST_CASE("TLS material that cannot be used is named, its text is not shown") {
    const auto a = authority().client("a", {}), b = authority().client("b", {});
    failure f = configuration(http::tls_options().ca("nonsense"));
    CHECK(f == errc::bad_configuration);
    CHECK(says(f, "CA certificate"));
    f = configuration(http::tls_options().certificate("nonsense", a.key_pem));
    CHECK(says(f, "client certificate"));
    f = configuration(http::tls_options().certificate(a.certificate_pem, "s3cret"));
    CHECK(says(f, "client key"));
    CHECK_FALSE(says(f, "s3cret"));
    f = configuration(http::tls_options().certificate(a.certificate_pem, b.key_pem));
    CHECK(says(f, "client key"));
    f = configuration(http::tls_options().certificate(a.certificate_pem, ""));
    CHECK(says(f, "without its key"));
}

TEST_CASE("an encrypted key is an error and asks nobody for its password") {
    static const char* encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
                                   "MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgAAAAAAAAAAAICCAAw\n"
                                   "-----END ENCRYPTED PRIVATE KEY-----\n";
    const auto a = authority().client("a", {});
    CHECK(configuration(http::tls_options().certificate(a.certificate_pem, encrypted)) == errc::bad_configuration);
}
