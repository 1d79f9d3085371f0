// Whole controllers over a server whose watches break.
#include "objects.hpp"

#include <informer/controller/controller.hpp>
#include <informer/controller/owner_reference.hpp>
#include <informer/controller/update.hpp>
#include <informer/object/json.hpp>

#include <algorithm>
#include <map>
#include <set>

using namespace informer;
using namespace informer::conformance;
using namespace std::chrono_literals;

namespace {

constexpr auto patience = 60s;

/// Keeps a ConfigMap with the Widget's value for every Widget, and reports that in the Widget's status.
struct copier {
    copier(cluster& on, api_resource what, std::size_t workers)
        : c(on), widgets(std::move(what)), factory(c.runtime(), c.fragile().list_watches()),
          self(controller_builder(c.runtime(), factory, "copier")
                   .for_(widgets, from())
                   .owns(c.config_maps(), from())
                   .options(controller_options().workers(workers).sync_timeout(0s))
                   .build([this](reconcile_request q) { return reconcile(std::move(q)); })) {}

    source_options from() const {
        // While the resource is missing, the informer asks for it every second, so that the case does not take long.
        return source_options()
            .name_space(c.name_space())
            .informer(informer_options().backoff(backoff_options().cap(1s)));
    }

    cluster& c;
    api_resource widgets;
    informer_factory factory;
    controller self;
    std::set<std::string> working;
    std::size_t most = 0;
    bool twice = false;
    std::map<std::string, std::string> done; ///< Widget → the value that was copied

    asio::awaitable<reconcile_result> reconcile(reconcile_request q) {
        const std::string name = q.key.name;
        twice |= !working.insert(name).second;
        most = std::max(most, working.size());
        const auto r = co_await copy(q.key);
        working.erase(name);
        co_return r;
    }

    asio::awaitable<reconcile_result> copy(object_key key) {
        const auto w = factory.lister(widgets, c.name_space()).find(key);
        if (!w) {
            done.erase(key.name);
            co_return reconcile_result::done();
        }
        failure f;
        const std::string value = w["spec"]["value"].string_or_empty().str();
        const auto had = factory.lister(c.config_maps(), c.name_space()).find(key);
        auto wanted = c.config_map(key.name, value);
        set_controller_reference(wanted, w, f);
        if (f) co_return reconcile_result::error(f);
        if (!had || had["data"]["value"].string_or_empty() != value) {
            const kubernetes::write_options mine = kubernetes::write_options().field_manager("copier").force();
            co_await c.client().apply(c.config_maps(), wanted, mine, f);
            if (f) co_return reconcile_result::error(f);
        }
        json::value status = json::object{{"copied", value}};
        const kubernetes::write_options plain;
        co_await patch_status(c.client(), widgets, w, std::move(status), plain, f);
        if (f == condition::not_found) co_return reconcile_result::done();
        if (f) co_return reconcile_result::error(f);
        done[key.name] = value;
        co_return reconcile_result::done();
    }
};

/// True when every Widget is copied according to the server.
asio::awaitable<bool> all_copied(std::shared_ptr<cluster> c, api_resource widgets) {
    const list_options all;
    failure f;
    const auto wanted = co_await c->client().list(widgets, c->name_space(), all, f);
    if (f) co_return false;
    const auto have = co_await c->client().list(c->config_maps(), c->name_space(), all, f);
    if (f) co_return false;
    std::map<std::string, object> copies;
    for (const auto& o : have.items) copies[o.key().name] = o;
    for (const auto& w : wanted.items) {
        const auto copy = copies.find(w.key().name);
        const auto value = w["spec"]["value"].string_or_empty();
        if (copy == copies.end() || copy->second["data"]["value"].string_or_empty() != value) co_return false;
        if (!is_controlled_by(copy->second, w) || w["status"]["copied"].string_or_empty() != value) co_return false;
    }
    co_return true;
}

asio::awaitable<bool> copied(std::shared_ptr<cluster> c, api_resource widgets) {
    const auto asks = [&] { return all_copied(c, widgets); };
    const bool yes = co_await eventually(asks, patience);
    co_return yes;
}

asio::awaitable<void> whole_controller(std::shared_ptr<cluster> c) {
    const auto widgets = co_await c->make_crd();
    constexpr int n = 20;
    for (int i = 0; i < n; ++i) co_await make_widget(c, widgets, "w" + std::to_string(i), "1");
    copier it(*c, widgets, 4);
    task_group running(c->runtime().executor());
    running.spawn(it.self.run());
    bool yes = co_await copied(c, widgets);
    CHECK(yes);
    CHECK(it.most > 1); // several at once
    for (int round = 2; round < 5; ++round) {
        // While the controller's watches break, Widgets change, copies are damaged and deleted, and Widgets are deleted
        // and created again.
        c->proxy().cut_all(round % 2 == 0);
        for (int i = 0; i < n; i += round) {
            const std::string name = "w" + std::to_string(i), value = std::to_string(round * 100 + i);
            switch (i % 4) {
            case 0: co_await merge(c, widgets, name, R"({"spec":{"value":")" + value + "\"}}"); break;
            case 1: co_await c->change(name, "broken"); break;
            case 2: co_await c->drop(name); break;
            default:
                co_await drop(c, widgets, name);
                co_await make_widget(c, widgets, name, value);
                // The server may have no garbage collector: the old Widget's copy must not stay for the new one.
                failure f;
                const object_key key(c->name_space(), name);
                const kubernetes::delete_options plain;
                co_await c->client().remove(c->config_maps(), key, plain, f);
            }
        }
        yes = co_await copied(c, widgets);
        CHECK(yes);
    }
    co_await drop(c, widgets, "w0");
    const std::function<bool()> heard = [&] { return !it.done.contains("w0"); };
    const bool deletion = co_await testing::eventually(heard, patience);
    CHECK(deletion);
    CHECK_FALSE(it.twice);
    CHECK(it.self.not_ready().empty());
    it.self.stop();
    co_await running.join();
    CHECK(it.self.figures().active == 0);
    CHECK(it.self.figures().panics == 0);
    co_await it.factory.shutdown();
}

asio::awaitable<void> later_crd(std::shared_ptr<cluster> c) {
    const std::string group = cluster::unique("later") + ".example.com";
    copier it(*c, api_resource(group, "v1", "widgets", "Widget", true), 1);
    task_group running(c->runtime().executor());
    running.spawn(it.self.run());
    const std::function<bool()> says_so = [&] {
        const auto why = it.self.not_ready();
        return why.find("widgets." + group) != std::string::npos && why.find("parked") != std::string::npos;
    };
    const bool parked = co_await testing::eventually(says_so, patience);
    CHECK(parked);
    CHECK_FALSE(it.self.has_synced());
    const auto widgets = co_await c->make_crd(group);
    co_await make_widget(c, widgets, "w", "1");
    const bool yes = co_await copied(c, widgets);
    CHECK(yes);
    CHECK(it.self.not_ready().empty());
    // The definition is removed and comes back.
    co_await c->remove_crd(widgets);
    const std::function<bool()> again = [&] { return says_so() && it.done.empty(); };
    const bool away = co_await testing::eventually(again, patience);
    CHECK(away);
    const bool removed = co_await until_gone(c, "", definitions(), widgets.group_resource(), patience);
    CHECK(removed);
    failure perhaps_collected;
    const object_key copy(c->name_space(), "w");
    const kubernetes::delete_options plain;
    co_await c->client().remove(c->config_maps(), copy, plain, perhaps_collected);
    const auto back = co_await c->make_crd(group);
    co_await make_widget(c, back, "w", "2");
    const bool returned = co_await copied(c, back);
    CHECK(returned);
    it.self.stop();
    co_await running.join();
    co_await it.factory.shutdown();
}

/// A resource that is followed for some time only, while the controller goes on.
asio::awaitable<void> source_for_a_time(std::shared_ptr<cluster> c) {
    informer_factory factory(c->runtime(), c->fragile().list_watches());
    std::map<std::string, int> seen;
    const reconciler noting = [&seen](reconcile_request q) -> asio::awaitable<reconcile_result> {
        ++seen[q.key.name];
        co_return reconcile_result::done();
    };
    const auto told = [&](std::string name, int times) -> std::function<bool()> {
        return [&seen, name = std::move(name), times] { return seen[name] >= times; };
    };
    const auto here = source_options().name_space(c->name_space());
    controller self =
        controller_builder(c->runtime(), factory, "for-a-time").for_(c->config_maps(), here).build(noting);
    task_group running(c->runtime().executor());
    running.spawn(self.run());
    co_await self.synced(patience);

    const auto widgets = co_await c->make_crd();
    co_await make_widget(c, widgets, "w", "1");
    auto source = self.watch(factory, widgets, here);
    co_await source.synced(patience);
    bool ok = co_await testing::eventually(told("w", 1), patience);
    CHECK(ok);
    c->proxy().cut_all(true);
    co_await merge(c, widgets, "w", R"({"spec":{"value":"2"}})");
    ok = co_await testing::eventually(told("w", 2), patience);
    CHECK(ok);

    source.remove();
    const std::function<bool()> released = [&] { return factory.status().size() == 1; };
    ok = co_await testing::eventually(released, patience);
    CHECK(ok);
    const int before = seen["w"];
    co_await merge(c, widgets, "w", R"({"spec":{"value":"3"}})");
    co_await make_widget(c, widgets, "v", "1");
    co_await c->put("c", "1");
    ok = co_await testing::eventually(told("c", 1), patience);
    CHECK(ok);
    CHECK(seen["w"] == before);
    CHECK(seen["v"] == 0);
    CHECK(self.not_ready().empty());

    source = self.watch(factory, widgets, here);
    ok = co_await testing::eventually(told("v", 1), patience);
    CHECK(ok);
    ok = co_await testing::eventually(told("w", before + 1), patience);
    CHECK(ok);
    self.stop();
    co_await running.join();
    co_await factory.shutdown();
}

} // namespace

TEST_CASE("a controller over a custom resource and what it owns converges while its watches break",
          "[conformance][controller]") {
    run_case(whole_controller);
}
TEST_CASE("a controller works on a resource that is installed later, removed, and installed again",
          "[conformance][controller]") {
    run_case(later_crd);
}
TEST_CASE("a controller that runs is given a source, loses it, and gets it again", "[conformance][controller]") {
    run_case(source_for_a_time);
}
