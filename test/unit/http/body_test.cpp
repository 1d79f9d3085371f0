// Bodies: streamed, chunked, gzip'd, cut, and answers that are no HTTP at all.
#include "support.hpp"

#include <zlib.h>

using namespace http_test;

namespace {

http::request get(std::string target = "/") {
    return http::request("GET", std::move(target));
}

// --- one answer, byte by byte ----------------------------------------------------------------------------------------

/// Sends `bytes` in pieces of `piece`, each in a segment of its own, then closes.
struct scripted {
    std::string bytes;
    std::size_t piece = 1 << 20;
    asio::awaitable<void> operator()(std::shared_ptr<tcp::socket> s) const { return play(s, bytes, piece); }

    static asio::awaitable<void> play(std::shared_ptr<tcp::socket> s, std::string bytes, std::size_t piece) {
        s->set_option(tcp::no_delay(true));
        co_await read_head(s);
        for (std::size_t at = 0; at < bytes.size(); at += piece) {
            const bool ok = co_await write_all(s, bytes.substr(at, piece));
            if (!ok) co_return;
            const auto ex = co_await asio::this_coro::executor;
            if (piece < bytes.size()) co_await asio::post(ex, asio::use_awaitable); // lets the client read
        }
    }
};

struct outcome {
    outcome() {}
    failure f;
    int status = 0;
    std::string body;
    std::size_t idle = 0;
};

asio::awaitable<void> fetch(scripted script, http::request q, bool in_place, std::shared_ptr<outcome> out) {
    const auto ex = co_await asio::this_coro::executor;
    raw_peer p(ex, script);
    http::client c(runtime(ex), p.endpoint(), http::client_options(), out->f);
    auto r = co_await c.send(std::move(q), out->f);
    if (!out->f) {
        out->status = r.status();
        char buffer[64];
        http::body_parts parts;
        while (in_place) {
            const std::size_t n = co_await r.receive(parts, out->f);
            const std::size_t before = out->body.size();
            for (const std::string_view part : parts) out->body += part;
            CHECK(out->body.size() - before == n);
            if (n == 0) break;
        }
        while (!in_place) {
            const std::size_t n = co_await r.read_some(asio::buffer(buffer), out->f);
            if (n == 0) break;
            out->body.append(buffer, n);
        }
    }
    out->idle = c.figures().idle;
    p.close();
}

/// The outcome of a request; reading by copies and reading in place must give the same.
outcome answer(std::string bytes, http::request q = get(), std::size_t piece = 1 << 20) {
    scripted script;
    script.bytes = std::move(bytes);
    script.piece = piece;
    const auto out = std::make_shared<outcome>(), other = std::make_shared<outcome>();
    run_test(fetch(script, q, false, out));
    run_test(fetch(std::move(script), std::move(q), true, other));
    CHECK(other->f.code() == out->f.code());
    CHECK(other->status == out->status);
    CHECK(other->body == out->body);
    CHECK(other->idle == out->idle);
    UNSCOPED_INFO(out->f.what());
    return *out;
}

const std::string chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                            "5\r\nhello\r\n7;x=\"y\"\r\n, world\r\n0\r\nTrailer: t\r\n\r\n";
const std::string sized = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

// --- gzip ------------------------------------------------------------------------------------------------------------

std::string gzip(std::string_view text, int flush_every = 0) {
    z_stream z{};
    deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    std::string out;
    char buffer[4096];
    const auto run = [&](std::string_view part, int flush) {
        z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
        z.avail_in = static_cast<uInt>(part.size());
        do {
            z.next_out = reinterpret_cast<Bytef*>(buffer);
            z.avail_out = sizeof buffer;
            deflate(&z, flush);
            out.append(buffer, sizeof buffer - z.avail_out);
        } while (z.avail_out == 0);
    };
    if (flush_every > 0)
        for (std::size_t at = 0; at < text.size(); at += static_cast<std::size_t>(flush_every))
            run(text.substr(at, static_cast<std::size_t>(flush_every)), Z_SYNC_FLUSH);
    else
        run(text, Z_NO_FLUSH);
    run({}, Z_FINISH);
    deflateEnd(&z);
    return out;
}

std::string with_length(std::string body, std::string more_headers = "Content-Encoding: gzip\r\n") {
    return "HTTP/1.1 200 OK\r\n" + more_headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

asio::awaitable<void> gzip_events(request_ptr q, response_ptr r) {
    const std::string all = gzip("event one\nevent two\n", 10);
    const std::string first = all.substr(0, all.find("\0\0\xff\xff", 10, 4) + 4); // up to the first flush
    CHECK(q->header("Accept-Encoding") == "gzip");
    std::vector<std::pair<std::string, std::string>> headers;
    co_await r->write_raw("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n");
    char size[20];
    std::snprintf(size, sizeof size, "%zx\r\n", first.size());
    co_await r->write_raw(size + first + "\r\n");
    co_await r->wait_gone();
}

asio::awaitable<void> gzip_stream() {
    const auto ex = co_await asio::this_coro::executor;
    bench b(ex, gzip_events);
    auto c = b.client(http::client_options().accept_gzip(true));
    failure f;
    auto r = co_await c->send(get(), f);
    REQUIRE_FALSE(f);
    char buffer[1000];
    const std::size_t n = co_await r.read_some(asio::buffer(buffer), f);
    CHECK(std::string_view(buffer, n) == "event one\n");
    r.close();
    co_await b.server.stop();
}

asio::awaitable<void> bomb() {
    const auto ex = co_await asio::this_coro::executor;
    scripted script;
    script.bytes = with_length(gzip(std::string(64 << 20, '\0')));
    CHECK(script.bytes.size() < 100000);
    raw_peer p(ex, script);
    failure f;
    http::client c(runtime(ex), p.endpoint(), http::client_options(), f);
    auto r = co_await c.send(get(), f);
    REQUIRE_FALSE(f);
    const std::string text = co_await r.read_all(1 << 20, f);
    CHECK(f == errc::too_large);
    CHECK(text.size() == 1 << 20);
    p.close();
}

/// Counts how often other work lets it have the executor.
asio::awaitable<void> count_turns(const bool* done, std::size_t* turns) {
    const auto ex = co_await asio::this_coro::executor;
    for (; !*done; ++*turns) co_await asio::post(ex, asio::use_awaitable);
}

asio::awaitable<void> bomb_beside_others() {
    const auto ex = co_await asio::this_coro::executor;
    constexpr std::size_t size = 64 << 20;
    scripted script;
    script.bytes = with_length(gzip(std::string(size, ' ')));
    raw_peer p(ex, script);
    failure f;
    http::client c(runtime(ex), p.endpoint(), http::client_options(), f);
    auto r = co_await c.send(get(), f);
    REQUIRE_FALSE(f);
    bool done = false;
    std::size_t turns = 0;
    asio::co_spawn(ex, count_turns(&done, &turns), asio::detached);
    const std::string text = co_await r.read_all(size, f);
    done = true;
    CHECK_FALSE(f);
    CHECK(text.size() == size);
    CHECK(turns >= size / (128 << 10)); // about one for each 64 KiB
    co_await asio::post(ex, asio::use_awaitable);
    p.close();
}

// --- volume ----------------------------------------------------------------------------------------------------------

constexpr std::size_t piece = 100'003, pieces = 210; // 21 MB, sizes that fit no buffer

char pattern(std::size_t at) {
    return static_cast<char>('a' + at % 23);
}

asio::awaitable<void> large(request_ptr q, response_ptr r) {
    std::size_t at = 0;
    if (q->path == "/whole") {
        std::string all(piece * pieces, ' ');
        for (auto& c : all) c = pattern(at++);
        co_await r->send(200, "text/plain", std::move(all));
        co_return;
    }
    co_await r->begin(200, "text/plain");
    for (std::size_t i = 0; i < pieces; ++i) {
        std::string one(piece, ' ');
        for (auto& c : one) c = pattern(at++);
        co_await r->write(std::move(one));
    }
    co_await r->end();
}

asio::awaitable<void> large_bodies(bool tls) {
    const auto ex = co_await asio::this_coro::executor;
    http::server_options o;
    if (tls) o.tls(server_tls(loopback_pair()));
    bench b(ex, large, o);
    auto c = b.client(http::client_options().tls(http::tls_options().insecure()));
    std::vector<std::string> targets{"/chunked", "/whole"};
    for (const auto& target : targets) {
        failure f;
        auto r = co_await c->send(get(target), f);
        REQUIRE_FALSE(f);
        std::vector<char> buffer(64 << 10);
        std::size_t at = 0, wrong = 0;
        for (;;) {
            const std::size_t n = co_await r.read_some(asio::buffer(buffer), f);
            if (n == 0) break;
            for (std::size_t i = 0; i < n; ++i) wrong += buffer[i] != pattern(at++);
        }
        CHECK_FALSE(f);
        CHECK(at == piece * pieces);
        CHECK(wrong == 0);
        CHECK(c->figures().idle == 1);
    }
    co_await b.server.stop();
}

asio::awaitable<void> events(request_ptr, response_ptr r, std::shared_ptr<informer::detail::async_event> next) {
    co_await r->begin(200, "text/plain");
    for (;;) {
        const bool ok = co_await r->write("event\n");
        if (!ok) co_return;
        const bool more = co_await next->wait();
        if (!more) co_return;
    }
}

asio::awaitable<void> prompt() {
    const auto ex = co_await asio::this_coro::executor;
    const auto next = std::make_shared<informer::detail::async_event>(ex);
    bench b(ex, [next](request_ptr q, response_ptr r) { return events(q, r, next); });
    auto c = b.client();
    failure f;
    auto r = co_await c->send(get(), f);
    std::vector<char> buffer(1 << 20);
    for (int i = 0; i < 5; ++i) {
        const std::size_t n = co_await r.read_some(asio::buffer(buffer), f);
        CHECK(std::string_view(buffer.data(), n) == "event\n"); // although there is room for far more
        next->notify();
    }
    r.close();
    co_await b.server.stop();
}

asio::awaitable<void> endless(request_ptr, response_ptr r, std::shared_ptr<std::size_t> written) {
    co_await r->begin(200, "text/plain");
    const std::string piece_of(64 << 10, 'x');
    for (;;) {
        const bool ok = co_await r->write(piece_of);
        if (!ok) co_return;
        *written += piece_of.size();
    }
}

asio::awaitable<void> back_pressure(bool tls) {
    const auto ex = co_await asio::this_coro::executor;
    const auto written = std::make_shared<std::size_t>(0);
    http::server_options o;
    if (tls) o.tls(server_tls(loopback_pair()));
    bench b(
        ex, [written](request_ptr q, response_ptr r) { return endless(q, r, written); }, o);
    auto c = b.client(http::client_options().tls(http::tls_options().insecure()));
    failure f;
    auto r = co_await c->send(get(), f);
    REQUIRE_FALSE(f);
    // The writer fills the kernel's buffers, and then makes no more progress.
    asio::steady_timer t(ex);
    std::size_t before = 1;
    while (*written != before) {
        before = *written;
        t.expires_after(50ms);
        co_await t.async_wait(as_result);
    }
    CHECK(before > 0);
    CHECK(before < std::size_t(32) << 20);
    std::vector<char> buffer(64 << 10);
    std::size_t got = 0;
    while (got < before + (4 << 20)) {
        const std::size_t n = co_await r.read_some(asio::buffer(buffer), f);
        REQUIRE(n > 0);
        got += n;
    }
    CHECK(*written > before); // and goes on when we read
    r.close();
    co_await b.server.stop();
}

} // namespace

TEST_CASE("chunk boundaries are hidden, at any segmentation") {
    for (const std::size_t piece_of : {1u, 2u, 3u, 7u, 1000u}) {
        const auto o = answer(chunked, get(), piece_of);
        CHECK_FALSE(o.f);
        CHECK(o.status == 200);
        CHECK(o.body == "hello, world");
        CHECK(o.idle == 1);
    }
}

TEST_CASE("a chunked answer without a body ends at its last chunk, at any segmentation") {
    const std::string head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (const std::string last : {"0\r\n\r\n", "000\r\n\r\n", "0\r\nTrailer: t\r\n\r\n"}) {
        for (std::size_t size = 1; size < 10; ++size) {
            const auto o = answer(head + last, get(), size);
            CHECK_FALSE(o.f);
            CHECK(o.body.empty());
            CHECK(o.idle == 1);
        }
        for (std::size_t n = 0; n < last.size(); ++n)
            CHECK(answer(head + last.substr(0, n), get(), 1).f == errc::connection_lost);
    }
}

TEST_CASE("a chunked answer cut at any byte is a lost connection, never a success") {
    for (std::size_t n = 0; n < chunked.size(); ++n) {
        INFO("cut at byte " << n);
        const auto o = answer(chunked.substr(0, n));
        CHECK(o.f == errc::connection_lost);
        CHECK(std::string_view("hello, world").substr(0, o.body.size()) == o.body);
        CHECK(o.idle == 0);
    }
}

TEST_CASE("an answer shorter than its Content-Length is a lost connection") {
    for (std::size_t n = 0; n < sized.size(); ++n) {
        INFO("cut at byte " << n);
        CHECK(answer(sized.substr(0, n)).f == errc::connection_lost);
    }
    CHECK_FALSE(answer(sized).f);
}

TEST_CASE("bytes before a cut are handed out before the error") {
    const auto o = answer("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + std::string(300, 'x'));
    CHECK(o.f == errc::connection_lost);
    CHECK(o.body.size() == 300);
}

TEST_CASE("a body without length ends with the connection") {
    const auto o = answer("HTTP/1.1 200 OK\r\n\r\nuntil the end");
    CHECK_FALSE(o.f);
    CHECK(o.body == "until the end");
    CHECK(o.idle == 0);
    CHECK(answer("HTTP/1.1 200 OK\r\n\r\n0\r\n").body == "0\r\n"); // what would end one in chunks
    CHECK(answer("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n0\r\n").idle == 1);
}

TEST_CASE("answers without a body end after their header") {
    CHECK(answer("HTTP/1.1 204 No Content\r\n\r\n").idle == 1);
    CHECK(answer("HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n").idle == 1);
    CHECK(answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").idle == 1);
    const auto head =
        answer("HTTP/1.1 200 OK\r\nContent-Length: 99\r\nContent-Encoding: gzip\r\n\r\n", http::request("HEAD", "/"));
    CHECK_FALSE(head.f);
    CHECK(head.idle == 1);
}

TEST_CASE("interim answers are skipped") {
    const auto o = answer("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + sized);
    CHECK_FALSE(o.f);
    CHECK(o.status == 200);
    CHECK(o.body == "hello");
}

TEST_CASE("a connection that switches to another protocol unasked is not used again") {
    const auto o = answer("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    CHECK_FALSE(o.f);
    CHECK(o.status == 101);
    CHECK(o.idle == 0);
}

TEST_CASE("an answer that is no HTTP is a bad response") {
    for (const auto* bytes : {"SSH-2.0-OpenSSH_9.2\r\n", "HTTP/9.9 what\r\n\r\n", "HTTP/1.1 abc OK\r\n\r\n",
                              "{}\n\n\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
                              "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
                              "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
                              "HTTP/1.1 200 OK\r\nBad Header\r\n\r\n"}) {
        INFO(bytes);
        CHECK(answer(bytes).f == errc::bad_response);
    }
    CHECK(answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").f == errc::bad_response);
    CHECK(answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXXXX\r\n").f == errc::bad_response);
    CHECK(answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n").f ==
          errc::bad_response);
    const auto later = answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n~\r\n");
    CHECK(later.f == errc::bad_response);
    CHECK(later.body == "hello");
}

TEST_CASE("a header, a chunk header or a trailer that never ends is refused at a limit") {
    const std::string more(600'000, 'x');
    CHECK(answer("HTTP/1.1 200 OK\r\nA: " + more).f == errc::bad_response);
    CHECK(answer("HTTP/1.1 200 OK\r\nA: " + more, get(), 100'000).f == errc::bad_response);
    CHECK(answer(more).f == errc::bad_response);
    CHECK(answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;" + more).f == errc::bad_response);
    CHECK(answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: " + more).f == errc::bad_response);
    std::string interim;
    for (int i = 0; i < 50'000; ++i) interim += "HTTP/1.1 100 Continue\r\n\r\n";
    CHECK(answer(interim).f == errc::bad_response); // skipped, but they count
    CHECK_FALSE(answer(interim.substr(0, 250 * 1000) + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").f);
    const std::string field = "A: " + std::string(60'000, 'x') + "\r\n", end = "Content-Length: 0\r\n\r\n";
    CHECK_FALSE(answer("HTTP/1.1 200 OK\r\n" + field + field + field + end).f);
    CHECK(answer("HTTP/1.1 200 OK\r\nA: " + std::string(200'000, 'x') + "\r\n" + end).f == errc::bad_response);
    CHECK(answer("HTTP/1.1 200 OK\r\n" + std::string(200'000, 'x') + ": x\r\n" + end).f == errc::bad_response);
    CHECK(
        answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: " + std::string(300'000, 'x') + "\r\n\r\n")
            .f == errc::bad_response);
}

TEST_CASE("gzip is decoded, at any segmentation") {
    std::string text;
    for (int i = 0; i < 5000; ++i) text += "line " + std::to_string(i) + "\n";
    for (const std::size_t piece_of : {1u, 7u, 1u << 20}) {
        const auto o = answer(with_length(gzip(text)), get(), piece_of);
        CHECK_FALSE(o.f);
        CHECK(o.body == text);
        CHECK(o.idle == 1);
    }
    CHECK(answer(with_length(gzip("one ") + gzip("two"))).body == "one two");
    CHECK(answer(with_length("")).body.empty());
    CHECK(answer(with_length("plain", "")).body == "plain");
}

TEST_CASE("gzip that is broken or cut is an error, after the good bytes before it") {
    const std::string packed = gzip("some text that is packed");
    for (std::size_t n = 1; n < packed.size(); ++n)
        CHECK(answer(with_length(packed.substr(0, n))).f == errc::bad_response);
    CHECK(answer(with_length("not gzip at all")).f == errc::bad_response);
    std::string spoilt = packed;
    spoilt[spoilt.size() - 6] = static_cast<char>(spoilt[spoilt.size() - 6] ^ 1); // its checksum
    CHECK(answer(with_length(spoilt)).f == errc::bad_response);
    const std::string whole = with_length(packed);
    const auto cut = answer(whole.substr(0, whole.size() - 8));
    CHECK(cut.f == errc::connection_lost);
    CHECK(cut.body == "some text that is packed");
}

TEST_CASE("gzip'd events come out as they come in") {
    run_test(gzip_stream());
}

TEST_CASE("a gzip bomb costs only what is read of it") {
    run_test(bomb());
}

TEST_CASE("a little gzip that becomes much does not keep other work from the executor") {
    run_test(bomb_beside_others());
}

TEST_CASE("bodies of 21 MB stream through, chunked and whole") {
    run_test(large_bodies(false));
    run_test(large_bodies(true));
}

TEST_CASE("read_some returns as soon as there is something") {
    run_test(prompt());
}

TEST_CASE("a slow reader suspends the server's writer") {
    run_test(back_pressure(false));
    run_test(back_pressure(true));
}
