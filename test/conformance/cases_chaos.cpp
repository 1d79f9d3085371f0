// Another client changes everything while connections are cut and the server restarts: in the end, the cache equals the
// server's state.
#include "cluster.hpp"

#include "support/process.hpp"
#include "support/temporary_folder.hpp"

#include <informer/object/json.hpp>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>

#include <fcntl.h>

#include <fstream>
#include <iostream>
#include <random>
#include <sstream>

using namespace informer;
using namespace informer::conformance;

namespace {

constexpr auto token = asio::as_tuple(asio::use_awaitable);

constexpr std::uint64_t enough_cuts = 20;

// The curl configuration with the same credentials as the client's.
std::string curl_config(const kubernetes::client_config& c, const testing::temporary_folder& folder) {
    std::string out = "max-time = 5\nnoproxy = \"*\"\n";
    const auto file = [&](const char* option, const char* name, const std::string& text) {
        if (!text.empty()) out += std::string(option) + " = \"" + folder.write(name, text) + "\"\n";
    };
    file("cacert", "ca.pem", c.tls.ca_pem_);
    file("cert", "cert.pem", c.tls.certificate_pem_);
    file("key", "key.pem", c.tls.key_pem_);
    if (c.tls.insecure_) out += "insecure\n";
    if (!c.credentials.token.empty()) out += "header = \"Authorization: Bearer " + c.credentials.token + "\"\n";
    return out;
}

json::value normal(json::value o) {
    o.as_object().erase("kind");
    o.as_object().erase("apiVersion");
    o.at("metadata").as_object().erase("managedFields");
    return o;
}

asio::awaitable<void> cut_at_random(std::shared_ptr<cluster> c, std::shared_ptr<bool> over) {
    std::mt19937 random(7);
    while (!*over) {
        co_await c->runtime().clock().sleep_for(std::chrono::milliseconds(50 + random() % 400));
        if (random() % 4 == 0) {
            // Cuts in the middle of an answer.
            c->proxy().cut_after(random() % 3000);
        } else {
            c->proxy().cut_after(UINT64_MAX);
            c->proxy().cut_all(random() % 2 == 0);
        }
    }
    c->proxy().cut_after(UINT64_MAX);
}

// Reads the client's lines, plays the restart of the embedded server, and tells the client by a file that there were
// enough cuts.
asio::awaitable<std::string> attend(std::shared_ptr<cluster> c, int descriptor, std::string enough) {
    asio::posix::stream_descriptor in(c->runtime().executor(), descriptor);
    std::string text, last;
    for (;;) {
        auto [ec, n] = co_await asio::async_read_until(in, asio::dynamic_buffer(text), '\n', token);
        if (ec) break;
        last = text.substr(0, n - 1);
        text.erase(0, n);
        if (last == "half" && c->embedded()) {
            c->server()->stop_listening(true);
            co_await c->runtime().clock().sleep_for(std::chrono::milliseconds(700));
            c->server()->start_listening();
        } else {
            std::clog << "chaos: " << last << ", " << c->proxy().cuts() << " connections cut\n";
        }
        if (c->proxy().cuts() >= enough_cuts) std::ofstream(enough) << '\n';
    }
    co_return last;
}

// The first difference between the two; empty when they agree.
std::string difference(const std::map<std::string, json::value>& expected,
                       const std::map<std::string, object>& actual) {
    for (const auto& [key, o] : expected) {
        const auto at = actual.find(key);
        if (at == actual.end()) return key + " is missing";
        if (normal(to_value(at->second)) != o)
            return key + " differs: " + at->second.to_json() + " is not " + json::serialize(o);
    }
    for (const auto& [key, o] : actual)
        if (!expected.count(key)) return key + " should not be there";
    return {};
}

asio::awaitable<void> chaos(std::shared_ptr<cluster> c) {
    const char* wanted = std::getenv("INFORMER_CHAOS_OPERATIONS");
    const std::string operations = wanted && *wanted ? wanted : c->embedded() ? "400" : "2000";
    const char* restart = std::getenv("INFORMER_CHAOS_RESTART");

    auto from = std::make_shared<faulty_list_watch>(c->fragile().make_list_watch(c->config_maps(), c->name_space()));
    informer_options options;
    options.backoff(backoff_options().initial(std::chrono::milliseconds(50)).cap(std::chrono::seconds(2)));
    auto i = c->follow(from, options);
    auto events = std::make_shared<subscription>(i->subscribe());
    auto seen = std::make_shared<replay>();
    task_group group(c->runtime().executor());
    group.spawn(collect(events, seen));
    co_await i->synced(std::chrono::seconds(30));

    const testing::temporary_folder folder; // holds credentials: removed whatever happens
    const char* home = std::getenv("HOME"); // the restart needs it
    std::vector<std::string> environment{"SERVER=" + c->client().config().server,
                                         "NAMESPACE=" + c->name_space(),
                                         "OPERATIONS=" + operations,
                                         "SEED=4711",
                                         "OUT=" + folder.path("list.json"),
                                         "ENOUGH=" + folder.path("enough"),
                                         "CURL_AUTH=" + folder.write("curl", curl_config(c->client().config(), folder)),
                                         std::string("RESTART=") + (restart && !c->embedded() ? restart : ""),
                                         std::string("HOME=") + (home ? home : "/nonexistent")};
    std::vector<std::string> command{"bash", INFORMER_TEST_DIR "/conformance/chaos_client.sh"};
    testing::process client(std::move(command), std::move(environment));
    auto over = std::make_shared<bool>(false);
    group.spawn(cut_at_random(c, over));
    const std::string last =
        co_await attend(c, ::fcntl(client.out_descriptor(), F_DUPFD_CLOEXEC, 0), folder.path("enough"));
    *over = true;
    const int status = client.wait();
    std::clog << client.err();
    INFO("the client's last line: " << last);
    REQUIRE(status == 0);

    std::ifstream in(folder.path("list.json"), std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    const auto list = json::parse(text.str());
    std::map<std::string, json::value> expected;
    for (const auto& item : list.at("items").as_array()) {
        const auto& m = item.at("metadata");
        expected[std::string(m.at("namespace").as_string()) + "/" + std::string(m.at("name").as_string())] =
            normal(item);
    }

    const auto cached = [&] {
        std::map<std::string, object> state;
        for (const auto& o : i->snapshot().list()) state[o.key().str()] = o;
        return state;
    };
    const std::function<bool()> equal = [&] {
        return difference(expected, cached()).empty() && difference(expected, seen->state).empty();
    };
    const bool settled = co_await testing::eventually(equal, std::chrono::seconds(60));
    INFO("cache: " << difference(expected, cached()));
    INFO("replayed events: " << difference(expected, seen->state));
    CHECK(settled);
    CHECK(expected.size() > 5);
    CHECK(c->proxy().cuts() >= enough_cuts);
    // The events of each key make sense: they begin with added, and only added follows a deletion.
    std::map<std::string, bool> alive;
    std::size_t senseless = 0;
    for (const auto& e : seen->log) {
        bool& lives = alive[e.key().str()];
        senseless += (e.kind == event_kind::added) == lives;
        lives = e.kind != event_kind::deleted;
    }
    CHECK(senseless == 0);
    std::clog << "chaos: " << seen->log.size() << " events, " << c->proxy().cuts() << " cuts, " << from->watches.size()
              << " watches, " << from->lists.size() << " lists, " << i->status().relists << " relists, "
              << expected.size() << " objects at the end\n";
    events->close();
    co_await group.join();
}

} // namespace

TEST_CASE("another client's random writes, cut connections and a restart of the server end in an equal cache",
          "[conformance][chaos]") {
    run_case(chaos, cluster::default_options(), std::chrono::minutes(10));
}
