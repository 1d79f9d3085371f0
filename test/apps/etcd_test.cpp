// informerctl on etcd: on a scripted gateway, and on a real etcd where there is one.
#include "conformance/real_etcd.hpp"
#include "programs.hpp"
#include "unit/etcd/bench.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include <mutex>
#include <thread>

using namespace programs;
namespace json = boost::json;
namespace asio = boost::asio;

namespace {

using etcd_test::pair;
using etcd_test::reply;
using informer::http::server_request;
using words = std::vector<std::string>;

/// A scripted member of etcd on a thread of its own. The function that it is made with answers all requests.
class gateway {
public:
    using answer = std::function<reply(const server_request&)>;
    explicit gateway(answer says) {
        member_ = std::make_unique<etcd_test::member>(informer::runtime(io_.get_executor()));
        url = member_->url();
        member_->answer = [this, says = std::move(says)](const server_request& q) {
            const std::lock_guard lock(mutex_);
            requests_.push_back(q);
            return says(q);
        };
        thread_ = std::thread([this] { io_.run(); });
    }
    gateway(const gateway&) = delete;
    gateway& operator=(const gateway&) = delete;
    ~gateway() {
        // On its own thread: stop() begins where it is called.
        asio::post(io_, [this] { asio::co_spawn(io_, member_->server->stop(), asio::detached); });
        guard_.reset();
        thread_.join();
    }
    std::vector<server_request> requests() const {
        const std::lock_guard lock(mutex_);
        return requests_;
    }
    std::string url;

private:
    asio::io_context io_{1};
    asio::executor_work_guard<asio::io_context::executor_type> guard_{io_.get_executor()};
    std::unique_ptr<etcd_test::member> member_;
    mutable std::mutex mutex_;
    std::vector<server_request> requests_;
    std::thread thread_;
};

/// Two services and a note at revision 9; then web changes and db is deleted.
reply services(const server_request& q) {
    const auto web = pair("/s/shop/web", R"({"address":"10.0.0.1","metadata":{"labels":{"zone":"north"}}})", 2, 2),
               db = pair("/s/shop/db", R"({"address":"10.0.0.2"})", 3, 3),
               note = pair("/s/lab/note", "half a word", 4, 9, 3);
    if (q.path == "/v3/kv/range" && q.body.find(etcd_test::b64("/s/shop/")) != std::string::npos)
        return reply(etcd_test::range(9, {db, web}));
    if (q.path == "/v3/kv/range") return reply(etcd_test::range(9, {note, db, web}));
    if (q.path != "/v3/watch") return reply(404, "404 page not found");
    const auto moved =
        pair("/s/shop/web", R"({"address":"10.0.0.3","metadata":{"labels":{"zone":"north"}}})", 2, 10, 2);
    return reply(etcd_test::created(9) + etcd_test::events(10, {etcd_test::put(moved, web)}) +
                 etcd_test::events(11, {etcd_test::gone("/s/shop/db", 11, db)}))
        .streamed(reply::stall);
}

/// Runs the command with options that name this etcd.
result on(const gateway& g, words arguments, words environment = {}) {
    arguments.insert(arguments.begin() + 1, {"--endpoints", g.url});
    return run(std::move(arguments), std::move(environment));
}

/// Refuses every client that does not log in as reader with "se:cret".
reply guarded(const server_request& q) {
    if (q.path == "/v3/auth/authenticate") {
        const auto said = json::parse(q.body);
        if (said.at("name") == "reader" && said.at("password") == "se:cret") return reply(R"({"token":"t.1"})");
        return reply(400, R"({"error":"authentication failed, invalid user ID or password","code":3})");
    }
    if (q.header("Authorization") == "t.1") return services(q);
    return reply(400, R"({"error":"etcdserver: user name is empty","code":3})");
}

asio::awaitable<void> put_into(informer::conformance::real_etcd* e, std::string key, std::string value) {
    co_await informer::conformance::real_etcd::put(e, std::move(key), std::move(value));
}

void fails(const result& r, int code, const std::string& part) {
    INFO(r.err);
    CHECK(r.code == code);
    CHECK(r.out.empty());
    CHECK(lines(r.err) == 1);
    CHECK(r.err.find(part) != std::string::npos);
}

} // namespace

TEST_CASE("get on etcd prints the keys below a prefix in every form") {
    const gateway g(services);
    const auto got = [&](const words& arguments) {
        const auto r = on(g, arguments);
        INFO(r.err);
        CHECK(r.code == 0);
        CHECK(r.err.empty());
        return r.out;
    };
    CHECK(got({"get", "/s/"}) == "NAME       REVISION   VALUE\n"
                                 "lab/note   9          half a word\n"
                                 "shop/db    3          {\"address\":\"10.0.0.2\"}\n"
                                 "shop/web   2          {\"address\":\"10.0.0.1\"}\n");
    CHECK(got({"get", "/s/", "-A", "--no-headers"}) == "lab    note   9   half a word\n"
                                                       "shop   db     3   {\"address\":\"10.0.0.2\"}\n"
                                                       "shop   web    2   {\"address\":\"10.0.0.1\"}\n");
    CHECK(got({"get", "/s/", "-n", "shop", "-o", "wide"}) ==
          "NAME   REVISION   VERSION   LABELS       VALUE\n"
          "db     3          1         <none>       {\"address\":\"10.0.0.2\"}\n"
          "web    2          1         zone=north   {\"address\":\"10.0.0.1\"}\n");
    CHECK(g.requests().back().body.find(etcd_test::b64("/s/shop/")) !=
          std::string::npos); // only this prefix is requested
    CHECK(got({"get", "/s/", "-o", "name"}) == "/s/lab/note\n/s/shop/db\n/s/shop/web\n");
    CHECK(got({"get", "/s/", "-l", "zone=north", "-o", "name"}) == "/s/shop/web\n");
    CHECK(got({"get", "/s/", "shop/web", "-o", "jsonpath={.address}"}) == "10.0.0.1");
    CHECK(got({"get", "/s/", "-n", "shop", "web", "-o", "jsonpath={.metadata.name}"}) == "web");
    CHECK(got({"get", "/s/", "-A", "shop/web", "-o", "jsonpath={.metadata.namespace}"}) == "shop");
    CHECK(got({"get", "/s/", "--wrap", "all", "shop/web", "-o", "jsonpath={.value.address}"}) == "10.0.0.1");
    CHECK(json::parse(got({"get", "/s/", "-o", "json"})).at("items").as_array().size() == 3);
    CHECK(got({"get", "", "-o", "name"}) == "/s/lab/note\n/s/shop/db\n/s/shop/web\n"); // all keys
    fails(on(g, {"get", "/s/", "nope"}), 1, "get /s/nope: no such key");
}

TEST_CASE("get on etcd names the keys whose values it leaves out, and says which option includes them") {
    const gateway g([](const server_request&) {
        return reply(etcd_test::range(9, {pair("/s/good", "{}", 4, 4), pair("/s/half", "{\"a\":", 2, 2),
                                          pair("/s/pod", R"({"kind":"Pod","apiVersion":"v1"})", 3, 3)}));
    });
    const auto r = on(g, {"get", "/s/", "-o", "name"});
    CHECK(r.code == 1);
    CHECK(r.out == "/s/good\n");
    INFO(r.err);
    CHECK(lines(r.err) == 2);
    CHECK(r.err.find("skipped /s/half: ") != std::string::npos);
    CHECK(r.err.find("skipped /s/pod: a v1 Pod ") != std::string::npos);
    CHECK(r.err.find("(--wrap all takes it)\n") != std::string::npos);
    const auto one = on(g, {"get", "/s/", "good", "-o", "name"}); // the other keys are not requested
    CHECK(one.code == 0);
    CHECK(one.err.empty());
    fails(on(g, {"get", "/s/", "pod"}), 1, "--wrap all");
    process w(ctl({"watch", "/s/", "--endpoints", g.url}));
    CHECK(w.error_holds("skipped /s/pod: a v1 Pod "));
    CHECK(w.error_holds("(--wrap all takes it)\n"));
}

TEST_CASE("keys of etcd that are no objects are named as they are in etcd") {
    const gateway g([](const server_request&) {
        return reply(etcd_test::range(9, {pair("/s", "root", 2, 2), pair("/s/", "{}", 3, 3),
                                          pair("/s/n/half", "{", 4, 4), pair("/s/\xff", "{}", 5, 5)}));
    });
    const auto names = [&](const words& arguments, const std::string& prefix, words keys) {
        words command{"get", prefix, "--endpoints", g.url};
        command.insert(command.end(), arguments.begin(), arguments.end());
        const auto r = run(command);
        INFO(r.err);
        CHECK(r.code == 1);
        CHECK(lines(r.err) == keys.size() + (r.out.empty() ? 1 : 0)); // "No keys found"
        for (const auto& key : keys) CHECK(r.err.find("skipped " + key + ": list ") != std::string::npos);
        for (const auto& key : keys) CHECK(r.err.find(": decode " + key + ": ") != std::string::npos);
        command[0] = "sync";
        const auto synced = run(command);
        CHECK(lines(synced.out) == 4 + keys.size());
        for (const auto& key : keys) CHECK(synced.out.find("  bad     " + key + ": ") != std::string::npos);
    };
    names({}, "/s", {"/s", "/s/n/half", "/s/%ff"});         // "/s/" is the key named "/" there
    names({}, "/s/", {"/s", "/s/", "/s/n/half", "/s/%ff"}); // "/s" is not below the prefix
    names({"-A"}, "/s/", {"/s", "/s/", "/s/n/half", "/s/%ff"});
}

TEST_CASE("watch on etcd prints the keys, then every change") {
    const gateway g(services);
    process w(ctl({"watch", "/s/", "-A", "--diff", "--endpoints", g.url}));
    words told;
    for (int i = 0; i < 6; ++i) {
        const auto line = w.line();
        REQUIRE(line);
        told.push_back(line->find("Z  ") == std::string::npos ? *line : line->substr(line->find("Z  ") + 3));
    }
    CHECK(told == words{"ADDED     KeyValue  lab/note  9", "ADDED     KeyValue  shop/db  3",
                        "ADDED     KeyValue  shop/web  2", "MODIFIED  KeyValue  shop/web  10",
                        "    .address: 10.0.0.1 → 10.0.0.3", "    .metadata.generation: 1 → 2"});
    const auto last = w.line_where([](const std::string& l) { return l.find("DELETED") != std::string::npos; });
    REQUIRE(last);
    CHECK(last->find("shop/db  11") != std::string::npos);
    w.signal(SIGINT);
    CHECK(w.wait() == 0);
    CHECK(w.err().empty());

    process one(ctl({"watch", "/s/", "-n", "shop", "web", "-o", "name", "--endpoints", g.url}));
    CHECK(one.line() == "/s/shop/web");
    CHECK(one.line() == "/s/shop/web");
    one.signal(SIGINT);
    CHECK(one.wait() == 0);
}

TEST_CASE("sync on etcd prints what a cache of the keys costs") {
    const gateway g(services);
    process p(ctl({"sync", "/s/", "--index", "address=/address", "--updates", "1", "--json", "--endpoints", g.url}));
    const auto first = p.line(), second = p.line();
    REQUIRE(first);
    REQUIRE(second);
    CHECK(json::parse(*first).at("objects").to_number<int>() == 3);
    CHECK(json::parse(*first).at("resource_version") == "9");
    CHECK(json::parse(*second).at("phase") == "events");
    CHECK(p.wait() == 0);
    const auto people = on(g, {"sync", "/s/"});
    CHECK(people.out.find("synced: 3 objects of /s/, ") == 0);
}

TEST_CASE("etcd is found in the same ways as by etcdctl") {
    const gateway g(services);
    const std::string bare = g.url.substr(g.url.find("//") + 2), nobody = "http://127.0.0.1:1";
    const auto named = [](const result& r) {
        INFO(r.err);
        CHECK(r.code == 0);
        CHECK(r.out == "/s/shop/web\n");
    };
    const words get{"get", "/s/", "shop/web", "-o", "name"};
    const auto with = [&get](words more) {
        more.insert(more.begin(), get.begin(), get.end());
        return more;
    };
    named(run(with({"--endpoints", bare})));
    named(
        // options may also stand before the command
        run({"--endpoints", g.url, "--namespaced", "get", "/s/", "shop/web", "-o", "name"}));
    named(run(with({"--endpoints", nobody + "," + bare})));
    named(run(with({"--etcd"}), {"ETCDCTL_ENDPOINTS=" + g.url}));
    named(run(with({"--endpoints=" + g.url}), {"ETCDCTL_ENDPOINTS=" + nobody}));
    // Like etcdctl, by Go's rules: without a scheme it means https, which the gateway does not speak.
    for (const std::string yes : {"1", "t", "T", "TRUE", "true", "True"})
        fails(run(with({"--endpoints", bare}), {"ETCDCTL_INSECURE_SKIP_TLS_VERIFY=" + yes}), 1, "TLS");
    for (const std::string no : {"0", "f", "F", "FALSE", "false", "False", ""})
        named(run(with({"--endpoints", bare}), {"ETCDCTL_INSECURE_SKIP_TLS_VERIFY=" + no}));
    for (const std::string odd : {"yes", "tRUE", "2"})
        fails(run(with({"--endpoints", bare}), {"ETCDCTL_INSECURE_SKIP_TLS_VERIFY=" + odd}), 2,
              "$ETCDCTL_INSECURE_SKIP_TLS_VERIFY: " + odd + " is neither true nor false");
    // The environment alone does not turn a resource of Kubernetes into a prefix.
    fails(run({"get", "pods", "--server", nobody}, {"ETCDCTL_ENDPOINTS=" + g.url}), 1, "discover");
}

TEST_CASE("passwords of etcd come from a file, the environment or the command line, and are not shown") {
    const gateway g(guarded);
    const temporary_folder folder;
    const words get{"get", "--endpoints", g.url, "/s/", "shop/web", "-o", "name", "-vv"};
    const auto with = [&get](words more) {
        more.insert(more.begin(), get.begin(), get.end());
        return more;
    };
    const std::string file = folder.write("password", "se:cret\n");
    const result granted[] = {run(with({"--user", "reader", "--password-file", file})),
                              run(with({"--user", "reader:se:cret"})),
                              run(with({"--user=reader", "--password=se:cret"})),
                              run(with({"--user", "reader"}), {"ETCDCTL_PASSWORD=se:cret"}),
                              run(with({}), {"ETCDCTL_USER=reader:se:cret"}),
                              run(with({"--password-file", file}), {"ETCDCTL_USER=reader", "ETCDCTL_PASSWORD=other"})};
    for (const auto& r : granted) {
        INFO(r.err);
        CHECK(r.code == 0);
        CHECK(r.out == "/s/shop/web\n");
        CHECK(r.err.find("cret") == std::string::npos);
    }
    for (const std::string command : {"get", "watch", "sync"}) {
        fails(run({command, "--endpoints", g.url, "/s/"}), 1, "user name is empty");
        fails(run({command, "--endpoints", g.url, "/s/", "--user", "reader:wrong"}), 1, "invalid user ID or password");
        fails(run({command, "--endpoints", g.url, "/s/", "--user", "reader"}), 2, "--user reader: no password");
        fails(run({command, "--endpoints", g.url, "/s/", "--user", "reader", "--password-file", folder.path("absent")}),
              2, "absent");
        fails(run({command, "--endpoints", "http://10.255.255.1:2379", "/s/", "--user", "reader:se:cret"}), 1,
              "is not TLS");
    }
}

TEST_CASE("errors of etcd are one clear line and exit code 1, wrong usage 2") {
    const gateway g(services), other([](const server_request&) { return reply(404, "404 page not found"); });
    const temporary_folder folder;
    for (const std::string command : {"get", "watch", "sync"}) {
        INFO(command);
        fails(run({command, "--endpoints", "http://127.0.0.1:1", "/s/"}), 1, "refused");
        fails(on(other, {command, "/s/"}), 1, "no v3 gateway");
        fails(run({command, "--endpoints", "ftp://x", "/s/"}), 1, "ftp://x");
        fails(on(g, {command, "/s/", "--cacert", folder.path("absent")}), 1, "absent: no such file");
        fails(on(g, {command, "/s/", "-n", "a/b"}), 1, "namespace");
        fails(on(g, {command, "/s/", "--cert", "x"}), 2, "--key");
        fails(on(g, {command, "/s/", "--wrap", "some"}), 2, "--wrap");
        fails(on(g, {command, "/s/", "--token", "x"}), 2, "--token is of Kubernetes");
        fails(run({command, "pods", "--password", "x"}), 2, "--password is of etcd");
        fails(on(g, {command, "/s/", "--cluster", "x"}), 2, "--cluster is of Kubernetes");
        fails(on(g, {command}), 2, "RESOURCE");
        fails(run({command, "/s/"}), 2, "--etcd");
    }
    fails(run({"--endpoints", g.url, "resources"}), 2, "resources are of Kubernetes");
    fails(run({"--password", "x", "get", "pods"}), 2, "--password is of etcd");
    fails(run({"--token", "x", "get", "--endpoints", g.url, "/s/"}), 2, "--token is of Kubernetes");
    fails(on(g, {"get", "/s/", "-A", "x"}), 2, "expected NAMESPACE/NAME");
    fails(on(g, {"get", "/s/", "--namespaced", "x"}), 2, "expected NAMESPACE/NAME");
    CHECK(run({"watch", "--help"}).out.find("--endpoints") != std::string::npos);
}

TEST_CASE("a real etcd: informerctl gets, watches and syncs it, over TLS, too", "[etcd]") {
    using informer::conformance::real_etcd;
    const informer::testing::certificate_authority ca;
    const temporary_folder folder;
    const std::string ca_file = folder.write("ca.pem", ca.certificate_pem());
    for (const bool tls : {false, true}) {
        INFO("TLS: " << tls);
        asio::io_context io(1);
        real_etcd e(io, "default", tls ? &ca : nullptr);
        informer::testing::run_test(io, real_etcd::start(&e), std::chrono::seconds(60));
        const auto put = [&](const std::string& key, const std::string& value) {
            informer::testing::run_test(io, put_into(&e, key, value));
        };
        put("/s/a/x", R"({"v":1})");
        put("/s/a/y", "text");
        put("/t/a/z", "elsewhere");
        words where{"--endpoints", e.url()};
        if (tls) where.insert(where.end(), {"--cacert", ca_file});
        const auto with = [&where](words arguments) {
            arguments.insert(arguments.end(), where.begin(), where.end());
            return arguments;
        };
        const auto got = run(with({"get", "/s/", "-n", "a", "--no-headers"}));
        INFO(got.err);
        CHECK(got.out == "x   2   {\"v\":1}\ny   3   text\n");
        CHECK(run(with({"sync", "/s/"})).out.find("synced: 2 objects of /s/, 0 updates, at resource version 4") == 0);
        process w(ctl(with({"watch", "/s/", "-o", "json"})));
        REQUIRE(w.line_where([](const std::string& l) { return l.find("SYNCED") != std::string::npos; }));
        put("/s/a/x", R"({"v":2})");
        const auto line = w.line();
        REQUIRE(line);
        CHECK(json::parse(*line).at("type") == "MODIFIED");
        CHECK(json::parse(*line).at("key") == "a/x");
        w.signal(SIGINT);
        CHECK(w.wait() == 0);
        if (!tls) continue;
        fails(run({"get", "--endpoints", e.url(), "/s/"}), 1, "certificate");
        CHECK(run({"get", "--endpoints", e.url(), "/s/", "--insecure-skip-tls-verify"}).code == 0);
        // Without a scheme, TLS is used if a CA is given.
        where[1].erase(0, where[1].find("//") + 2);
        CHECK(run(with({"get", "/s/"})).code == 0);
    }
}
