// The etcd source against a real etcd.
#include "real_etcd.hpp"

#include "support/run.hpp"

#include <informer/cache/informer_factory.hpp>
#include <informer/controller/controller.hpp>

#include <array>

using namespace informer;
using namespace informer::conformance;
using namespace std::chrono_literals;
using informer::testing::eventually;
using informer::testing::run_test;

namespace {

using lines = std::vector<std::string>;

std::string text_in(const shared_informer& informer, const char* name, const char* member) {
    const object o = informer.get(name);
    return o[member].string_or_empty().str();
}

asio::awaitable<void> follows(real_etcd* e) {
    co_await real_etcd::start(e);
    co_await real_etcd::put(e, "/s/a", R"({"v":1,"metadata":{"labels":{"l":"1"}}})");
    co_await real_etcd::put(e, "/t/a", "{}");
    const auto f = std::make_unique<follower>(*e, etcd::mapping("/s/"));
    auto& informer = *f->informer;
    co_await informer.synced(20s);
    CHECK(informer.snapshot().size() == 1);
    const object a = informer.get("a");
    CHECK(a.meta().label("l") == "1");
    CHECK(a.has_type("etcd/v3", "KeyValue"));

    std::string revision = co_await real_etcd::put(e, "/s/a", R"({"v":2})");
    co_await informer.wait_until(resource_version(revision), 20s);
    CHECK(informer.get("a").resource_version().str() == revision);
    CHECK(informer.get("a").uid() == a.uid());
    // One transaction, several keys: one revision.
    const std::string txn = R"({"success":[{"request_put":)" + real_etcd::put_of("/s/b", "{}") +
                            R"(},{"request_put":)" + real_etcd::put_of("/s/c", "{}") +
                            R"(},{"request_delete_range":{"key":")" + b64("/s/a") + R"("}}]})";
    revision = co_await real_etcd::change(e, "/v3/kv/txn", txn);
    co_await informer.wait_until(resource_version(revision), 20s);
    CHECK_FALSE(informer.get("a"));
    CHECK(informer.get("b").resource_version().str() == revision);
    CHECK(informer.get("c").resource_version().str() == revision);
    // Deleted and made again.
    revision = co_await real_etcd::put(e, "/s/a", R"({"v":1})");
    co_await informer.wait_until(resource_version(revision), 20s);
    CHECK(informer.get("a").uid() != a.uid());
    // etcd reports a write outside the prefix only by its progress notification.
    revision = co_await real_etcd::put(e, "/t/a", "{}");
    co_await informer.wait_until(resource_version(revision), 20s);
    const auto all_told = [&] { return f->told.size() == 6; };
    co_await eventually(all_told);
    CHECK(f->told == lines{"ADDED a", "MODIFIED a", "ADDED b", "ADDED c", "DELETED a", "ADDED a"});
    CHECK(informer.status().relists == 0);
    CHECK(informer.status().quarantined == 0);
    co_await follower::stop(f.get());
}

asio::awaitable<void> survives_restart_and_compaction(real_etcd* e) {
    co_await real_etcd::start(e);
    co_await real_etcd::put(e, "/s/a", "{}");
    co_await real_etcd::put(e, "/s/b", "{}");
    co_await real_etcd::put(e, "/s/c", "{}");
    const auto f = std::make_unique<follower>(*e, etcd::mapping("/s/"));
    auto& informer = *f->informer;
    co_await informer.synced(20s);
    const std::string uid_of_b = informer.get("b").uid();
    e->kill();
    const auto noticed = [&] { return informer.status().attempts != 0; };
    const bool failed = co_await eventually(noticed, 20s);
    CHECK(failed);
    co_await real_etcd::start(e);
    // Either the revision at which the informer resumes is compacted by the time it is back, or the informer is quicker
    // and gets all events.
    co_await real_etcd::remove(e, "/s/a");
    co_await real_etcd::remove(e, "/s/b");
    co_await real_etcd::put(e, "/s/b", "{}");
    const std::string revision = co_await real_etcd::put(e, "/s/d", "{}");
    co_await real_etcd::post(e, "/v3/kv/compaction", R"({"revision":")" + revision + R"(","physical":true})");
    co_await informer.wait_until(resource_version(revision), 60s);
    CHECK_FALSE(informer.get("a"));
    CHECK(informer.get("b").uid() != uid_of_b);
    CHECK(informer.snapshot().size() == 3);
    const auto all_told = [&] { return f->told.size() == 7; };
    co_await eventually(all_told);
    std::sort(f->told.begin(), f->told.end());
    CHECK(f->told == lines{"ADDED a", "ADDED b", "ADDED b", "ADDED c", "ADDED d", "DELETED a", "DELETED b"});
    co_await follower::stop(f.get());
}

/// A sink that counts what it gets, and ends a watch at the first bookmark.
class nobody final : public object_sink {
public:
    document_pool& pool() override { return *pool_; }
    object previous(const object_key&, std::size_t) override { return object(); }
    void item(object) override { ++items; }
    void event(watch_event_type, object) override { ++items; }
    void bookmark(resource_version v, bool) override { marks.push_back(v.str()); }
    void quarantine(bad_object b) override { bad.push_back(std::move(b)); }
    asio::awaitable<bool> ready() override { return yes(marks.empty()); }
    std::size_t items = 0;
    std::vector<std::string> marks;
    std::vector<bad_object> bad;

private:
    static asio::awaitable<bool> yes(bool is) { co_return is; }
    std::shared_ptr<document_pool> pool_ = document_pool::make();
};

/// etcd 3.4 and 3.5 forgot a deletion at whose revision they compact, and took a watch that should have reported it.
asio::awaitable<void> compacted_at_a_deletion(real_etcd* e) {
    co_await real_etcd::start(e);
    co_await real_etcd::put(e, "/s/a", "{}");
    co_await real_etcd::put(e, "/s/b", "{}");
    const std::string after = co_await real_etcd::put(e, "/s/c", "{}");
    const auto from = etcd::make_list_watch(e->rt(), etcd::config(e->url()), etcd::mapping("/s/"));
    watch_options resumes;
    resumes.resource_version(after).timeout(std::chrono::seconds(20));
    {
        nobody sink; // ends at the first sign of progress
        failure f;
        co_await from->watch(resumes, sink, f);
        CHECK(!f);
        CHECK(sink.items == 0);
    }
    const std::string deletion = co_await real_etcd::remove(e, "/s/a");
    {
        nobody sink;
        failure f;
        co_await from->watch(resumes, sink, f);
        CHECK(!f);
        CHECK(sink.items == 1);
    }
    co_await real_etcd::post(e, "/v3/kv/compaction", R"({"revision":")" + deletion + R"(","physical":true})");
    nobody sink;
    failure f;
    co_await from->watch(resumes, sink, f);
    CHECK(f == errc::gone);
    CHECK(sink.items == 0);
}

asio::awaitable<void> lists_and_refuses(real_etcd* e) {
    co_await real_etcd::start(e);
    std::string revision;
    for (int i = 0; i < 2500; i += 100) { // a transaction takes at most 128 operations
        std::string txn;
        for (int k = i; k < i + 100; ++k)
            txn += (txn.empty() ? "" : ",") +
                   (R"({"request_put":)" +
                    real_etcd::put_of("/s/" + std::to_string(k), "{\"i\":" + std::to_string(k) + "}") + "}");
        revision = co_await real_etcd::change(e, "/v3/kv/txn", R"({"success":[)" + txn + "]}");
    }
    const auto from = etcd::make_list_watch(e->rt(), etcd::config(e->url()), etcd::mapping("/s/"));
    nobody sink;
    failure f;
    list_options options;
    std::vector<std::uint64_t> pages;
    do {
        options.limit(1000);
        const list_result r = co_await from->list(options, sink, f);
        REQUIRE(!f);
        CHECK(r.resource_version.str() == revision);
        pages.push_back(r.items);
        options.continue_token(r.continue_token);
        co_await real_etcd::put(e, "/s/late", "{}"); // later than the revision of the list
    } while (!options.continue_.empty());
    CHECK(pages == std::vector<std::uint64_t>{1000, 1500});

    const std::string newest = co_await real_etcd::put(e, "/s/late", "{}");
    co_await real_etcd::post(e, "/v3/kv/compaction", R"({"revision":")" + newest + R"(","physical":true})");
    list_options exact;
    exact.resource_version(revision).resource_version_match("Exact");
    co_await from->list(exact, sink, f);
    CHECK(f == errc::gone);
    exact.resource_version("1000000");
    co_await from->list(exact, sink, f);
    CHECK(f == errc::resource_version_too_large);
    list_options not_older;
    not_older.resource_version("1000000");
    co_await from->list(not_older, sink, f);
    CHECK(f == errc::resource_version_too_large);
    list_options any;
    any.resource_version("0");
    list_result r = co_await from->list(any, sink, f);
    CHECK(!f);
    CHECK(r.resource_version.str() == newest);
    watch_options old;
    old.resource_version(revision);
    co_await from->watch(old, sink, f);
    CHECK(f == errc::gone);
    // Only etcd's progress notification comes; etcd sends it once something was written, even outside the prefix.
    const std::string elsewhere = co_await real_etcd::put(e, "/t/a", "{}");
    watch_options now;
    now.resource_version(newest);
    co_await from->watch(now, sink, f);
    CHECK(!f);
    CHECK(sink.marks == lines{elsewhere});
}

asio::awaitable<void> takes_what_is_large_or_odd(real_etcd* e) {
    co_await real_etcd::start(e);
    const auto large = [](char c) { return R"({"text":")" + std::string(1'000'000, c) + "\"}"; };
    co_await real_etcd::put(e, "/s/large", large('x'));
    co_await real_etcd::put(e, "/s/bytes", std::string("\x00\xff\x01", 3));
    co_await real_etcd::put(e, "/s/text", "10.0.0.1:80");
    co_await real_etcd::put(e, "/s/number", "7");
    co_await real_etcd::put(e, "/s/empty", "");
    co_await real_etcd::put(e, "/s/broken", "{");
    const auto f = std::make_unique<follower>(*e, etcd::mapping("/s/").wrap_values());
    auto& informer = *f->informer;
    co_await informer.synced(20s);
    CHECK(text_in(informer, "large", "text").size() == 1'000'000);
    CHECK(text_in(informer, "bytes", "valueBase64") == "AP8B");
    CHECK(text_in(informer, "text", "value") == "10.0.0.1:80");
    const object number = informer.get("number");
    CHECK(number["value"].int64_or(0) == 7);
    CHECK(informer.get("empty"));
    CHECK_FALSE(informer.get("broken"));
    CHECK(informer.status().quarantined == 1);
    // Two megabytes in one event, and fragments of one revision.
    std::string revision = co_await real_etcd::put(e, "/s/large", large('y'));
    revision = co_await real_etcd::put(e, "/s/broken", "{}");
    co_await informer.wait_until(resource_version(revision), 20s);
    CHECK(text_in(informer, "large", "text")[0] == 'y');
    CHECK(informer.get("broken"));
    CHECK(informer.status().quarantined == 0);
    for (int i = 0; i < 5; ++i) co_await real_etcd::put(e, "/s/more" + std::to_string(i), large('z'));
    std::string body = R"({"key":")" + b64("/s/") + R"(","range_end":")" + b64("/s0") + "\"}";
    revision = co_await real_etcd::change(e, "/v3/kv/deleterange", body);
    co_await informer.wait_until(resource_version(revision), 20s);
    CHECK(informer.snapshot().size() == 0);
    CHECK(informer.status().relists == 0);
    co_await follower::stop(f.get());
}

asio::awaitable<void> follows_with_a_password(real_etcd* e) {
    co_await real_etcd::start(e);
    co_await real_etcd::put(e, "/s/a", "{}");
    for (const char* name : {"root", "reader"}) {
        const std::string user(name);
        co_await real_etcd::post(e, "/v3/auth/user/add", R"({"name":")" + user + R"(","password":"secret"})");
        co_await real_etcd::post(e, "/v3/auth/role/add", R"({"name":")" + user + "\"}");
        co_await real_etcd::post(e, "/v3/auth/user/grant", R"({"user":")" + user + R"(","role":")" + user + "\"}");
    }
    std::string grant = R"({"name":"reader","perm":{"permType":"READ","key":")" + b64("/s/") + R"(","range_end":")" +
                        b64("/s0") + "\"}}";
    co_await real_etcd::post(e, "/v3/auth/role/grant", grant);
    co_await real_etcd::post(e, "/v3/auth/enable", "{}");
    const std::string login =
        co_await real_etcd::post(e, "/v3/auth/authenticate", R"({"name":"root","password":"secret"})");
    e->token = std::string(boost::json::parse(login).at("token").as_string());

    const auto f = std::make_unique<follower>(*e, etcd::mapping("/s/"), informer_options(),
                                              etcd::config(e->url()).user("reader", "secret"));
    co_await f->informer->synced(20s);
    const std::string revision = co_await real_etcd::put(e, "/s/b", "{}");
    co_await f->informer->wait_until(resource_version(revision), 20s);
    CHECK(f->informer->get("b"));
    co_await follower::stop(f.get());

    nobody sink;
    failure why;
    const auto asked = [&](etcd::config c, const char* prefix) {
        return etcd::make_list_watch(e->rt(), std::move(c), etcd::mapping(prefix));
    };
    const auto wrong = asked(etcd::config(e->url()).user("reader", "wrong"), "/s/");
    co_await wrong->list(list_options(), sink, why);
    CHECK(why == errc::unauthorized);
    const auto none = asked(etcd::config(e->url()), "/s/");
    co_await none->list(list_options(), sink, why);
    CHECK(why == errc::unauthorized);
    co_await none->watch(watch_options(), sink, why);
    CHECK((why == errc::unauthorized || why == errc::forbidden));
    const auto elsewhere = asked(etcd::config(e->url()).user("reader", "secret"), "/t/");
    co_await elsewhere->list(list_options(), sink, why);
    CHECK(why == errc::forbidden);
    co_await elsewhere->watch(watch_options(), sink, why);
    CHECK(why == errc::forbidden);
}

asio::awaitable<reconcile_result> note(std::vector<std::string>* seen, const informer_factory* factory,
                                       api_resource flags, object_key key) {
    const object o = factory->lister(flags).find(key);
    seen->push_back(key.str() + (o ? " is " + o["value"].to_json() : " is gone"));
    co_return reconcile_result::done();
}

asio::awaitable<void> drives_a_controller(real_etcd* e) {
    co_await real_etcd::start(e);
    co_await real_etcd::put(e, "/flags/shop/dark", "true");
    const api_resource flags("example.com", "v1", "flags", "Flag");
    informer_factory factory(e->rt(), [&](const api_resource& r, const std::string& name_space) {
        return etcd::make_list_watch(e->rt(), etcd::config(e->url()),
                                     etcd::mapping("/flags/").namespaced().in(name_space).resource(r).wrap_values());
    });
    std::vector<std::string> seen;
    controller_builder builder(e->rt(), factory, "flags");
    builder.for_(flags);
    auto c = builder.build([&](reconcile_request r) { return note(&seen, &factory, flags, r.key); });
    task_group group(e->rt().executor());
    group.spawn(c.run());
    const auto told = [&](std::size_t n) { return [&seen, n] { return seen.size() >= n; }; };
    const std::function<bool()> one = told(1), two = told(2), three = told(3);
    co_await eventually(one);
    co_await real_etcd::put(e, "/flags/shop/dark", "false");
    co_await eventually(two);
    co_await real_etcd::remove(e, "/flags/shop/dark");
    co_await eventually(three);
    CHECK(seen == lines{"shop/dark is true", "shop/dark is false", "shop/dark is gone"});
    c.stop();
    co_await group.join();
    co_await factory.shutdown();
}

asio::awaitable<void> runs_the_example(real_etcd* e) {
    co_await real_etcd::start(e);
    co_await real_etcd::put(e, "/services/web/a",
                            R"({"address":"10.0.0.1:80","metadata":{"labels":{"zone":"north"}}})");
    std::vector<std::string> command{INFORMER_EXAMPLE_DIR "/example_etcd", e->url(), "1"};
    testing::process example(std::move(command));
    CHECK(example.line() == "1 services");
    co_await real_etcd::put(e, "/services/web/b",
                            R"({"address":"10.0.0.2:80","metadata":{"labels":{"zone":"south"}}})");
    CHECK(example.line() == "ADDED web/b at 10.0.0.2:80");
    CHECK(example.line() == "in zone north: 1");
    CHECK(example.wait() == 0);
}

asio::awaitable<void> survives_its_members(std::array<real_etcd*, 3> members) {
    std::string peers;
    etcd::config where;
    for (real_etcd* m : members) {
        peers += (peers.empty() ? "" : ",") + m->as_peer();
        where.endpoint(m->url());
    }
    for (real_etcd* m : members) m->launch(peers);
    for (real_etcd* m : members) co_await real_etcd::until_it_answers(m);
    co_await real_etcd::put(members[0], "/s/a", "{}");
    const auto f = std::make_unique<follower>(*members[0], etcd::mapping("/s/"), informer_options(), where);
    auto& informer = *f->informer;
    co_await informer.synced(20s);
    // The member that the informer uses goes away: the informer uses another one, and does not list again.
    members[0]->kill();
    co_await real_etcd::until_it_answers(members[1]); // a new leader may have to be elected
    const std::string revision = co_await real_etcd::put(members[1], "/s/b", "{}");
    co_await informer.wait_until(resource_version(revision), 30s);
    CHECK(informer.get("b"));
    CHECK(informer.status().relists == 0);
    // The last member knows that it is alone, and returns errors instead of staying silent.
    members[1]->kill();
    const std::function<bool()> told = [&] { return informer.status().attempts >= 2 && informer.status().last_error; };
    const bool noticed = co_await eventually(told, 30s);
    CHECK(noticed);
    members[0]->launch(peers);
    members[1]->launch(peers);
    for (real_etcd* m : members) co_await real_etcd::until_it_answers(m);
    const std::string last = co_await real_etcd::put(members[0], "/s/c", "{}");
    co_await informer.wait_until(resource_version(last), 60s);
    CHECK(informer.get("c"));
    CHECK(informer.status().relists == 0);
    co_await follower::stop(f.get());
}

asio::awaitable<void> follows_by_tls(real_etcd* e, std::string ca) {
    co_await real_etcd::start(e);
    co_await real_etcd::put(e, "/s/a", "{}");
    etcd::config where(e->url());
    where.tls(http::tls_options().ca(ca));
    const auto f = std::make_unique<follower>(*e, etcd::mapping("/s/"), informer_options(), where);
    co_await f->informer->synced(20s);
    const std::string revision = co_await real_etcd::put(e, "/s/b", "{}");
    co_await f->informer->wait_until(resource_version(revision), 20s);
    CHECK(f->informer->snapshot().size() == 2);
    co_await follower::stop(f.get());
    nobody sink;
    failure why;
    const auto stranger = etcd::make_list_watch(e->rt(), etcd::config(e->url()), etcd::mapping("/s/"));
    co_await stranger->list(list_options(), sink, why);
    CHECK(why == errc::tls_failed);
}

void with_etcd(asio::awaitable<void> (*test)(real_etcd*)) {
    asio::io_context context(1);
    auto e = std::make_unique<real_etcd>(context);
    run_test(context, test(e.get()), 120s);
}

} // namespace

TEST_CASE("a real etcd: an informer follows it, sees a transaction whole and a recreated key as another", "[etcd]") {
    with_etcd(follows);
}

TEST_CASE("a real etcd: its restart and a compaction lose nothing", "[etcd]") {
    with_etcd(survives_restart_and_compaction);
}

TEST_CASE("a real etcd: a deletion at whose revision it was compacted is not missed", "[etcd]") {
    with_etcd(compacted_at_a_deletion);
}

TEST_CASE("a real etcd: pages are of one revision; a compacted or future revision is refused", "[etcd]") {
    with_etcd(lists_and_refuses);
}

TEST_CASE("a real etcd: values of a megabyte, of arbitrary bytes, and empty ones", "[etcd]") {
    with_etcd(takes_what_is_large_or_odd);
}

TEST_CASE("a real etcd: passwords, and what they give no access to", "[etcd]") {
    with_etcd(follows_with_a_password);
}

TEST_CASE("a real etcd: a controller is driven by it", "[etcd]") {
    with_etcd(drives_a_controller);
}

TEST_CASE("a real etcd: one of three members may go, and a last one that is alone is not believed", "[etcd]") {
    asio::io_context context(1);
    auto a = std::make_unique<real_etcd>(context, "a"), b = std::make_unique<real_etcd>(context, "b"),
         c = std::make_unique<real_etcd>(context, "c");
    run_test(context, survives_its_members({a.get(), b.get(), c.get()}), 180s);
}

TEST_CASE("a real etcd: it is reached by TLS, and not if its CA is unknown", "[etcd]") {
    asio::io_context context(1);
    const testing::certificate_authority ca;
    auto e = std::make_unique<real_etcd>(context, "default", &ca);
    run_test(context, follows_by_tls(e.get(), ca.certificate_pem()), 60s);
}

TEST_CASE("a real etcd: docs/examples/etcd.cpp", "[etcd]") {
    with_etcd(runs_the_example);
}
