// devserver as a program: what it prints, writes, refuses and simulates.
#include "apps/programs.hpp"

#include <algorithm>
#include <set>

using namespace programs;
namespace json = boost::json;

namespace {

struct seen {
    std::string type, kind, name;
    friend bool operator==(const seen&, const seen&) = default;
    friend std::ostream& operator<<(std::ostream& o, const seen& s) {
        return o << s.type << ' ' << s.kind << ' ' << s.name;
    }
};

/// The first `count` events of a resource since the server began.
std::vector<seen> events_of(const server& s, const std::string& path, std::size_t count) {
    process curl({"curl", "-sN", "--max-time", "20", s.url + path + "?watch=1&resourceVersion=1000"});
    std::vector<seen> out;
    while (out.size() < count) {
        const auto line = curl.line();
        REQUIRE(line);
        const auto e = json::parse(*line);
        seen x;
        x.type = e.at("type").as_string();
        x.kind = e.at_pointer("/object/kind").as_string();
        x.name = e.at_pointer("/object/metadata/name").as_string();
        out.push_back(std::move(x));
    }
    return out;
}

} // namespace

TEST_CASE("devserver prints its URL first and ends with 0 on SIGTERM and SIGINT", "[devserver]") {
    for (const int number : {SIGTERM, SIGINT}) {
        server s;
        CHECK(s.url.starts_with("http://127.0.0.1:"));
        CHECK(json::parse(s.curl("GET", "/version")).at("major").as_string() == "1");
        process watch({"curl", "-sN", s.url + "/api/v1/pods?watch=1"}); // an open watch does not hold up its end
        s.curl("GET", "/api/v1/pods");
        s.child().signal(number);
        CHECK(s.child().wait() == 0);
        CHECK(s.child().err().empty());
    }
}

TEST_CASE("devserver reports bad usage with exit code 2 and other errors with 1, in one line", "[devserver]") {
    const auto ends = [](std::vector<std::string> arguments, int code) {
        arguments.insert(arguments.begin(), bin("devserver"));
        process p(arguments);
        CHECK(p.wait() == code);
        const auto lines = std::count(p.err().begin(), p.err().end(), '\n');
        CHECK(lines == (code == 0 ? 0 : 1));
        return p.err() + p.out();
    };
    CHECK(ends({"--version"}, 0).starts_with("devserver "));
    CHECK(ends({"--nonsense"}, 2).find("--nonsense") != std::string::npos);
    ends({"--port", "x"}, 2);
    ends({"--port", "70000"}, 2);
    ends({"--pods", "-1"}, 2);
    ends({"--speed", "0"}, 2);
    CHECK(ends({"--kubeconfig", "/nonexistent/folder/file"}, 1).find("/nonexistent/folder/file") != std::string::npos);
    server s;
    const auto port = s.url.substr(s.url.rfind(':') + 1);
    CHECK(ends({"--port", port}, 1).find(port) != std::string::npos);
    ends({"--address", "no-address"}, 1);
}

TEST_CASE("devserver ends with one line and exit code 1 if stdout cannot be written; with none it serves",
          "[devserver]") {
    process full({"/bin/sh", "-c", "\"$0\" --port 0 > /dev/full", bin("devserver")});
    CHECK(full.wait() == 1);
    CHECK(full.err() == "devserver: stdout: No space left on device\n");
    const temporary_folder folder;
    process none(
        {"/bin/sh", "-c", "exec \"$0\" --port 0 --kubeconfig \"$1\" <&- >&-", bin("devserver"), folder.path("k")});
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!std::filesystem::exists(folder.path("k")) && none.running() && std::chrono::steady_clock::now() < until) {
    }
    CHECK(run({"get", "ns", "--kubeconfig", folder.path("k")}).code == 0);
    none.signal(SIGTERM);
    CHECK(none.wait() == 0);
}

TEST_CASE("the kubeconfig of devserver is private, and gives access where the URL alone does not", "[devserver]") {
    server s({"--token", "s3cret", "--tls"});
    CHECK(s.url.starts_with("https://"));
    CHECK(json::parse(s.curl("GET", "/api/v1/pods")).at("code").as_int64() == 401);
    const auto rights = std::filesystem::status(s.kubeconfig()).permissions();
    CHECK((rights & (std::filesystem::perms::group_all | std::filesystem::perms::others_all)) ==
          std::filesystem::perms::none);
    std::ifstream file(s.kubeconfig());
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    CHECK(text.find("token: \"s3cret\"") != std::string::npos);
    CHECK(text.find("server: " + s.url) != std::string::npos);
    s.child().signal(SIGTERM);
    CHECK(s.child().wait() == 0);
    CHECK(s.child().err().find("s3cret") == std::string::npos);
}

TEST_CASE("devserver preloads as many pods as asked", "[devserver]") {
    server s({"--pods", "321"});
    const auto list = json::parse(s.curl("GET", "/api/v1/pods"));
    CHECK(list.at("items").as_array().size() == 321);
    std::set<std::string> keys;
    for (const auto& p : list.at("items").as_array()) {
        keys.insert(std::string(p.at_pointer("/metadata/namespace").as_string()) + "/" +
                    std::string(p.at_pointer("/metadata/name").as_string()));
        CHECK(p.at_pointer("/status/phase").as_string() == "Running");
    }
    CHECK(keys.size() == 321);
}

TEST_CASE("the simulated cluster changes all the time", "[devserver]") {
    server s({"--simulate", "--speed", "40"});
    CHECK(json::parse(s.curl("GET", "/api/v1/nodes")).at("items").as_array().size() == 5);
    const auto pods = events_of(s, "/api/v1/pods", 400);
    for (const std::string type : {"ADDED", "MODIFIED", "DELETED"}) {
        CHECK(std::any_of(pods.begin(), pods.end(), [&](const seen& e) { return e.type == type; }));
    }
    const auto nodes = events_of(s, "/api/v1/nodes", 7); // a node failed and came back
    CHECK(nodes.back().type == "MODIFIED");
    CHECK(events_of(s, "/apis/coordination.k8s.io/v1/leases", 8).back().type == "MODIFIED");
    CHECK(events_of(s, "/api/v1/events", 20).back().kind == "Event");
    // The deployments have replica sets.
    const auto sets = json::parse(s.curl("GET", "/apis/apps/v1/replicasets"));
    CHECK(sets.at("items").as_array().size() >= 6);
}

TEST_CASE("the simulated cluster goes on, whatever clients do to it", "[devserver]") {
    server s({"--simulate", "--speed", "1", "--seed", "5"});
    for (const std::string name : {"cart", "frontend", "checkout"}) {
        s.curl("PATCH", "/apis/apps/v1/namespaces/shop/deployments/" + name,
               R"({"metadata":{"annotations":null},"spec":{"template":null}})", "application/merge-patch+json");
    }
    // "cart" is rolled out next, after that a container of the gateway crashes.
    process curl({"curl", "-sN", "--max-time", "30", s.url + "/api/v1/namespaces/payments/events?watch=1"});
    CHECK(curl.line_where([](const std::string& l) { return l.find("\"BackOff\"") != std::string::npos; }));
    s.child().signal(SIGTERM);
    CHECK(s.child().wait(std::chrono::seconds(10)) == 0);
}

TEST_CASE("the simulated cluster does the same for the same seed", "[devserver]") {
    const auto play = [](const std::string& seed) {
        server s({"--simulate", "--speed", "60", "--seed", seed});
        return events_of(s, "/api/v1/pods", 300);
    };
    const auto first = play("5");
    CHECK(play("5") == first);
    CHECK(play("6") != first);
}
