// The first program that a reader tries, in places where it cannot work.
#include "programs.hpp"

using namespace programs;

namespace {

/// docs/examples/readme.cpp against a port where nobody listens.
struct refused {
    temporary_folder folder;
    process program{{INFORMER_EXAMPLE_DIR "/example_readme"},
                    {"KUBECONFIG=" + folder.write("config", R"({"apiVersion":"v1","kind":"Config","current-context":"c",
        "contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}],
        "clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}]})")}};
};

} // namespace

TEST_CASE("the README's program ends with a reason when there is no configuration") {
    process program({INFORMER_EXAMPLE_DIR "/example_readme"}, {"KUBECONFIG=/nonexistent/config"});
    CHECK(program.wait() == 1);
    CHECK(program.err().find("/nonexistent/config") != std::string::npos);
}

TEST_CASE("the README's program says at once why nothing comes") {
    refused r;
    CHECK(r.program.error_holds("pods: "));
    CHECK(r.program.error_holds("refused"));
}

TEST_CASE("the README's program ends with a reason when nothing comes for 30 seconds", "[.slow]") {
    refused r;
    CHECK(r.program.wait(std::chrono::minutes(2)) == 1);
    const auto last = r.program.err().find("pods: wait for the first state");
    REQUIRE(last != std::string::npos);
    CHECK(r.program.err().find("refused", last) != std::string::npos);
}
