// Lists, selectors, typed errors: what the client and a cache see when nothing changes.
#include "cluster.hpp"

#include <informer/object/json.hpp>

#include <set>

using namespace informer;
using namespace informer::conformance;

namespace {

asio::awaitable<void> make_many(std::shared_ptr<cluster> c, int n) {
    for (int i = 0; i < n; ++i) {
        std::string labels = std::string("parity=") + (i % 2 ? "odd" : "even") + ",i=" + std::to_string(i);
        co_await c->put("cm-" + std::to_string(i), "v0", std::move(labels));
    }
}

std::set<std::string> names(const std::vector<object>& v) {
    std::set<std::string> s;
    for (const auto& o : v) s.insert(o.meta().name().str());
    return s;
}

// The real server puts kube-root-ca.crt into each namespace when a controller-manager runs.
void forget_foreign(std::vector<object>& v) {
    std::erase_if(v, [](const object& o) { return o.meta().name() == "kube-root-ca.crt"; });
}

asio::awaitable<void> lists_whole(std::shared_ptr<cluster> c) {
    co_await make_many(c, 7);
    list_options all;
    auto page = co_await c->client().list(c->config_maps(), c->name_space(), all);
    forget_foreign(page.items);
    CHECK(page.items.size() == 7);
    CHECK(page.continue_token.empty());
    CHECK(page.version.comparable());
    CHECK(page.bad.empty());
    for (const auto& o : page.items) {
        CHECK(o.kind() == "ConfigMap");
        CHECK(o.api_version() == "v1");
        CHECK_FALSE(o["metadata"]["managedFields"].exists());
        CHECK(o.resource_version() <= page.version);
    }
}

asio::awaitable<void> lists_by_pages(std::shared_ptr<cluster> c) {
    co_await make_many(c, 7);
    std::vector<object> items;
    kubernetes::list_pager cm(c->client(), c->config_maps(), c->name_space(), list_options().limit(3).labels("parity"));
    int pages = 0;
    std::string version;
    for (;;) {
        const auto page = co_await cm.next();
        if (!page) break;
        ++pages;
        if (version.empty()) version = page->version.str();
        CHECK(page->version.str() == version); // all pages show one state, whatever changes meanwhile
        items.insert(items.end(), page->items.begin(), page->items.end());
        CHECK(page->items.size() == (page->continue_token.empty() ? 1 : 3));
        if (pages == 1) co_await c->drop("cm-6");
    }
    CHECK(pages == 3);
    CHECK(names(items).size() == 7);
}

// A list of any version comes from the watch cache, which has no pages; events have no watch cache.
asio::awaitable<void> any_version_is_whole(std::shared_ptr<cluster> c) {
    co_await make_many(c, 7);
    list_options any;
    any.limit(3).resource_version("0");
    kubernetes::object_list page;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    do { // the watch cache may lag
        page = co_await c->client().list(c->config_maps(), c->name_space(), any);
    } while (page.items.size() < 7 && page.continue_token.empty() && std::chrono::steady_clock::now() < until);
    CHECK(page.items.size() >= 7);
    CHECK(page.continue_token.empty());
    const api_resource events("", "v1", "events", "Event", true);
    const kubernetes::write_options plain;
    for (const char* name : {"one", "two", "three"}) {
        json::object e{{"metadata", {{"name", name}, {"namespace", c->name_space()}}},
                       {"involvedObject", {{"namespace", c->name_space()}}}};
        co_await c->client().create(events, std::move(e), plain);
    }
    any.limit(2);
    const auto some = co_await c->client().list(events, c->name_space(), any);
    CHECK(some.items.size() == 2);
    CHECK_FALSE(some.continue_token.empty());
}

asio::awaitable<void> informer_pages(std::shared_ptr<cluster> c) {
    co_await make_many(c, 7);
    auto from = std::make_shared<faulty_list_watch>(c->client().make_list_watch(c->config_maps(), c->name_space()));
    informer_options options;
    options.watch_list(false).page_size(3).labels("parity");
    auto i = c->follow(from, options);
    co_await i->synced(std::chrono::seconds(20));
    CHECK(i->snapshot().size() == 7);
    REQUIRE(from->lists.size() == 3);
    CHECK(from->lists[0].limit_ == 3);
    CHECK(from->lists[1].resource_version_.empty()); // never together with continue
    CHECK_FALSE(from->lists[1].continue_.empty());
}

asio::awaitable<void> continue_gone(std::shared_ptr<cluster> c) {
    co_await make_many(c, 7);
    auto from = std::make_shared<faulty_list_watch>(c->client().make_list_watch(c->config_maps(), c->name_space()));
    from->pages_gone = 1;
    informer_options options;
    options.watch_list(false).page_size(3).labels("parity");
    auto i = c->follow(from, options);
    co_await i->synced(std::chrono::seconds(30));
    CHECK(i->snapshot().size() == 7);
    CHECK(from->pages_gone == 0);
}

asio::awaitable<void> selects_labels(std::shared_ptr<cluster> c) {
    co_await make_many(c, 6);
    for (const char* selector : {"parity=even", "parity!=odd,parity", "parity in (even)", "i notin (1,3,5),parity"}) {
        INFO(selector);
        list_options options;
        options.labels(selector);
        auto page = co_await c->client().list(c->config_maps(), c->name_space(), options);
        CHECK(names(page.items) == std::set<std::string>{"cm-0", "cm-2", "cm-4"});
    }
    list_options by_field;
    by_field.fields("metadata.name=cm-3");
    auto one = co_await c->client().list(c->config_maps(), c->name_space(), by_field);
    CHECK(names(one.items) == std::set<std::string>{"cm-3"});
    failure f;
    list_options unknown;
    unknown.fields("spec.nothing=1");
    co_await c->client().list(c->config_maps(), c->name_space(), unknown, f);
    CHECK(f == errc::bad_request);
}

asio::awaitable<void> informer_selects(std::shared_ptr<cluster> c) {
    co_await make_many(c, 4);
    informer_options options;
    options.labels("parity=even");
    auto i = c->follow(c->client().make_list_watch(c->config_maps(), c->name_space()), options);
    auto events = std::make_shared<subscription>(i->subscribe());
    auto seen = std::make_shared<replay>();
    task_group group(c->runtime().executor());
    group.spawn(collect(events, seen));
    co_await i->synced(std::chrono::seconds(20));
    CHECK(i->snapshot().size() == 2);

    // For this informer, an object that leaves the selection is deleted, and one that enters it is added.
    json::value leave = {{"metadata", {{"labels", {{"parity", "none"}}}}}};
    json::value enter = {{"metadata", {{"labels", {{"parity", "even"}}}}}};
    const object_key zero(c->name_space(), "cm-0"), one(c->name_space(), "cm-1");
    const kubernetes::write_options plain;
    co_await c->client().patch(c->config_maps(), zero, kubernetes::patch_type::merge, std::move(leave), plain);
    co_await c->client().patch(c->config_maps(), one, kubernetes::patch_type::merge, std::move(enter), plain);
    const std::function<bool()> both = [&] {
        return seen->count(event_kind::deleted) == 1 && seen->state.count(one.str()) == 1;
    };
    const bool came = co_await testing::eventually(both);
    CHECK(came);
    CHECK(seen->of(zero.str()).back().kind == event_kind::deleted);
    CHECK(seen->of(one.str()).back().kind == event_kind::added);
    events->close();
    co_await group.join();
}

asio::awaitable<void> typed_errors(std::shared_ptr<cluster> c) {
    const object_key key(c->name_space(), "absent");
    failure f;
    co_await c->client().get(c->config_maps(), key, f);
    CHECK(f == condition::not_found);
    REQUIRE(f.status());
    CHECK(f.status()->reason == "NotFound");
    CHECK(f.what().find("absent") != std::string::npos);

    co_await c->put("twice", "a");
    f = failure();
    auto again = c->config_map("twice", "b");
    const kubernetes::write_options plain;
    co_await c->client().create(c->config_maps(), std::move(again), plain, f);
    CHECK(f == errc::already_exists);

    const api_resource nowhere("no.such.group", "v1", "things", "Thing");
    f = failure();
    const list_options all;
    co_await c->client().list(nowhere, c->name_space(), all, f);
    CHECK(f == condition::not_found);

    f = failure();
    json::value unnamed = {{"apiVersion", "v1"},
                           {"kind", "ConfigMap"},
                           {"metadata", {{"name", "Not A Name"}, {"namespace", c->name_space()}}}};
    co_await c->client().create(c->config_maps(), std::move(unnamed), plain, f);
    CHECK(f == errc::invalid);
}

asio::awaitable<void> conflict_on_update(std::shared_ptr<cluster> c) {
    const auto first = co_await c->put("contended", "a");
    auto mine = to_value(first);
    const auto theirs = co_await c->change("contended", "b");
    CHECK(first.resource_version() < theirs.resource_version());
    mine.at("data").as_object()["value"] = "mine";
    failure f;
    const kubernetes::write_options plain;
    co_await c->client().update(c->config_maps(), mine, plain, f);
    CHECK(f == condition::conflict);
    CHECK(f == errc::conflict);

    mine.at("metadata").as_object()["resourceVersion"] = theirs.resource_version().str();
    const auto now = co_await c->client().update(c->config_maps(), mine, plain);
    CHECK(now.at_pointer("/data/value").as_string() == "mine");
}

asio::awaitable<void> patches(std::shared_ptr<cluster> c) {
    co_await c->put("patched", "a");
    const object_key key(c->name_space(), "patched");
    const kubernetes::write_options plain;
    json::value ops =
        json::parse(R"([{"op":"test","path":"/data/value","value":"a"},{"op":"add","path":"/data/more","value":"b"}])");
    const auto now = co_await c->client().patch(c->config_maps(), key, kubernetes::patch_type::json, ops, plain);
    CHECK(now.at_pointer("/data/more").as_string() == "b");
    json::value failing =
        json::parse(R"([{"op":"test","path":"/data/value","value":"z"},{"op":"remove","path":"/data/more"}])");
    failure f;
    co_await c->client().patch(c->config_maps(), key, kubernetes::patch_type::json, failing, plain, f);
    CHECK(f == errc::invalid);
    json::value merge = {{"data", {{"more", nullptr}}}};
    const auto then =
        co_await c->client().patch(c->config_maps(), key, kubernetes::patch_type::merge, std::move(merge), plain);
    CHECK_FALSE(then.at_pointer("/data/more").exists());
}

json::value without_managed_fields(const object& o) {
    json::value v = to_value(o);
    v.at("metadata").as_object().erase("managedFields");
    return v.at("metadata");
}

asio::awaitable<void> metadata_only(std::shared_ptr<cluster> c) {
    co_await make_many(c, 5);
    for (const int round : {1, 2}) {
        const bool watch_list = round == 1;
        INFO("watch-list " << watch_list);
        const std::string number = std::to_string(round);
        const auto from = c->client().make_list_watch(c->config_maps(), c->name_space());
        informer_options options;
        options.labels("parity").watch_list(watch_list).page_size(2);
        const auto whole = c->follow(from, options);
        options.metadata_only();
        const auto partial = c->follow(from, options);
        co_await whole->synced(std::chrono::seconds(20));
        co_await partial->synced(std::chrono::seconds(20));
        std::string large(4000, static_cast<char>('a' + round)); // metadata alone is much shorter
        co_await c->change("cm-1", std::move(large));
        const auto made = co_await c->put("new-" + number, "v0", "parity=odd");
        co_await c->drop("cm-" + std::to_string(2 * round));
        const auto then = co_await c->put("last-" + number, "v0", "parity=odd");
        const auto version = then.resource_version();
        co_await whole->wait_until(version, std::chrono::seconds(20));
        co_await partial->wait_until(version, std::chrono::seconds(20));
        const auto all = whole->snapshot();
        CHECK(partial->snapshot().size() == all.size());
        for (const object& o : all.list()) {
            const object p = partial->snapshot().get(o.key());
            REQUIRE(p);
            CHECK(p.kind() == "ConfigMap");
            CHECK(p.api_version() == "v1");
            CHECK_FALSE(p["data"].exists());
            CHECK(without_managed_fields(p) == without_managed_fields(o));
        }
        CHECK(partial->status().bytes_received < whole->status().bytes_received);
        CHECK(partial->status().quarantined == 0);
    }
}

/// Two informers of a part each, and one of all objects. The server selects the part (kube-apiserver with the gate
/// ShardedListAndWatch), or the client does.
asio::awaitable<void> parts_are_the_whole(std::shared_ptr<cluster> c) {
    co_await make_many(c, 20);
    const auto from = c->client().make_list_watch(c->config_maps(), c->name_space());
    for (const int round : {1, 2}) {
        const bool watch_list = round == 1;
        INFO("watch-list " << watch_list);
        informer_options options;
        options.labels("parity").watch_list(watch_list).page_size(3);
        const auto whole = c->follow(from, options);
        std::vector<std::shared_ptr<shared_informer>> parts;
        for (std::uint64_t i = 0; i < 2; ++i) {
            options.shard(shard_selector::part(i, 2));
            parts.push_back(c->follow(from, options));
        }
        co_await whole->synced(std::chrono::seconds(20));
        for (const auto& p : parts) co_await p->synced(std::chrono::seconds(20));
        const std::string number = std::to_string(round);
        co_await c->change("cm-1", "v" + number);
        co_await c->drop("cm-" + std::to_string(2 * round));
        const auto made = co_await c->put("new-" + number, "v0", "parity=odd");
        const auto version = made.resource_version();
        co_await whole->wait_until(version, std::chrono::seconds(20));
        // Each part has its own objects in their final state. It does not see the versions of the other part's objects,
        // so it cannot wait for `version`.
        const auto all = whole->snapshot();
        for (const auto& p : parts) {
            const auto mine = shard_selector::part(p == parts[1], 2);
            const auto equal = [&] {
                std::size_t n = 0;
                for (const object& o : all.list())
                    if (mine.contains(o)) {
                        ++n;
                        const object there = p->get(o.key().str());
                        if (!there || there.resource_version() != o.resource_version()) return false;
                    }
                return n == p->snapshot().size();
            };
            const bool same = co_await testing::eventually(equal, std::chrono::seconds(20));
            CHECK(same);
        }
        CHECK(parts[0]->snapshot().size() + parts[1]->snapshot().size() == all.size());
    }

    list_options some;
    some.shard(shard_selector::part(1, 2)).labels("parity");
    const auto page = co_await c->client().list(c->config_maps(), c->name_space(), some);
    for (const auto& o : page.items) CHECK(some.shard_.contains(o));
    // If the server made the selection, it says so in `shardInfo`.
    const auto path = c->config_maps().path(c->name_space()) +
                      "?labelSelector=parity&shardSelector=" + http::percent_encode(some.shard_.str());
    const auto raw = json::parse(co_await c->client().raw("GET", path));
    const auto* info = raw.at("metadata").as_object().if_contains("shardInfo");
    const auto items = raw.at("items").as_array().size();
    if (info)
        CHECK(items == page.items.size());
    else
        CHECK(items > page.items.size());
    if (c->embedded()) CHECK(info != nullptr);

    failure f;
    co_await c->client().remove_collection(c->config_maps(), c->name_space(), some, kubernetes::delete_options(), f);
    CHECK(f == errc::bad_request);
}

asio::awaitable<void> discovers(std::shared_ptr<cluster> c) {
    const auto pods = co_await c->client().find_resource("po");
    CHECK(pods.plural == "pods");
    CHECK(pods.kind == "Pod");
    const auto deployments = co_await c->client().find_resource("deploy.apps");
    CHECK(deployments.path("ns", "x") == "/apis/apps/v1/namespaces/ns/deployments/x");
    const auto widgets = co_await c->make_crd();
    const auto found = co_await c->client().find_resource("widgets." + widgets.group);
    CHECK(found == widgets);
    CHECK(found.namespaced);
    failure f;
    co_await c->client().find_resource("deploymets", f);
    CHECK(f == errc::unknown_resource);
    CHECK(f.what().find("deployments") != std::string::npos);
}

} // namespace

TEST_CASE("a list gives every object, with kind and apiVersion, without managedFields", "[conformance]") {
    run_case(lists_whole);
}
TEST_CASE("pages of a list show one state", "[conformance]") {
    run_case(lists_by_pages);
}
TEST_CASE("a list of any version is whole whatever its limit is, except a list of events", "[conformance]") {
    run_case(any_version_is_whole);
}
TEST_CASE("an informer lists by pages and never sends a resource version with continue", "[conformance]") {
    run_case(informer_pages);
}
TEST_CASE("410 on continue restarts the list", "[conformance]") {
    run_case(continue_gone);
}
TEST_CASE("label and field selectors select", "[conformance]") {
    run_case(selects_labels);
}
TEST_CASE("an object that leaves a selection is deleted, one that enters it is added", "[conformance]") {
    run_case(informer_selects);
}
TEST_CASE("errors are typed and carry the server's words", "[conformance]") {
    run_case(typed_errors);
}
TEST_CASE("an update with a stale resource version is a conflict", "[conformance]") {
    run_case(conflict_on_update);
}
TEST_CASE("merge and JSON patches", "[conformance]") {
    run_case(patches);
}
TEST_CASE("an informer of metadata only has the metadata of all objects and nothing else", "[conformance]") {
    run_case(metadata_only);
}
TEST_CASE("informers of all parts by hashes have all objects, each once", "[conformance]") {
    run_case(parts_are_the_whole, cluster::default_options().sharding(true));
}
TEST_CASE("resources are found by short, qualified and custom names, and near misses are named", "[conformance]") {
    run_case(discovers);
}
