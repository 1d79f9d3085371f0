// An embedded server and a client on one io_context, used from sequential test code: each call runs the context until
// its answer is there.
#pragma once

#include <informer/http/client.hpp>
#include <informer/testing/api_server.hpp>
#include <informer/testing/manual_clock.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace server_tests {

namespace json = boost::json;
using informer::testing::api_server;
using informer::testing::api_server_options;
using informer::testing::fault;

struct answer {
    informer::failure f; ///< of the transport
    int status = 0;
    std::string type, retry_after, body;

    json::value json() const { return json::parse(body); }
    /// The value at a JSON pointer: the text of a string, anything else as JSON; empty when absent.
    std::string at(std::string_view pointer) const;
};

/// The value at a JSON pointer: the text of a string, anything else as JSON; empty when absent.
std::string text_at(const json::value& v, std::string_view pointer);

struct watch_event {
    std::string type;
    json::value object;
    std::string name() const { return text_at(object, "/metadata/name"); }
    std::string version() const { return text_at(object, "/metadata/resourceVersion"); }
};

class server_fixture;

/// An open watch.
class stream {
public:
    int status() const { return status_; }
    /// The next event; type is empty at the end of the stream, `failure()` tells how it ended.
    watch_event next();
    /// True if nothing comes although all ready handlers have run, those of the server included.
    bool quiet();
    /// All events up to the end of the stream.
    std::vector<watch_event> rest();
    const informer::failure& failure() const { return failure_; }
    const std::string& pending_text() const { return text_; }
    void close();

private:
    friend class server_fixture;
    bool read_more(bool wait);

    server_fixture* fixture_ = nullptr;
    std::shared_ptr<informer::http::response> response_;
    std::string text_;
    informer::failure failure_;
    int status_ = 0;
    bool ended_ = false;
    std::shared_ptr<bool> reading_; ///< null: no read is under way
    std::shared_ptr<std::string> piece_;
    std::shared_ptr<informer::failure> piece_failure_;
};

class server_fixture {
public:
    explicit server_fixture(api_server_options options = api_server_options(), bool manual_time = false);
    /// Stops the server; the io_context must run out of work then.
    ~server_fixture();

    answer ask(std::string method, std::string target, std::string body = {},
               std::string content_type = "application/json");
    answer ask(informer::http::request r);
    stream watch(std::string target);
    stream watch(informer::http::request r);
    /// Creates or updates a ConfigMap with data.v, directly in the server.
    void put(std::string name, std::string v, json::object labels = {});
    /// Advances the manual clock, and runs all that this makes ready.
    void advance(std::chrono::milliseconds by);
    /// Runs until `done`, at most 10 s.
    bool run_until(const std::function<bool()>& done);
    /// Runs all that is ready.
    void settle();
    void reconnect(informer::http::client_options o = informer::http::client_options());

    boost::asio::io_context io{1};
    std::shared_ptr<informer::testing::manual_clock> clock; ///< null: real time
    informer::runtime runtime;
    api_server server;
    std::unique_ptr<informer::http::client> client;
};

} // namespace server_tests
