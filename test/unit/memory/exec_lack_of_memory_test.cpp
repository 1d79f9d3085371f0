// Exec plugins when the system refuses memory: the request fails, no process and no descriptor is left, and other
// plugins still run.
#include "refusal.hpp"
#include "support/system_calls.hpp"
#include "support/temporary_folder.hpp"

#include <informer/kubernetes/client.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <functional>
#include <new>
#include <string>

#include <sys/stat.h>
#include <sys/wait.h>

using namespace informer;
using informer::testing::for_every_request;
using informer::testing::lack;
using informer::testing::refusal;
using namespace std::chrono_literals;

namespace {

bool run_until(asio::io_context& io, const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + 5s;
    while (!done() && std::chrono::steady_clock::now() < end) {
        io.restart();
        io.run_one_for(10ms);
    }
    return done();
}

std::size_t descriptors() {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
    return n;
}

/// Reaps no process: one that has ended but was not reaped still counts as a child.
bool childless() {
    siginfo_t about{};
    return ::waitid(P_ALL, 0, &about, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
}

struct outcome {
    failure f;
    bool over = false, refused = false;
};

void ask(asio::io_context& io, kubernetes::client& c, const object_key& key, outcome& o) {
    api_resource pods;
    pods.version = "v1";
    pods.kind = "Pod";
    pods.plural = "pods";
    pods.namespaced = true;
    asio::co_spawn(io, c.get(pods, key, o.f), [&o](std::exception_ptr e, const object&) {
        o.over = true;
        try {
            if (e) std::rethrow_exception(e);
        } catch (const std::bad_alloc&) {
            o.refused = true;
        }
    });
}

} // namespace

TEST_CASE("without memory a run of an exec plugin fails and leaves nothing behind", "[memory]") {
    informer::testing::need_pidfd_open();
    const informer::testing::temporary_folder folder;
    const std::string answer = folder.write(
        "answer", R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t"}})");
    kubernetes::client_config config;
    config.server = "http://127.0.0.1:1"; // no server is there
    config.credentials.exec.command = folder.write("plugin", "#!/bin/sh\nexec cat " + answer + "\n");
    REQUIRE(::chmod(config.credentials.exec.command.c_str(), 0700) == 0);
    const object_key key("default", "a");
    for_every_request([&](const refusal& r) {
        const std::size_t before = descriptors();
        {
            asio::io_context io(1);
            const runtime rt(io.get_executor());
            kubernetes::client c(rt, config), another(rt, config);
            outcome first, second;
            ask(io, c, key, first);
            try {
                const lack l(r);
                run_until(io, [&] { return first.over; });
            } catch (const std::bad_alloc&) { // an asynchronous operation lacked memory as it began
                first.refused = true;
            }
            REQUIRE((first.over || first.refused));
            CHECK((first.refused || first.f));
            REQUIRE(run_until(io, [] { return childless(); }));
            ask(io, another, key, second);
            CHECK(run_until(io, [&] { return second.over; }));
            INFO(second.f.what());
            CHECK(second.f == errc::connection_refused);
            REQUIRE(run_until(io, [] { return childless(); }));
        }
        CHECK(descriptors() == before);
    });
}
