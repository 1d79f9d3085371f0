// The child processes of tests.
#include "support/process.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdlib>

using informer::testing::process;

TEST_CASE("a test's child gets no kubeconfig, home or proxy of the caller; what the test gives it wins", "[process]") {
    ::setenv("http_proxy", "http://127.0.0.1:1", 1);
    ::setenv("HTTPS_PROXY", "http://127.0.0.1:1", 1);
    ::setenv("INFORMER_TEST_VARIABLE", "caller", 1);
    process bare({"env"}), given({"env"}, {"HOME=/somewhere", "INFORMER_TEST_VARIABLE=test"});
    for (const char* name : {"http_proxy", "HTTPS_PROXY", "INFORMER_TEST_VARIABLE"}) ::unsetenv(name);
    REQUIRE(bare.wait() == 0);
    REQUIRE(given.wait() == 0);
    const auto has = [](const process& p, const std::string& line) {
        return ("\n" + p.out()).find("\n" + line) != std::string::npos;
    };
    for (const char* name : {"http_proxy=", "HTTPS_PROXY=", "KUBECONFIG="}) CHECK_FALSE(has(bare, name));
    CHECK(has(bare, "HOME=/nonexistent\n"));
    CHECK(has(bare, "INFORMER_TEST_VARIABLE=caller\n"));
    CHECK(has(given, "HOME=/somewhere\n"));
    CHECK(has(given, "INFORMER_TEST_VARIABLE=test\n"));
    CHECK_FALSE(has(given, "HOME=/nonexistent\n"));
}
