#include "plain_server.hpp"
#include "programs.hpp"

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

TEST_CASE("an error that lasts ends watch and sync with the fourth attempt") {
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

TEST_CASE("get ends when the server hands out the same continue token for ever") {
    plain_server::script says;
    says.list = config_map_list(config_map("good", "1"), R"(,"continue":"again")");
    const plain_server s(says);
    const auto r = run({"get", "cm", "-A", "--server", s.url});
    CHECK(r.code == 1);
    CHECK(r.err == "informerctl: list configmaps: the same continue token twice\n");
}
