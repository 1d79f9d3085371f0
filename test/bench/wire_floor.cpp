// What the bytes of a list cost before anybody looks at them: reads an answer of the canned server, over a plain socket or
// OpenSSL, and throws it away. Prints one JSON object: "seconds" of CPU from the first byte of the answer on, "bytes".
//
//   bench_wire_floor PORT PATH BYTES [CA]
//
// BYTES: read so many and then close. CA: the file that the server's certificate is checked with; without it, no TLS.
// OpenSSL is as it comes: it reads each record in two steps. With SSL_CTX_set_read_ahead it is up to a fifth cheaper.
#include "../support/cpu_time.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

/// OpenSSL on the descriptor itself: nothing of Asio's lies between.
class tls {
public:
    tls(int descriptor, const char* ca) : context_(SSL_CTX_new(TLS_client_method())) {
        SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
        if (SSL_CTX_load_verify_locations(context_.get(), ca, nullptr) != 1) fail("read the CA");
        stream_.reset(SSL_new(context_.get()));
        if (SSL_set_fd(stream_.get(), descriptor) != 1 || SSL_connect(stream_.get()) != 1) fail("handshake");
    }
    void write(const std::string& text) {
        if (SSL_write(stream_.get(), text.data(), static_cast<int>(text.size())) <= 0) fail("write");
    }
    std::size_t read(std::vector<char>& into) {
        const int n = SSL_read(stream_.get(), into.data(), static_cast<int>(into.size()));
        return n > 0 ? static_cast<std::size_t>(n) : 0;
    }

private:
    [[noreturn]] static void fail(const char* doing) {
        const char* const why = ERR_reason_error_string(ERR_peek_last_error());
        throw std::runtime_error(std::string("TLS: ") + doing + ": " + (why != nullptr ? why : "the connection ended"));
    }
    struct deleter {
        void operator()(SSL_CTX* c) const { SSL_CTX_free(c); }
        void operator()(SSL* s) const { SSL_free(s); }
    };
    std::unique_ptr<SSL_CTX, deleter> context_;
    std::unique_ptr<SSL, deleter> stream_;
};

template <class Read>
void throw_away(std::size_t bytes, Read read) {
    std::vector<char> into(128 * 1024);
    std::size_t got = read(into); // the first ones: the server may have taken its time
    const auto begun = informer::testing::cpu_time();
    while (got < bytes) {
        const std::size_t n = read(into);
        if (n == 0) throw std::runtime_error("the answer ended after " + std::to_string(got) + " bytes");
        got += n;
    }
    const std::chrono::duration<double> spent = informer::testing::cpu_time() - begun;
    std::printf("{\"seconds\":%.6f,\"bytes\":%zu}\n", spent.count(), got);
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 4 && argc != 5) {
        std::fprintf(stderr, "usage: bench_wire_floor PORT PATH BYTES [CA]\n");
        return 2;
    }
    try {
        asio::io_context io;
        tcp::socket plain(io);
        plain.connect({asio::ip::make_address("127.0.0.1"), static_cast<std::uint16_t>(std::atoi(argv[1]))});
        const std::string request =
            std::string("GET ") + argv[2] + " HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n";
        const std::size_t bytes = std::strtoull(argv[3], nullptr, 10);
        if (argc == 5) {
            tls stream(plain.native_handle(), argv[4]);
            stream.write(request);
            throw_away(bytes, [&](std::vector<char>& into) { return stream.read(into); });
        } else {
            asio::write(plain, asio::buffer(request));
            throw_away(bytes, [&](std::vector<char>& into) { return plain.read_some(asio::buffer(into)); });
        }
        return 0;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "bench_wire_floor: %s\n", e.what());
        return 1;
    }
}
