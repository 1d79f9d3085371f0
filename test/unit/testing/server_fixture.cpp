#include "server_fixture.hpp"

#include <informer/task_group.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <catch2/catch_test_macros.hpp>

namespace server_tests {

namespace asio = boost::asio;
namespace http = informer::http;

namespace {

informer::runtime runtime_for(asio::io_context& io, const std::shared_ptr<informer::testing::manual_clock>& clock) {
    informer::runtime r(io.get_executor());
    r.with_seed(7);
    if (clock) r.with_clock(clock);
    return r;
}

struct exchange {
    exchange(http::request r, http::client* c) : request(std::move(r)), client(c) {}
    http::request request;
    http::client* client;
    http::response response;
    answer result;
    bool whole = true, done = false;
};

asio::awaitable<void> perform(std::shared_ptr<exchange> x) {
    auto request = std::move(x->request);
    x->response = co_await x->client->send(std::move(request), x->result.f);
    if (!x->result.f) {
        x->result.status = x->response.status();
        x->result.type = std::string(x->response.header("Content-Type"));
        x->result.retry_after = std::string(x->response.header("Retry-After"));
        if (x->whole) x->result.body = co_await x->response.read_all(std::size_t(256) << 20, x->result.f);
    }
    x->done = true;
}

asio::awaitable<void> read_piece(std::shared_ptr<http::response> from, std::shared_ptr<std::string> piece,
                                 std::shared_ptr<informer::failure> f, std::shared_ptr<bool> done) {
    std::string buffer(64 * 1024, '\0');
    const auto n = co_await from->read_some(asio::buffer(buffer), *f);
    buffer.resize(n);
    *piece = std::move(buffer);
    *done = true;
}

asio::awaitable<void> stop_server(api_server* s) {
    co_await s->stop();
}

} // namespace

std::string text_at(const json::value& v, std::string_view pointer) {
    boost::system::error_code ec;
    const auto* found = v.find_pointer(pointer, ec);
    if (found == nullptr) return {};
    return found->is_string() ? std::string(std::string_view(found->get_string())) : json::serialize(*found);
}

std::string answer::at(std::string_view pointer) const {
    return text_at(json(), pointer);
}

server_fixture::server_fixture(api_server_options options, bool manual_time)
    : clock(manual_time ? std::make_shared<informer::testing::manual_clock>() : nullptr),
      runtime(runtime_for(io, clock)), server(runtime, std::move(options)) {
    server.start();
    reconnect();
}

server_fixture::~server_fixture() {
    client.reset();
    asio::co_spawn(io, stop_server(&server), asio::detached);
    io.restart();
    io.run_for(std::chrono::seconds(10));
    CHECK(io.stopped()); // nothing of ours is left
}

void server_fixture::reconnect(http::client_options o) {
    const auto url = server.url();
    const bool tls = url.starts_with("https");
    informer::failure f;
    if (tls && o.tls_.ca_pem_.empty()) o.tls_.ca(server.ca_pem());
    const auto to = http::endpoint::parse(url, f);
    REQUIRE(!f);
    // The client uses real time: advancing the manual clock must not time its requests out.
    client = std::make_unique<http::client>(informer::runtime(io.get_executor()), to, std::move(o), f);
    REQUIRE(!f);
}

bool server_fixture::run_until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    io.restart();
    while (!done()) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        if (io.run_one_for(std::chrono::milliseconds(50)) == 0) io.restart();
    }
    return true;
}

void server_fixture::settle() {
    // Loopback sockets need a turn of the reactor now and then: runs until nothing was ready three times in a row.
    for (int idle = 0; idle < 3;) {
        io.restart();
        idle = io.run_one_for(std::chrono::milliseconds(5)) == 0 ? idle + 1 : 0;
    }
}

void server_fixture::advance(std::chrono::milliseconds by) {
    settle();
    clock->advance(by);
    settle();
}

answer server_fixture::ask(http::request r) {
    auto x = std::make_shared<exchange>(std::move(r), client.get());
    asio::co_spawn(io, perform(x), asio::detached);
    REQUIRE(run_until([&] { return x->done; }));
    return x->result;
}

answer server_fixture::ask(std::string method, std::string target, std::string body, std::string content_type) {
    http::request r(std::move(method), std::move(target));
    if (!body.empty()) r.body(std::move(body), std::move(content_type));
    return ask(std::move(r));
}

stream server_fixture::watch(std::string target) {
    return watch(http::request("GET", std::move(target)));
}

stream server_fixture::watch(http::request r) {
    auto x = std::make_shared<exchange>(std::move(r), client.get());
    x->whole = false;
    asio::co_spawn(io, perform(x), asio::detached);
    REQUIRE(run_until([&] { return x->done; }));
    stream s;
    s.fixture_ = this;
    s.failure_ = x->result.f;
    s.status_ = x->result.status;
    s.ended_ = static_cast<bool>(x->result.f);
    s.response_ = std::make_shared<http::response>(std::move(x->response));
    return s;
}

void server_fixture::put(std::string name, std::string v, json::object labels) {
    json::object metadata;
    metadata["name"] = name;
    metadata["labels"] = std::move(labels);
    json::object data;
    data["v"] = std::move(v);
    json::object o;
    o["apiVersion"] = "v1";
    o["kind"] = "ConfigMap";
    o["metadata"] = std::move(metadata);
    o["data"] = std::move(data);
    if (server.get("configmaps", "default", name).is_null()) {
        server.create(std::move(o));
    } else {
        server.update(std::move(o));
    }
}

bool stream::read_more(bool wait) {
    if (ended_) return false;
    if (!reading_) {
        reading_ = std::make_shared<bool>(false);
        piece_ = std::make_shared<std::string>();
        piece_failure_ = std::make_shared<informer::failure>();
        asio::co_spawn(fixture_->io, read_piece(response_, piece_, piece_failure_, reading_), asio::detached);
    }
    const auto done = reading_;
    if (wait) {
        REQUIRE(fixture_->run_until([&] { return *done; }));
    } else {
        fixture_->settle();
    }
    if (!*done) return false;
    reading_.reset();
    failure_ = *piece_failure_;
    if (piece_->empty()) ended_ = true;
    text_ += *piece_;
    return true;
}

watch_event stream::next() {
    watch_event e;
    for (;;) {
        const auto end = text_.find('\n');
        if (end != std::string::npos) {
            const auto v = json::parse(text_.substr(0, end));
            text_.erase(0, end + 1);
            e.type = text_at(v, "/type");
            e.object = v.at("object");
            return e;
        }
        if (ended_) return e;
        read_more(true);
    }
}

bool stream::quiet() {
    return text_.find('\n') == std::string::npos && !read_more(false);
}

std::vector<watch_event> stream::rest() {
    std::vector<watch_event> out;
    for (auto e = next(); !e.type.empty(); e = next()) out.push_back(std::move(e));
    return out;
}

void stream::close() {
    response_->close();
    if (reading_) {
        const auto done = reading_;
        REQUIRE(fixture_->run_until([&] { return *done; }));
        reading_.reset();
    }
    ended_ = true;
}

} // namespace server_tests
