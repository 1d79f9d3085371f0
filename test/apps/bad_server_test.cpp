#include "plain_server.hpp"
#include "programs.hpp"

#include "informerctl/patience.hpp"

#include <informer/testing/manual_clock.hpp>

using namespace programs;

TEST_CASE("a server that refuses watch-lists is listed instead, whatever its refusal") {
    const std::string refusals[] = {"400 Bad Request", "403 Forbidden", "422 Unprocessable Entity"};
    for (const auto& refusal : refusals) {
        INFO(refusal);
        plain_server::script says;
        says.list = config_map_list(config_map("good", "1"));
        says.watch_list_status = refusal;
        const plain_server s(says);
        const auto synced = run({"sync", "cm", "-A", "--json", "--server", s.url});
        CHECK(synced.code == 0);
        CHECK(synced.out.find("\"objects\":1,") != std::string::npos);
        process w(ctl({"watch", "cm", "-A", "--server", s.url}));
        const auto first = w.line();
        REQUIRE(first);
        CHECK(first->find("d/good") != std::string::npos);
        w.signal(SIGTERM);
        CHECK(w.wait() == 0);
    }
}

TEST_CASE("an error that lasts ends watch and sync at the fourth attempt") {
    plain_server::script says;
    says.list = R"({"kind":"Status","code":500,"message":"boo"})";
    says.list_status = "500 Internal Server Error";
    const plain_server s(says);
    const auto r = run({"sync", "cm", "-A", "--server", s.url});
    CHECK(r.code == 1);
    CHECK(r.err == "informerctl: list configmaps: server error: boo\n");
    std::size_t lists = 0;
    for (const auto& request : s.requests()) lists += request.find("/configmaps?limit=") != std::string::npos;
    CHECK(lists == 4);
}

TEST_CASE("the refusal of a proxy ends watch and sync at once, and is shown in its words") {
    plain_server::script says;
    says.list = "your password has expired";
    // sent in the place of the server; a proxy that refuses a tunnel sends no answer (below)
    says.list_status = "407 Proxy Authentication Required";
    const plain_server s(says);
    for (const std::string command : {"watch", "sync"}) {
        const auto r = run({command, "cm", "-A", "--server", s.url});
        CHECK(r.code == 1);
        CHECK(r.err == "informerctl: list configmaps: unexpected HTTP status 407: your password has expired\n");
    }
    std::size_t lists = 0;
    for (const auto& request : s.requests()) lists += request.find("/configmaps?limit=") != std::string::npos;
    CHECK(lists == 2);

    const informer::failure refused(informer::errc::connect_failed,
                                    "connect to api:443: the proxy http://p:1 answered 407");
    informer::informer_status now;
    now.last_error = refused;
    now.attempts = 1;
    const informer::testing::manual_clock clock;
    informerctl::patience before_sync(clock);
    CHECK(before_sync.over(now));
    CHECK(before_sync.why().what() == refused.what());
}

TEST_CASE("get ends when the server hands out the same continue token for ever") {
    plain_server::script says;
    says.list = config_map_list(config_map("good", "1"), R"(,"continue":"again")");
    const plain_server s(says);
    const auto r = run({"get", "cm", "-A", "--server", s.url});
    CHECK(r.code == 1);
    CHECK(r.err == "informerctl: list configmaps: the same continue token twice: bad response\n");
}

TEST_CASE("bad objects are left out and named, the good ones among them are kept") {
    const std::string deep = std::string(1001, '[') + std::string(1001, ']');
    const std::vector<std::string> bad{"12",
                                       "null",
                                       R"("text")",
                                       "[]",
                                       "{}",
                                       R"({"metadata":5})",
                                       R"({"metadata":{"name":7}})",
                                       R"({"metadata":{"name":"utf8","namespace":"d"},"x":"\xff"})",
                                       R"({"metadata":{"name":"deep","namespace":"d"},"x":)" + deep + "}",
                                       R"({"metadata":{"name":"syntax","namespace":"d"},"x":tru})"};
    plain_server::script says;
    std::string items = config_map("first", "1");
    for (const auto& b : bad) items += "," + b;
    items +=
        R"(,{"metadata":{"name":"unversioned","namespace":"d","resourceVersion":""},"x":1e999,"x":12345678901234567890123})";
    says.list = config_map_list(items + "," + config_map("last", "2"));
    says.watch = R"({"type":"ADDED","object":{"metadata":{"name":"late","namespace":"d"},"x":tru}})"
                 R"({"type":"WEIRD","object":{}})"
                 R"({"type":"ADDED","object":)" +
                 config_map("end", "200") + "}";
    {
        const plain_server s(says);
        const auto r = run({"get", "cm", "-A", "-o", "name", "--server", s.url});
        CHECK(r.code == 1); // the output is not complete
        CHECK(r.out == "configmap/first\nconfigmap/last\nconfigmap/unversioned\n");
        CHECK(lines(r.err) == bad.size());
    }
    {
        const plain_server s(says);
        const auto r = run({"sync", "cm", "-A", "--server", s.url});
        CHECK(r.code == 0);
        CHECK(r.out.find("synced: 3 objects") == 0);
        for (const char* named : {"d/utf8", "d/deep", "d/syntax", "item 1:", "item 7:"})
            CHECK(r.out.find(std::string("  bad     ") + named) != std::string::npos);
    }
    const plain_server s(says);
    process w(ctl({"watch", "cm", "-A", "--server", s.url}));
    REQUIRE(w.line_where([](const std::string& l) { return l.find("d/end") != std::string::npos; }));
    w.signal(SIGTERM);
    CHECK(w.wait() == 0);
    INFO(w.err());
    CHECK(lines(w.err()) == bad.size() + 2);
    for (const char* named : {"d/utf8", "d/deep", "d/syntax", "object 1:", "d/late", "'WEIRD'"})
        CHECK(w.err().find(named) != std::string::npos);
}

TEST_CASE(
    "a signal ends a command that waits for a silent server, without a message; for a watch alone that is success") {
    const std::vector<std::vector<std::string>> commands{
        {"get", "cm"}, {"get", "cm", "x"}, {"watch", "cm"}, {"sync", "cm"}};
    for (const bool discovered : {false, true}) {
        for (const auto& command : commands) {
            INFO(command[0] << ' ' << command.size() << ' ' << discovered);
            plain_server::script says;
            says.silent = discovered ? "/configmaps" : "/api";
            const plain_server s(says);
            auto line = command;
            line.insert(line.end(), {"--server", s.url});
            process p(ctl(line));
            const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
            const auto asked = [&] {
                const auto all = s.requests();
                return !all.empty() && all.back().find(says.silent) != std::string::npos;
            };
            while (!asked() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
            REQUIRE(asked());
            p.signal(SIGTERM);
            CHECK(p.wait() == (command[0] == "watch" ? 0 : 128 + SIGTERM));
            CHECK(p.err().empty());
        }
    }
}

TEST_CASE("an answer that is no complete list is an error that says why, never an empty list") {
    const std::string start = R"({"kind":"ConfigMapList","apiVersion":"v1",)";
    const std::string metadata = R"("metadata":{"resourceVersion":"5"},)";
    const std::pair<std::string, std::string> answers[] = {
        {start + metadata + R"("items":{}})", "items of the list is no array"},
        {start + metadata + R"("items":"none"})", "items of the list is no array"},
        {start + R"("more":[]})", "the list has neither metadata nor items"},
        {start + R"("metadata":5,"items":[]})", "metadata of the list is no object"},
        {R"({"kind":"ConfigMap","metadata":{}})", "no list but a ConfigMap"},
        {R"({"kind":"Status","status":"Failure","code":500,"message":"boo"})", "boo"},
        {"<html>please log in</html>", "expected '{'"},
        {"[]", "expected '{'"},
        {start + metadata + R"("items":[)" + config_map("a", "1") + ",", "ends in the middle"},
    };
    for (const auto& [answer, why] : answers) {
        INFO(answer);
        plain_server::script says;
        says.list = answer;
        const plain_server s(says);
        const auto r = run({"get", "cm", "-A", "--server", s.url});
        INFO(r.err);
        CHECK(r.code == 1);
        CHECK(r.out.empty());
        CHECK(lines(r.err) == 1);
        CHECK(r.err.find(why) != std::string::npos);
    }
}
