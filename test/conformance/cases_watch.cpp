// Watches: every event kind, resume, watch-list, 410, late subscribers, custom resources.
#include "objects.hpp"

#include <informer/object/json.hpp>

using namespace informer;
using namespace informer::conformance;

namespace {

constexpr auto patience = std::chrono::seconds(30);

std::shared_ptr<list_watch> maps(cluster& c) {
    return c.client().make_list_watch(c.config_maps(), c.name_space());
}

asio::awaitable<void> every_event_kind(std::shared_ptr<cluster> c) {
    co_await c->put("before", "1", "mine=yes");
    informer_options options;
    options.labels("mine");
    auto i = c->follow(maps(*c), options);
    subscription_options how;
    how.sync_marks();
    auto events = std::make_shared<subscription>(i->subscribe(how));
    auto seen = std::make_shared<replay>();
    task_group group(c->runtime().executor());
    group.spawn(collect(events, seen));
    co_await i->synced(patience);

    const auto added = co_await c->put("cm", "1", "mine=yes");
    const auto updated = co_await c->change("cm", "2");
    co_await c->drop("cm");
    const std::string key = c->name_space() + "/cm";
    const std::function<bool()> all = [&] { return seen->of(key).size() == 3; };
    const bool came = co_await testing::eventually(all);
    CHECK(came);
    const auto of = seen->of(key);
    REQUIRE(of.size() == 3);
    CHECK(of[0].kind == event_kind::added);
    CHECK(of[0].reason == event_reason::watch);
    CHECK_FALSE(of[0].initial);
    CHECK(of[0].current == added);
    CHECK(of[1].kind == event_kind::updated);
    CHECK(of[1].previous == added);
    CHECK(of[1].current == updated);
    CHECK(of[2].kind == event_kind::deleted);
    CHECK(of[2].final_state_known);
    CHECK(of[2].current.resource_version() > updated.resource_version()); // the version of the deletion
    const auto before = seen->of(c->name_space() + "/before");
    REQUIRE(before.size() == 1);
    CHECK(before[0].initial);
    CHECK(before[0].reason == event_reason::snapshot);
    CHECK(seen->marks == 1);
    events->close();
    co_await group.join();
}

asio::awaitable<void> read_your_writes(std::shared_ptr<cluster> c) {
    auto i = c->follow(maps(*c));
    co_await i->synced(patience);
    for (int n = 0; n < 5; ++n) {
        const auto made = co_await c->put("w" + std::to_string(n), "x");
        co_await i->wait_until(made.resource_version(), patience);
        CHECK(i->get(c->name_space() + "/w" + std::to_string(n)) == made);
    }
}

asio::awaitable<void> resumes_after_a_cut(std::shared_ptr<cluster> c) {
    co_await c->put("a", "1");
    auto from = std::make_shared<faulty_list_watch>(c->fragile().make_list_watch(c->config_maps(), c->name_space()));
    auto i = c->follow(from);
    auto events = std::make_shared<subscription>(i->subscribe());
    auto seen = std::make_shared<replay>();
    task_group group(c->runtime().executor());
    group.spawn(collect(events, seen));
    co_await i->synced(patience);
    const auto lists = from->lists.size();
    const auto initial_watches = from->watches.size();

    object last;
    for (int round = 0; round < 3; ++round) {
        last = co_await c->change("a", "cut " + std::to_string(round));
        co_await i->wait_until(last.resource_version(), patience);
        c->proxy().cut_all(round % 2 == 1);
        last = co_await c->change("a", "while away " + std::to_string(round));
        co_await i->wait_until(last.resource_version(), patience);
        CHECK(i->get(c->name_space() + "/a") == last);
    }
    CHECK(from->lists.size() == lists); // resumed, not listed again
    CHECK(from->watches.size() > initial_watches);
    for (std::size_t w = initial_watches; w < from->watches.size(); ++w) {
        CHECK_FALSE(from->watches[w].send_initial_events_);
        CHECK_FALSE(from->watches[w].resource_version_.empty());
    }
    const std::function<bool()> all = [&] { return seen->of(c->name_space() + "/a").size() == 7; };
    const bool came = co_await testing::eventually(all);
    CHECK(came); // each of the six changes once
    CHECK(i->status().relists == 0);
    events->close();
    co_await group.join();
}

/// False on Kubernetes 1.33, for example, unless its feature gate WatchList is on. A server without watch-list refuses
/// the request.
asio::awaitable<bool> knows_watch_list(std::shared_ptr<cluster> c) {
    failure f;
    const std::string path = "/api/v1/namespaces/" + c->name_space() +
                             "/configmaps?watch=true&sendInitialEvents=true"
                             "&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1";
    co_await c->client().raw("GET", path, "", f);
    CHECK((!f || f == errc::invalid));
    co_return !f;
}

asio::awaitable<void> watch_list_syncs(std::shared_ptr<cluster> c) {
    co_await c->put("a", "1");
    auto from = std::make_shared<faulty_list_watch>(maps(*c));
    auto i = c->follow(from);
    co_await i->synced(patience);
    CHECK(i->get(c->name_space() + "/a"));
    const bool known = co_await knows_watch_list(c);
    if (!known) {
        CHECK(from->lists.size() == 1);
        co_return;
    }
    CHECK(from->lists.empty()); // only the stream
    REQUIRE(from->watches.size() == 1);
    CHECK(from->watches[0].send_initial_events_);
    const auto later = co_await c->put("b", "1");
    co_await i->wait_until(later.resource_version(), patience);
    CHECK(from->watches.size() == 1); // the same stream goes on as the watch
}

asio::awaitable<void> watch_list_of_nothing(std::shared_ptr<cluster> c) {
    auto from = std::make_shared<faulty_list_watch>(maps(*c));
    informer_options options;
    options.labels("nobody=has-this");
    auto i = c->follow(from, options);
    co_await i->synced(patience);
    CHECK(i->snapshot().size() == 0);
    const bool known = co_await knows_watch_list(c);
    CHECK(from->lists.size() == (known ? 0 : 1));
}

asio::awaitable<void> falls_back_to_list(std::shared_ptr<cluster> c) {
    co_await c->put("a", "1");
    auto from = std::make_shared<faulty_list_watch>(maps(*c));
    from->refuse_watch_list = true;
    auto i = c->follow(from);
    co_await i->synced(patience);
    CHECK(i->get(c->name_space() + "/a"));
    CHECK(from->lists.size() == 1);
    const auto later = co_await c->change("a", "2");
    co_await i->wait_until(later.resource_version(), patience);
    CHECK(i->get(c->name_space() + "/a") == later);
}

asio::awaitable<void> gone_relists(std::shared_ptr<cluster> c) {
    co_await c->put("stays", "1");
    co_await c->put("goes", "1");
    co_await c->put("changes", "1");
    auto from = std::make_shared<faulty_list_watch>(c->fragile().make_list_watch(c->config_maps(), c->name_space()));
    auto i = c->follow(from);
    subscription_options how;
    how.sync_marks();
    auto events = std::make_shared<subscription>(i->subscribe(how));
    auto seen = std::make_shared<replay>();
    task_group group(c->runtime().executor());
    group.spawn(collect(events, seen));
    co_await i->synced(patience);

    // The informer is cut off, and when it returns, the history is gone. (`watches_gone` is set before the cut: a watch
    // that is being opened while the proxy refuses may get through afterwards.)
    from->watches_gone = 1;
    c->proxy().refuse(true);
    c->proxy().cut_all();
    co_await c->drop("goes");
    const auto changed = co_await c->change("changes", "2");
    const auto fresh = co_await c->put("comes", "1");
    c->proxy().refuse(false);
    const std::string goes = c->name_space() + "/goes", changes = c->name_space() + "/changes",
                      comes = c->name_space() + "/comes";
    const std::function<bool()> relisted = [&] { return seen->marks == 2; };
    const bool came = co_await testing::eventually(relisted, patience);
    CHECK(came);
    CHECK(from->watches_gone == 0);

    REQUIRE(seen->of(goes).size() == 2);
    CHECK(seen->of(goes)[1].kind == event_kind::deleted);
    CHECK(seen->of(goes)[1].reason == event_reason::relist);
    CHECK_FALSE(seen->of(goes)[1].final_state_known);
    CHECK(seen->of(goes)[1].current.at_pointer("/data/value").as_string() == "1");
    REQUIRE(seen->of(changes).size() == 2);
    CHECK(seen->of(changes)[1].kind == event_kind::updated);
    CHECK(seen->of(changes)[1].current == changed);
    REQUIRE(seen->of(comes).size() == 1);
    CHECK(seen->of(comes)[0].kind == event_kind::added);
    CHECK(seen->of(c->name_space() + "/stays").size() == 1); // unchanged: no further event
    CHECK_FALSE(i->get(goes));
    CHECK(i->status().relists >= 1);
    events->close();
    co_await group.join();
}

asio::awaitable<void> old_version_is_gone(std::shared_ptr<cluster> c) {
    const auto widgets = co_await c->make_crd();
    json::value w = {{"apiVersion", widgets.api_version()},
                     {"kind", "Widget"},
                     {"metadata", {{"name", "w"}, {"namespace", c->name_space()}}}};
    const kubernetes::write_options plain;
    co_await c->client().create(widgets, std::move(w), plain);
    if (c->embedded()) c->server()->compact();

    struct ignoring_sink : object_sink {
        std::shared_ptr<document_pool> documents = document_pool::make();
        std::size_t events = 0;
        document_pool& pool() override { return *documents; }
        object previous(const object_key&, std::size_t) override { return object(); }
        void item(object) override {}
        void event(watch_event_type, object) override { ++events; }
        void bookmark(resource_version, bool) override {}
        void quarantine(bad_object) override {}
        asio::awaitable<bool> ready() override { co_return true; }
    } sink;
    auto from = c->client().make_list_watch(widgets, c->name_space());
    watch_options old;
    old.resource_version("1").timeout(std::chrono::seconds(5));
    failure f;
    co_await from->watch(old, sink, f);
    CHECK(f == condition::gone);
    CHECK(sink.events == 0);
}

asio::awaitable<void> late_subscriber(std::shared_ptr<cluster> c) {
    co_await c->put("a", "1");
    co_await c->put("b", "1");
    auto i = c->follow(maps(*c));
    co_await i->synced(patience);
    const auto early = co_await c->change("a", "2");
    co_await i->wait_until(early.resource_version(), patience);

    auto events = std::make_shared<subscription>(i->subscribe());
    const auto live = co_await c->change("b", "2"); // while the subscriber has read nothing yet
    co_await i->wait_until(live.resource_version(), patience);
    auto seen = std::make_shared<replay>();
    task_group group(c->runtime().executor());
    group.spawn(collect(events, seen));
    const std::string a = c->name_space() + "/a", b = c->name_space() + "/b";
    const std::function<bool()> all = [&] {
        return !seen->of(a).empty() && !seen->of(b).empty() && seen->state[b] == live;
    };
    const bool came = co_await testing::eventually(all);
    CHECK(came);
    CHECK(seen->of(a).size() == 1);
    CHECK(seen->of(a)[0].initial);
    CHECK(seen->of(a)[0].current == early);
    CHECK(seen->of(b)[0].initial);
    CHECK(seen->of(b).size() <= 2);
    CHECK(events->has_synced());
    events->close();
    co_await group.join();
}

asio::awaitable<void> recreated_under_one_name(std::shared_ptr<cluster> c) {
    auto from = std::make_shared<faulty_list_watch>(c->fragile().make_list_watch(c->config_maps(), c->name_space()));
    co_await c->put("phoenix", "1");
    auto i = c->follow(from);
    auto events = std::make_shared<subscription>(i->subscribe());
    auto seen = std::make_shared<replay>();
    task_group group(c->runtime().executor());
    group.spawn(collect(events, seen));
    co_await i->synced(patience);
    from->watches_gone = 1; // so that only a relist shows the new object
    c->proxy().refuse(true);
    c->proxy().cut_all();
    co_await c->drop("phoenix");
    const auto reborn = co_await c->put("phoenix", "2");
    c->proxy().refuse(false);
    const std::string key = c->name_space() + "/phoenix";
    const std::function<bool()> all = [&] { return seen->of(key).size() == 3; };
    const bool came = co_await testing::eventually(all, patience);
    CHECK(came);
    REQUIRE(seen->of(key).size() == 3);
    CHECK(seen->of(key)[1].kind == event_kind::deleted);
    CHECK(seen->of(key)[2].kind == event_kind::added);
    CHECK(seen->of(key)[2].current == reborn);
    events->close();
    co_await group.join();
}

asio::awaitable<void> custom_resources(std::shared_ptr<cluster> c) {
    const auto widgets = co_await c->make_crd();
    auto i = c->follow(c->client().make_list_watch(widgets, c->name_space()));
    auto events = std::make_shared<subscription>(i->subscribe());
    auto seen = std::make_shared<replay>();
    task_group group(c->runtime().executor());
    group.spawn(collect(events, seen));
    co_await i->synced(patience);
    json::value w =
        json::parse(R"({"kind":"Widget","metadata":{"name":"w"},"spec":{"deep":{"er":[1,2.5,"x",null,true]}}})");
    w.as_object()["apiVersion"] = widgets.api_version();
    w.at("metadata").as_object()["namespace"] = c->name_space();
    const kubernetes::write_options plain;
    const auto made = co_await c->client().create(widgets, std::move(w), plain);
    co_await i->wait_until(made.resource_version(), patience);
    const auto cached = i->get(c->name_space() + "/w");
    REQUIRE(cached);
    CHECK(cached == made);
    CHECK(cached.kind() == "Widget");
    CHECK(cached["spec"]["deep"]["er"].to_json() == R"([1,2.5,"x",null,true])");

    json::value status = {{"status", {{"ready", true}}}};
    kubernetes::write_options of_status;
    of_status.subresource("status");
    const object_key key(c->name_space(), "w");
    const auto with_status =
        co_await c->client().patch(widgets, key, kubernetes::patch_type::merge, std::move(status), of_status);
    CHECK(with_status["status"]["ready"].bool_or(false));
    CHECK(with_status.meta().generation() == made.meta().generation());
    json::value spec = {{"spec", {{"more", 1}}}};
    const auto with_spec =
        co_await c->client().patch(widgets, key, kubernetes::patch_type::merge, std::move(spec), plain);
    CHECK(with_spec.meta().generation() == made.meta().generation() + 1);
    co_await i->wait_until(with_spec.resource_version(), patience);

    // The definition is deleted, and its objects with it: the informer gets events for them.
    co_await c->remove_crd(widgets);
    const std::function<bool()> deleted = [&] { return seen->count(event_kind::deleted) == 1 && seen->state.empty(); };
    const bool came = co_await testing::eventually(deleted, patience);
    CHECK(came);
    const std::function<bool()> parked = [&] { return i->status().phase == informer_phase::parked; };
    const bool quiet = co_await testing::eventually(parked, patience);
    CHECK(quiet);
    events->close();
    co_await group.join();
}

asio::awaitable<void> definition_comes_again(std::shared_ptr<cluster> c) {
    const auto widgets = co_await c->make_crd();
    auto i = c->follow(c->fragile().make_list_watch(widgets, c->name_space()));
    auto events = std::make_shared<subscription>(i->subscribe());
    auto seen = std::make_shared<replay>();
    task_group group(c->runtime().executor());
    group.spawn(collect(events, seen));
    co_await i->synced(patience);
    const auto made = co_await make_widget(c, widgets, "w", "1");
    co_await i->wait_until(made.resource_version(), patience);
    c->proxy().refuse(true);
    c->proxy().cut_all();
    co_await c->remove_crd(widgets);
    const bool removed = co_await until_gone(c, "", definitions(), widgets.group_resource(), patience);
    REQUIRE(removed);
    co_await c->make_crd(widgets.group);
    c->proxy().refuse(false);
    // The informer's watch resumes from a version of the old definition and does not get the deletion: only a list
    // shows it.
    const std::function<bool()> gone = [&] { return seen->count(event_kind::deleted) == 1 && seen->state.empty(); };
    const bool told = co_await testing::eventually(gone, patience);
    CHECK(told);
    CHECK(i->snapshot().size() == 0);
    events->close();
    co_await group.join();
}

asio::awaitable<void> serve(std::shared_ptr<cluster> c, api_resource widgets, bool on) {
    json::value patch =
        json::array{json::object{{"op", "replace"}, {"path", "/spec/versions/0/served"}, {"value", on}}};
    const object_key definition("", widgets.group_resource());
    const kubernetes::write_options plain;
    co_await c->client().patch(definitions(), definition, kubernetes::patch_type::json, std::move(patch), plain);
}

asio::awaitable<void> version_out_of_service(std::shared_ptr<cluster> c) {
    const auto widgets = co_await c->make_crd();
    const auto made = co_await make_widget(c, widgets, "w", "1");
    auto i = c->follow(c->client().make_list_watch(widgets, c->name_space()));
    auto events = std::make_shared<subscription>(i->subscribe());
    auto seen = std::make_shared<replay>();
    task_group group(c->runtime().executor());
    group.spawn(collect(events, seen));
    co_await i->synced(patience);
    co_await serve(c, widgets, false);
    const bool away = co_await until_gone(c, c->name_space(), widgets, "w", patience);
    CHECK(away);
    // The watch ended with the version: the informer asks again, and the server answers that there is no such resource.
    const std::function<bool()> refused = [&] { return i->status().last_error == errc::not_found; };
    const bool told = co_await testing::eventually(refused, patience);
    CHECK(told);
    co_await serve(c, widgets, true);
    const object_key key(c->name_space(), "w");
    failure f(errc::not_found, "get");
    const auto until = std::chrono::steady_clock::now() + patience;
    while (f && std::chrono::steady_clock::now() < until) {
        const auto again = co_await c->client().get(widgets, key, f);
        if (!f) CHECK(again == made);
    }
    CHECK_FALSE(f);
    const object changed = co_await merge(c, widgets, "w", R"({"spec":{"value":"2"}})");
    const std::function<bool()> current = [&] { return i->get(key.str()) == changed; };
    const bool follows = co_await testing::eventually(current, patience);
    CHECK(follows);
    CHECK(seen->count(event_kind::deleted) == 0);
    events->close();
    co_await group.join();
}

asio::awaitable<void> finalizers(std::shared_ptr<cluster> c) {
    auto i = c->follow(maps(*c));
    co_await i->synced(patience);
    auto o = c->config_map("held", "1");
    o.at("metadata").as_object()["finalizers"] = json::array{"example.com/hold"};
    const kubernetes::write_options plain;
    co_await c->client().create(c->config_maps(), std::move(o), plain);
    co_await c->drop("held");
    const std::string key = c->name_space() + "/held";
    const std::function<bool()> dying = [&] {
        const auto now = i->get(key);
        return now && now.meta().deletion_time().has_value();
    };
    const bool marked = co_await testing::eventually(dying, patience);
    CHECK(marked);
    json::value release = {{"metadata", {{"finalizers", nullptr}}}};
    const object_key held(c->name_space(), "held");
    co_await c->client().patch(c->config_maps(), held, kubernetes::patch_type::merge, std::move(release), plain);
    const std::function<bool()> away = [&] { return !i->get(key); };
    const bool removed = co_await testing::eventually(away, patience);
    CHECK(removed);
}

asio::awaitable<void> short_watches(std::shared_ptr<cluster> c) {
    // Watches that end every second by their own time-out: nothing is lost or listed again.
    auto from = std::make_shared<faulty_list_watch>(maps(*c));
    informer_options options;
    options.watch_timeout(std::chrono::seconds(1));
    auto i = c->follow(from, options);
    co_await i->synced(patience);
    const std::size_t first_lists = from->lists.size();
    object last;
    const std::function<bool()> several = [&] { return from->watches.size() >= 3; };
    co_await c->put("t", "0");
    for (int n = 1; n <= 20; ++n) {
        last = co_await c->change("t", std::to_string(n));
        co_await i->wait_until(last.resource_version(), patience);
        const bool turned = co_await testing::eventually(several, std::chrono::milliseconds(200));
        if (turned && n > 5) break;
    }
    const bool turned = co_await testing::eventually(several, patience);
    CHECK(turned);
    CHECK(i->get(c->name_space() + "/t") == last);
    CHECK(from->lists.size() == first_lists);
    CHECK(i->status().relists == 0);
}

} // namespace

TEST_CASE("every kind of event arrives once, in order, with its states", "[conformance]") {
    run_case(every_event_kind);
}
TEST_CASE("a cache waits for one's own writes", "[conformance]") {
    run_case(read_your_writes);
}
TEST_CASE("a cut connection is resumed from the last resource version without a list", "[conformance]") {
    run_case(resumes_after_a_cut);
}
TEST_CASE("watch-list fills the cache and goes on as the watch", "[conformance]") {
    run_case(watch_list_syncs);
}
TEST_CASE("watch-list of nothing syncs an empty cache", "[conformance]") {
    run_case(watch_list_of_nothing);
}
TEST_CASE("a refused watch-list falls back to list and watch", "[conformance]") {
    run_case(falls_back_to_list);
}
TEST_CASE("410 relists by difference: deletes are synthesised, unchanged objects are silent", "[conformance]") {
    run_case(gone_relists);
}
TEST_CASE("a watch from a forgotten version is gone", "[conformance]") {
    run_case(old_version_is_gone);
}
TEST_CASE("a late subscriber gets the state, then what follows", "[conformance]") {
    run_case(late_subscriber);
}
TEST_CASE("an object recreated under its name while nobody looked is deleted and added", "[conformance]") {
    run_case(recreated_under_one_name);
}
TEST_CASE("custom resources are followed like any other, until their definition goes", "[conformance]") {
    run_case(custom_resources);
}
TEST_CASE("objects that went with a definition are reported as deleted once it comes again", "[conformance]") {
    run_case(definition_comes_again);
}
TEST_CASE("a version that is not served for a while loses no objects; its watches end", "[conformance]") {
    run_case(version_out_of_service);
}
TEST_CASE("a finalizer holds a deleted object until it is released", "[conformance]") {
    run_case(finalizers);
}
TEST_CASE("watches that end by their time-out lose nothing", "[conformance]") {
    run_case(short_watches);
}
