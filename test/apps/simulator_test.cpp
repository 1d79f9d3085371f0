// The simulated cluster on a manual clock.
#include "devserver/simulator.hpp"

#include <informer/testing/manual_clock.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>

using namespace std::chrono_literals;
namespace json = boost::json;

namespace {

struct cluster {
    explicit cluster(std::uint64_t seed)
        : rt(with_clock(io, clock)), server(rt, informer::testing::api_server_options().history(1000)),
          life(server, clock, seed) {
        life.populate();
        now = life.next();
    }
    void step() {
        clock->advance(life.next() - now);
        now = life.next();
        life.step();
    }
    static informer::runtime with_clock(boost::asio::io_context& io, std::shared_ptr<informer::clock> c) {
        informer::runtime r(io.get_executor());
        r.with_clock(std::move(c));
        return r;
    }

    boost::asio::io_context io{1};
    std::shared_ptr<informer::testing::manual_clock> clock = std::make_shared<informer::testing::manual_clock>();
    informer::runtime rt;
    informer::testing::api_server server;
    devserver::simulator life;
    std::chrono::milliseconds now{};
};

std::string text(const json::value& o, const char* pointer) {
    return std::string(o.at_pointer(pointer).as_string());
}

std::map<std::string, std::string> revisions_of(const informer::testing::api_server& server) {
    std::map<std::string, std::string> all;
    for (const auto& d : server.list("deployments.apps"))
        all[text(d, "/metadata/name")] = text(d, "/metadata/annotations/deployment.kubernetes.io~1revision");
    return all;
}

} // namespace

TEST_CASE("the simulated cluster never stands still: no pod is pending for long, and no roll-out stops",
          "[devserver]") {
    // with these seeds a node fails just when a pod has been assigned to it
    for (const std::uint64_t seed : {2U, 6U, 7U}) {
        CAPTURE(seed);
        cluster c(seed);
        std::map<std::string, std::chrono::milliseconds> pending; // since when
        std::map<std::string, std::string> revisions;             // of the deployments, half way
        std::chrono::milliseconds longest{};
        for (auto look = c.now; c.now < 15min; c.step()) {
            if (c.now < look) continue;
            look = c.now + 20s;
            std::map<std::string, std::chrono::milliseconds> still;
            for (const auto& pod : c.server.list("pods")) {
                if (text(pod, "/status/phase") != "Pending") continue;
                const auto name = text(pod, "/metadata/name");
                const auto known = pending.find(name);
                const auto since = known == pending.end() ? c.now : known->second;
                still[name] = since;
                longest = std::max(longest, c.now - since);
            }
            pending = std::move(still);
            if (c.now > 7min && revisions.empty()) revisions = revisions_of(c.server);
        }
        CHECK(longest < 60s);
        const auto now = revisions_of(c.server);
        CHECK(now.size() == 6);
        for (const auto& [name, revision] : now) {
            CAPTURE(name);
            CHECK(revision != revisions[name]);
        }
    }
}

TEST_CASE("the simulated cluster sets the observed generation of each status", "[devserver]") {
    cluster c(2);
    std::int64_t newest = 0;
    while (c.now < 3min) {
        c.step();
        for (const std::string resource : {"deployments.apps", "replicasets.apps"}) {
            for (const auto& o : c.server.list(resource)) {
                CAPTURE(resource, text(o, "/metadata/name"));
                CHECK(o.at_pointer("/status/observedGeneration") == o.at_pointer("/metadata/generation"));
                newest = std::max(newest, o.at_pointer("/metadata/generation").to_number<std::int64_t>());
            }
        }
    }
    CHECK(newest > 2); // otherwise none was scaled
}

TEST_CASE("the simulated cluster forgets its own Events, and leaves those of others alone", "[devserver]") {
    cluster c(2);
    c.server.create(
        json::parse(R"({"apiVersion":"v1","kind":"Event","metadata":{"namespace":"default","name":"mine"},)"
                    R"("involvedObject":{"kind":"Namespace","name":"default"},"reason":"Test","type":"Normal"})"));
    while (c.now < 6min) c.step();
    CHECK(c.server.list("events").size() == 201);
    CHECK_FALSE(c.server.get("events", "default", "mine").is_null());
}
