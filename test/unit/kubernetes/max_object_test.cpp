// Objects over the limit that a user sets.
#include "bench.hpp"

#include <informer/cache/shared_informer.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>

using namespace kubernetes_test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t limit = 4096;

std::string sized(const std::string& name, const std::string& version, std::size_t filler) {
    return R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
           R"(","namespace":"default","resourceVersion":")" + version + R"("},"v":")" + std::string(filler, 'x') +
           "\"}";
}

} // namespace

TEST_CASE("max_object: a larger object is quarantined in lists and watches, its old version stays, others go on") {
    bench b;
    b.config.max_object = limit;
    b.api.emplace(b.rt, b.config);
    auto& next = b.answers->next;
    next.emplace_back(pod_list({pod("a", "1"), sized("big", "2", limit / 2), pod("z", "3")}));
    next.push_back(reply().streamed(
        {watch_event("MODIFIED", sized("big", "105", limit)), watch_event("MODIFIED", sized("a", "106", 10)),
         watch_event("ADDED", sized("late", "107", limit)), watch_event("ERROR", status(410, "Expired", "too old"))}));

    shared_informer pods_here(b.rt, b.api->make_list_watch(pods()), informer_options().watch_list(false));
    bool ended = false;
    asio::co_spawn(b.io, pods_here.run(), [&](std::exception_ptr) { ended = true; });
    const auto bad = [&](const std::string& name) {
        const auto s = pods_here.status();
        return std::any_of(s.quarantine.begin(), s.quarantine.end(), [&](const bad_object& o) {
            return o.key == object_key("default", name) && o.why == errc::too_large &&
                   o.why.what().find("over " + std::to_string(limit) + " bytes (client_config::max_object)") !=
                       std::string::npos;
        });
    };
    const auto version = [&](const std::string& name) {
        const object o = pods_here.get("default/" + name);
        return o ? o.resource_version().str() : "absent";
    };

    b.until([&] { return pods_here.status().last_error == errc::gone && pods_here.status().quarantined == 2; });
    CHECK(bad("big"));
    CHECK(bad("late"));
    CHECK(version("a") == "106");
    CHECK(version("big") == "2");
    CHECK(version("late") == "absent");
    CHECK(version("z") == "3");

    next.emplace_back(
        pod_list({pod("a", "106"), sized("big", "105", limit), sized("other", "110", 2 * limit), pod("z", "111")},
                 R"({"resourceVersion":"120"})"));
    next.push_back(reply().streamed({watch_event("MODIFIED", sized("big", "130", 10))}, reply::stall));
    b.clock->advance(1min); // the back-off
    b.until([&] { return version("big") == "130" && pods_here.status().quarantined == 1; });
    CHECK(bad("other"));
    CHECK_FALSE(bad("big")); // a good version clears it
    CHECK(version("z") == "111");
    CHECK(version("late") == "absent");
    CHECK(pods_here.snapshot().size() == 3);
    CHECK(pods_here.status().relists == 1);

    pods_here.stop();
    b.until([&] { return ended; });
}

TEST_CASE("max_object: a larger answer to a verb is an error") {
    bench b;
    b.config.max_object = limit;
    b.api.emplace(b.rt, b.config);
    failure f;
    b.answers->next.emplace_back(sized("big", "2", limit / 2));
    CHECK(b.run(b.api->get(pods(), object_key("default", "big"), f)).resource_version().str() == "2");
    CHECK_FALSE(f);
    b.answers->next.emplace_back(sized("big", "2", limit));
    CHECK_FALSE(b.run(b.api->get(pods(), object_key("default", "big"), f)));
    INFO(f.what());
    CHECK(f == errc::too_large);
}
