// Examples when things go wrong; that they work is checked by ./dev test, which runs them.
#include "programs.hpp"

using namespace programs;

TEST_CASE("the example of a controller ends by itself, and says why, when its caches do not sync") {
    const temporary_folder folder;
    const auto config = folder.write("kubeconfig", R"({"current-context":"c",
"contexts":[{"name":"c","context":{"cluster":"nobody","user":"u"}}],"users":[{"name":"u","user":{}}],
"clusters":[{"name":"nobody","cluster":{"server":"http://127.0.0.1:1"}}]})");
    process p({INFORMER_EXAMPLE_DIR "/example_controller", "1"}, {"KUBECONFIG=" + config});
    const int code = p.wait();
    INFO(p.err());
    CHECK(code == 1);
    CHECK(p.err().find("controller info: deployments.apps is not in sync after 1 s") != std::string::npos);
    CHECK(p.out() == "0 reconciles\n");
}
