#include "programs.hpp"

#include <chrono>
#include <map>

#include <sys/ioctl.h>

using namespace programs;
namespace json = boost::json;

namespace {

bool is(const std::string& line, const char* type) {
    return json::parse(line).at("type").as_string() == type;
}
bool is_synced(const std::string& l) {
    return is(l, "SYNCED");
}

} // namespace

TEST_CASE("watch -o json prints the state, SYNCED, then every event with its fields") {
    const server s;
    s.make("there", "1");
    process w(ctl({"watch", "cm", "--kubeconfig", s.kubeconfig(), "-o", "json"}));
    const auto first = w.line();
    REQUIRE(first);
    const auto initial = json::parse(*first);
    CHECK(initial.at("type").as_string() == "ADDED");
    CHECK(initial.at("key").as_string() == "default/there");
    CHECK(initial.at("initial").as_bool());
    CHECK(initial.at("reason").as_string() == "snapshot");
    CHECK(initial.at("object").at("kind").as_string() == "ConfigMap");
    CHECK(initial.at("object").at("metadata").at("resourceVersion") == initial.at("resourceVersion"));
    const std::string time(initial.at("time").as_string());
    CHECK(time.size() == 24); // 2026-01-02T03:04:05.678Z
    CHECK(time[10] == 'T');
    CHECK(time[19] == '.');
    CHECK(time[23] == 'Z');
    const auto second = w.line();
    REQUIRE(second);
    const auto synced = json::parse(*second);
    CHECK(synced.at("type").as_string() == "SYNCED");
    CHECK(synced.as_object().size() == 2);
    CHECK_FALSE(synced.at("resourceVersion").as_string().empty());

    s.make("x", "1");
    s.change("x", "2");
    s.remove("x");
    std::vector<std::string> types;
    for (int i = 0; i < 3; ++i) {
        const auto l = w.line();
        REQUIRE(l);
        const auto e = json::parse(*l);
        types.emplace_back(e.at("type").as_string());
        CHECK(e.at("key").as_string() == "default/x");
        CHECK_FALSE(e.at("initial").as_bool());
        CHECK(e.at("reason").as_string() == "watch");
        CHECK(e.as_object().contains("finalStateKnown") == (i == 2));
        if (i == 2) CHECK(e.at("finalStateKnown").as_bool());
    }
    CHECK(types == std::vector<std::string>{"ADDED", "MODIFIED", "DELETED"});
    w.signal(SIGINT);
    CHECK(w.wait() == 0);
    CHECK(w.err().empty());
}

TEST_CASE("watch prints one line per event, and with --diff the changed fields") {
    const server s;
    process w(ctl({"watch", "cm", "-A", "--diff", "--kubeconfig", s.kubeconfig()}));
    s.make("x", "old");
    const auto added = w.line_where([](const std::string& l) { return l.find("default/x") != std::string::npos; });
    REQUIRE(added);
    CHECK(added->find("ADDED") != std::string::npos);
    CHECK(added->find("ConfigMap") != std::string::npos);
    s.change("x", "new");
    const auto modified = w.line();
    REQUIRE(modified);
    CHECK(modified->find("MODIFIED") != std::string::npos);
    const auto diff = w.line();
    REQUIRE(diff);
    CHECK(*diff == "    .data.value: old → new");
    w.signal(SIGTERM);
    CHECK(w.wait() == 0);
}

TEST_CASE("a closed pipe ends watch silently") {
    const server s;
    s.make("x", "1");
    process w(ctl({"watch", "cm", "--kubeconfig", s.kubeconfig()}));
    REQUIRE(w.line());
    w.close_out();
    CHECK(w.wait() == 0);
    CHECK(w.err().empty());
}

TEST_CASE("a pipe that others write to as well stays blocking for them, during and after") {
    const server s;
    const std::string flags = "flags:\t"; // of the open file, which all duplicates of a descriptor share
    const auto blocking = [&](const std::string& line) {
        return (std::stoul(line.substr(flags.size()), nullptr, 8) & O_NONBLOCK) == 0;
    };
    const auto tells = [&](const std::string& l) { return l.starts_with(flags); };
    process w(ctl({"watch", "ns", "--kubeconfig", s.kubeconfig()}));
    REQUIRE(w.line());
    process looks({"cat", "/proc/" + std::to_string(w.pid()) + "/fdinfo/1"});
    const auto during = looks.line_where(tells);
    REQUIRE(during);
    CHECK(blocking(*during));
    process get({"/bin/sh", "-c", "\"$0\" get ns --kubeconfig \"$1\"; cat /proc/self/fdinfo/1", bin("informerctl"),
                 s.kubeconfig()});
    const auto after = get.line_where(tells);
    REQUIRE(after);
    CHECK(blocking(*after));
}

TEST_CASE("a reader that pauses loses nothing: the stream stalls instead") {
    const server s;
    process w(ctl({"watch", "cm", "--kubeconfig", s.kubeconfig(), "-o", "json"}));
    REQUIRE(w.line_where(is_synced));
    s.make("big", std::string(20'000, 'x'));
    constexpr int updates = 60; // 1.2 MB: far over what a pipe holds
    for (int i = 1; i <= updates; ++i) s.change("big", std::to_string(i) + std::string(20'000, 'x'));
    REQUIRE(w.line()); // reading begins only now
    for (int i = 1; i <= updates; ++i) {
        const auto l = w.line();
        REQUIRE(l);
        const std::string value(json::parse(*l).at("object").at("data").at("value").as_string());
        CHECK(value.substr(0, value.find('x')) == std::to_string(i));
    }
    w.signal(SIGINT);
    CHECK(w.wait() == 0);
}

TEST_CASE("SIGINT ends a watch whose reader does not read") {
    const server s;
    process w(ctl({"watch", "cm", "--kubeconfig", s.kubeconfig(), "-o", "json"}));
    REQUIRE(w.line_where(is_synced));
    s.make("big", std::string(200'000, 'x'));
    s.change("big", std::string(200'000, 'y'));
    // One line is more than the pipe takes: a write that has begun to fill it does not reach the end of the line.
    const int most = ::fcntl(w.out_descriptor(), F_GETPIPE_SZ);
    REQUIRE(most > 0);
    REQUIRE(most < 200'000);
    int in_it = 0;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (in_it < most / 4 * 3 && std::chrono::steady_clock::now() < until) {
        ::poll(nullptr, 0, 5); // no event tells the reader that a pipe is full
        REQUIRE(::ioctl(w.out_descriptor(), FIONREAD, &in_it) == 0);
    }
    REQUIRE(in_it >= most / 4 * 3);
    w.signal(SIGINT);
    CHECK(w.wait() == 0);
}

TEST_CASE("watch survives a stopped server and says so once") {
    auto s = std::make_unique<server>();
    s->make("x", "1");
    process w(ctl({"watch", "cm", "--kubeconfig", s->kubeconfig(), "-o", "json"}));
    REQUIRE(w.line_where(is_synced));
    s->child().signal(SIGTERM);
    CHECK(s->child().wait() == 0);
    CHECK(w.error_holds("trying again"));
    const auto port = s->url.substr(s->url.rfind(':') + 1);
    process again({bin("devserver"), "--port", port});
    REQUIRE(again.line());
    CHECK(w.error_holds("following again", std::chrono::seconds(60)));
    CHECK(lines(w.err()) == 2); // one line per change of state, not per attempt
    w.signal(SIGINT);
    CHECK(w.wait() == 0);
}

TEST_CASE("after a restart of devserver, a watch holds what the new server lists") {
    // The second server has other pods and passes the versions of the first one's.
    auto first = std::make_unique<server>(std::vector<std::string>{"--pods", "60"});
    process w(ctl({"watch", "pods", "-A", "--server", first->url, "-o", "json"}));
    std::map<std::string, std::string> held; // uids by key
    const auto take = [&](const std::string& line) {
        const auto e = json::parse(line);
        if (is(line, "SYNCED")) return;
        const std::string key(e.at("key").as_string());
        if (is(line, "DELETED"))
            held.erase(key);
        else
            held[key] = e.at_pointer("/object/metadata/uid").as_string();
    };
    const auto listed = [](const server& s) {
        std::map<std::string, std::string> all;
        const auto list = json::parse(s.curl("GET", "/api/v1/pods"));
        for (const auto& p : list.at("items").as_array()) {
            const auto& m = p.at("metadata").as_object();
            all[std::string(m.at("namespace").as_string()) + "/" + std::string(m.at("name").as_string())] =
                m.at("uid").as_string();
        }
        return all;
    };
    const auto follows = [&](const server& s) {
        const auto all = listed(s);
        return w.line_where(
            [&](const std::string& line) {
                take(line);
                return held == all;
            },
            std::chrono::seconds(60));
    };
    REQUIRE(follows(*first));
    const auto port = first->url.substr(first->url.rfind(':') + 1);
    first->child().signal(SIGTERM);
    REQUIRE(first->child().wait() == 0);
    const server second({"--pods", "70", "--seed", "2", "--port", port});
    CHECK(follows(second));
    w.signal(SIGINT);
    CHECK(w.wait() == 0);
}

TEST_CASE("sync takes each --index as one word, wherever it stands") {
    const server s({"--pods", "3"});
    const std::vector<std::vector<std::string>> ways{
        {"sync", "--index", "node=/spec/nodeName", "pods", "-A"},
        {"sync", "--index", "node=/spec/nodeName", "--index", "name=/metadata/name", "pods", "-A"},
        {"sync", "pods", "-A", "--index=node=/spec/nodeName", "--index", "name=/metadata/name"}};
    for (auto arguments : ways) {
        arguments.insert(arguments.end(), {"--server", s.url});
        const auto r = run(arguments);
        INFO(r.err);
        CHECK(r.code == 0);
    }
    CHECK(run({"sync", "--index", "node=/spec/nodeName", "name=/metadata/name", "pods", "--server", s.url}).code == 2);
}

TEST_CASE("sync --json prints what it cost, and again after updates") {
    const server s({"--pods", "200"});
    process p(
        ctl({"sync", "pods", "-A", "--server", s.url, "--index", "node=/spec/nodeName", "--updates", "3", "--json"}));
    const auto first = p.line();
    REQUIRE(first);
    const auto synced = json::parse(*first);
    for (const char* key : {"phase", "objects", "events", "wall_s", "user_s", "sys_s", "rss_mb", "peak_rss_mb",
                            "pool_mb", "bytes_per_object", "resource_version"})
        CHECK(synced.as_object().contains(key));
    CHECK(synced.at("phase").as_string() == "synced");
    CHECK(synced.at("objects").to_number<int>() == 200);
    CHECK(synced.at("events").to_number<int>() == 0);
    CHECK(synced.at("bytes_per_object").to_number<double>() > 100);
    const auto list = json::parse(s.curl("GET", "/api/v1/pods?limit=1"));
    const std::string ns(list.at("items").at(0).at("metadata").at("namespace").as_string());
    const std::string name(list.at("items").at(0).at("metadata").at("name").as_string());
    for (int i = 0; i < 3; ++i)
        s.curl("PATCH", "/api/v1/namespaces/" + ns + "/pods/" + name,
               R"({"metadata":{"annotations":{"n":")" + std::to_string(i) + R"("}}})", "application/merge-patch+json");
    const auto second = p.line();
    REQUIRE(second);
    const auto events = json::parse(*second);
    CHECK(events.at("phase").as_string() == "events");
    CHECK(events.at("events").to_number<int>() >= 3);
    CHECK(p.wait() == 0);
    // A child of a small process: the kernel passes the peak of ours on to our own children.
    process small({"/bin/sh", "-c", "\"$0\" sync ns --server \"$1\" --json; exit $?", bin("informerctl"), s.url});
    REQUIRE(small.wait() == 0);
    const auto few = json::parse(small.out());
    CHECK(few.at("peak_rss_mb").to_number<double>() >= few.at("rss_mb").to_number<double>());
}
