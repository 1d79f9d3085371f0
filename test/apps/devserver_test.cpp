// devserver as a program: what it prints, writes, refuses and simulates.
#include "apps/programs.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include <sys/stat.h>

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

std::uint64_t number(const json::value& o, const char* pointer) {
    return std::stoull(std::string(o.at_pointer(pointer).as_string()));
}

/// The resource version before the first write, which is the default namespace.
std::uint64_t beginning(const server& s) {
    return number(json::parse(s.curl("GET", "/api/v1/namespaces/default")), "/metadata/resourceVersion") - 1;
}

std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// The first `count` events of a resource since the server began.
std::vector<seen> events_of(const server& s, const std::string& path, std::size_t count) {
    const auto since = "?watch=1&resourceVersion=" + std::to_string(beginning(s));
    process curl({"curl", "-sN", "--max-time", "20", s.url + path + since});
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
    CHECK(ends({"--pods", "-5"}, 2) ==
          "devserver: --pods: -5 is not a whole number from 0 on (see devserver --help)\n");
    ends({"--pods", "1e3"}, 2);
    for (const std::string odd : {"nan", "-nan", "inf", "0", "1000.5", "x"})
        CHECK(ends({"--speed", odd}, 2) ==
              "devserver: --speed: " + odd + " is not a number from 0.01 to 1000 (see devserver --help)\n");
    for (const std::string odd : {"nan", "NaN", "-inf", "1e400"}) ends({"--bookmark-every", odd}, 2);
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

TEST_CASE("--kubeconfig leaves a pipe and links what they are, and the neighbours of the file alone", "[devserver]") {
    const temporary_folder folder;
    const auto serves = [](const std::string& path) {
        process p({bin("devserver"), "--port", "0", "--kubeconfig", path});
        const auto url = p.line();
        INFO(p.err());
        REQUIRE(url);
        return "server: " + *url;
    };
    const auto pipe = folder.path("pipe");
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    REQUIRE(reader >= 0);
    const auto url = serves(pipe);
    std::string got(65536, '\0'); // what a pipe holds
    const auto n = ::read(reader, got.data(), got.size());
    ::close(reader);
    REQUIRE(n > 0);
    CHECK(got.find(url) != std::string::npos);
    CHECK(std::filesystem::is_fifo(pipe));

    folder.write("elsewhere/real", "old");
    for (const std::string target : {"elsewhere/real", "elsewhere/not-there-yet"}) {
        INFO(target);
        const auto link = folder.path("link"), over = folder.path("link-to-link");
        std::filesystem::remove(link);
        std::filesystem::remove(over);
        std::filesystem::create_symlink(target, link);
        std::filesystem::create_symlink("link", over);
        const auto mine = folder.write("link.new", "mine"), theirs = folder.write(target + ".new", "theirs");
        const auto url_there = serves(over);
        CHECK(std::filesystem::is_symlink(over));
        CHECK(std::filesystem::is_symlink(link));
        CHECK(text_of(folder.path(target)).find(url_there) != std::string::npos);
        struct stat there {};
        REQUIRE(::stat(folder.path(target).c_str(), &there) == 0);
        CHECK((there.st_mode & 07777) == 0600);
        CHECK(text_of(mine) == "mine");
        CHECK(text_of(theirs) == "theirs");
    }
    // Nothing is left behind but what was asked for: real, not-there-yet, and a .new of each.
    const std::filesystem::directory_iterator left(folder.path("elsewhere"));
    CHECK(std::distance(begin(left), end(left)) == 4);

    for (const std::string where : {"elsewhere", "elsewhere/real/below"}) { // a folder, and a file that is none
        process p({bin("devserver"), "--port", "0", "--kubeconfig", folder.path(where)});
        CHECK(p.wait() == 1);
        CHECK(p.err().find("cannot write " + folder.path(where)) != std::string::npos);
    }
}

TEST_CASE("each start of devserver is another cluster: other uids, and versions above all earlier ones",
          "[devserver]") {
    std::set<std::string> uids;
    std::uint64_t newest = 0;
    for (int start = 0; start < 2; ++start) {
        server s({"--pods", "30", "--seed", "7"});
        CHECK(beginning(s) > newest);
        const auto pods = json::parse(s.curl("GET", "/api/v1/pods"));
        for (const auto& p : pods.at("items").as_array())
            uids.insert(std::string(p.at_pointer("/metadata/uid").as_string()));
        newest = number(pods, "/metadata/resourceVersion");
    }
    CHECK(uids.size() == 60);
}

TEST_CASE("devserver says how far it is with its pods, and a signal ends it in the midst of that", "[devserver]") {
    for (const int number : {SIGINT, SIGTERM}) {
        process p({bin("devserver"), "--port", "0", "--pods", "100000000"});
        CHECK(p.error_holds(" of 100000000 pods\n"));
        p.signal(number);
        CHECK(p.wait(std::chrono::seconds(10)) == 128 + number);
        CHECK(p.out().empty());
    }
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
