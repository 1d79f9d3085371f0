// Watch streams with an event that cannot be told apart from the next ones.
#include "bench.hpp"
#include "support/recording_sink.hpp"

#include <informer/cache/shared_informer.hpp>

#include <catch2/catch_test_macros.hpp>

using namespace kubernetes_test;
using namespace std::chrono_literals;

namespace {

std::string typed(const std::string& name, const std::string& version) {
    return R"({"apiVersion":"v1","kind":"Pod",)" + pod(name, version).substr(1);
}

const std::string deleted = watch_event("DELETED", typed("b", "106"));

/// `for_good`: the server sends the same again, so that only a list helps.
void follow(const std::string& broken, bool for_good) {
    CAPTURE(broken, for_good);
    bench b;
    auto& next = b.answers->next;
    next.emplace_back(pod_list({typed("a", "1"), typed("b", "2")}));
    const auto told = std::make_shared<informer::testing::recording_sink>();
    runtime rt = b.rt;
    rt.with_metrics(told);
    shared_informer here(rt, b.api->make_list_watch(pods()), informer_options().watch_list(false));
    bool ended = false;
    asio::co_spawn(b.io, here.run(), [&](std::exception_ptr) { ended = true; });
    const auto version = [&](const std::string& name) {
        const object o = here.get("default/" + name);
        return o ? o.resource_version().str() : "absent";
    };
    const auto good = watch_event("MODIFIED", typed("a", "105")), late = watch_event("MODIFIED", typed("a", "107"));
    next.push_back(reply().streamed({good, broken, late, late}, reply::stall));
    b.until([&] { return here.status().last_error == errc::syntax_error; });
    CHECK(here.status().last_error_phase == "decode");
    CHECK(told->counters["informer_restarts_total resource=pods reason=decode"] == 1);
    CHECK(version("a") == "105");
    CHECK(version("b") == "2");

    if (for_good) {
        next.push_back(reply().streamed({broken, late, late}, reply::stall));
        next.emplace_back(pod_list({typed("a", "107")}, R"({"resourceVersion":"110"})"));
        next.push_back(reply().streamed({}, reply::stall));
    } else {
        next.push_back(reply().streamed({deleted, late}, reply::stall));
    }
    b.clock->advance(1min); // the back-off
    if (for_good) {
        b.until([&] { return here.status().attempts == 2; });
        b.clock->advance(1min);
    }
    b.until([&] { return version("a") == "107" && version("b") == "absent"; });
    CHECK(b.answers->lines.at(2).find("resourceVersion=105&") != std::string::npos);
    CHECK(here.status().relists == (for_good ? 1U : 0U));
    CHECK(here.status().quarantined == 0);

    here.stop();
    b.until([&] { return ended; });
}

} // namespace

TEST_CASE("malformed watch event: the watch ends at once, and neither that event nor those behind it are lost") {
    std::string quote = deleted, brackets = deleted;
    quote.erase(quote.find("\"}}}"), 1);
    brackets.erase(brackets.find("}}}"), 2);
    for (const bool for_good : {false, true})
        for (const auto& broken : {quote, brackets, deleted.substr(0, 40) + "\n"}) follow(broken, for_good);
}
