// Watches: whole revisions, last states, bookmarks, and how they end.
#include "bench.hpp"

using namespace etcd_test;

namespace {

watch_options after(const std::string& version) {
    return watch_options().resource_version(version);
}

/// What a watch after revision 5 reports of this stream, and how it ends.
struct watched {
    explicit watched(std::vector<std::string> pieces, const watch_options& o = after("5"), mapping m = mapping("/s/")) {
        std::string all;
        for (const auto& p : pieces) all += p;
        b.etcd().next.push_back(reply(all).streamed());
        b.source(m);
        watch(b, sink, f, o);
        told = sink.lines;
    }
    bench b;
    recorder sink;
    failure f;
    lines told;
};

} // namespace

TEST_CASE("etcd watch: added, modified, deleted with its last state, and a bookmark of the progress") {
    watched w({created(5),
               events(7, {put(pair("/s/a", R"({"x":1})", 6, 6)),
                          put(pair("/s/a", R"({"x":2})", 6, 7, 2), pair("/s/a", R"({"x":1})", 6, 6))}),
               events(8, {gone("/s/a", 8, pair("/s/a", R"({"x":2})", 6, 7, 2))}), progress(11)});
    CHECK(!w.f);
    CHECK(w.told == lines{"opened", "added a 6", "modified a 7", "deleted a 8", "bookmark 11"});
    const object last = w.sink.objects.at(object_key("", "a"));
    CHECK(last["x"].int64_or(0) == 2);
    CHECK(last.meta().generation() == 2);
    CHECK(w.b.etcd().lines() ==
          lines{"/v3/watch {\"create_request\":{\"key\":\"" + b64("/s/") + "\",\"range_end\":\"" + b64("/s0") +
                "\",\"start_revision\":\"5\",\"progress_notify\":true,\"prev_kv\":true,\"fragment\":true}}"});
    CHECK(w.b.etcd().requests.front().header("Grpc-Metadata-hasleader") == "true");
}

TEST_CASE("etcd watch: it begins at the revision that was seen last, whose changes are not reported again") {
    watched w({created(8), events(8, {put(pair("/s/a", R"({"x":1})", 4, 4)), put(pair("/s/b", R"({"x":1})", 5, 5)),
                                      gone("/s/c", 5), put(pair("/s/a", R"({"x":2})", 4, 6, 2))})});
    CHECK(!w.f);
    CHECK(w.told == lines{"opened", "modified a 6"});
}

TEST_CASE("etcd watch: a key deleted and created again is another object") {
    watched w({created(5), events(8, {put(pair("/s/a", "{}", 6, 6)), gone("/s/a", 7, pair("/s/a", "{}", 6, 6)),
                                      put(pair("/s/a", "{}", 8, 8))})});
    CHECK(w.told == lines{"opened", "added a 6", "deleted a 7", "added a 8"});
    watched again({created(5), events(8, {put(pair("/s/a", "{}", 6, 6))})});
    CHECK(w.sink.objects.begin()->second.uid() != again.sink.objects.begin()->second.uid());
}

TEST_CASE("etcd watch: a deletion whose last state etcd no longer has is reported with what the cache knows") {
    bench b;
    recorder sink(decode_options().transform_with([](boost::json::value& v) {
        auto& n = v.as_object()["seen"];
        n = n.is_int64() ? n.as_int64() + 1 : 1;
    }));
    failure f;
    b.etcd().next.push_back(
        reply(created(5) + events(8, {put(pair("/s/a", R"({"x":1})", 6, 6)), gone("/s/a", 7), gone("/s/b", 8)}))
            .streamed());
    watch(b, sink, f, after("5"));
    CHECK(sink.lines == lines{"opened", "added a 6", "deleted a 7", "deleted b 8"});
    const object a = sink.objects.at(object_key("", "a"));
    CHECK(a["x"].int64_or(0) == 1);
    CHECK(a["seen"].int64_or(0) == 1); // a transform sees each object once
    CHECK(sink.objects.at(object_key("", "b")).uid().empty());
}

TEST_CASE("etcd watch: bad values are quarantined by name, also when they are deleted") {
    watched w({created(5), events(9, {put(pair("/s/a", "{}", 6, 6)), put(pair("/s/b", "{]", 6, 7, 2)),
                                      put(pair("/s/", "{}", 8, 8)), gone("/s/b", 9, pair("/s/b", "{]", 6, 7, 2)),
                                      gone("/s/", 9), put(pair("/s/c", "{}", 9, 9))})});
    CHECK(!w.f);
    CHECK(w.told == lines{"opened", "added a 6", "bad b 7", "bad key//s/ 8", "change {", "bad b 9", "bad key//s/ 9",
                          "added c 9", "}"});
    CHECK(w.sink.bad.at(0).type == watch_event_type::modified);
    CHECK(w.sink.bad.at(1).type == watch_event_type::added);
    CHECK(w.sink.bad.at(2).type == watch_event_type::deleted);
    CHECK(w.sink.bad.at(0).position == 1);
    CHECK(w.sink.bad.at(0).why == errc::syntax_error);
    CHECK(w.sink.bad.at(2).why == errc::syntax_error);
}

TEST_CASE("etcd watch: the changes of one transaction are reported together, or not at all") {
    const std::string before = events(6, {put(pair("/s/a", "{}", 6, 6))});
    const std::string first = events(7, {put(pair("/s/a", "{}", 6, 7, 2)), put(pair("/s/b", "{}", 7, 7))}, true),
                      second = events(7, {put(pair("/s/c", "{}", 7, 7))});
    CHECK(watched({created(5), before, first, second, progress(7)}).told ==
          lines{"opened", "added a 6", "change {", "modified a 7", "added b 7", "added c 7", "}", "bookmark 7"});
    CHECK(watched({created(5), events(6, {put(pair("/s/a", "{}", 6, 6)), put(pair("/s/b", "{}", 6, 6))})}).told ==
          lines{"opened", "change {", "added a 6", "added b 6", "}"});
    // Cut at every byte: nothing of revision 7 is reported before all of it is there.
    const std::string all = created(5) + before + first + second;
    const std::size_t complete = all.size() - 1; // the line feed at the end carries nothing
    for (std::size_t n = created(5).size(); n < all.size(); ++n) {
        bench b;
        recorder sink;
        failure f;
        b.etcd().next.push_back(reply(all).streamed(reply::cut, n));
        watch(b, sink, f, after("5"));
        CAPTURE(n, sink.lines);
        REQUIRE(f == errc::connection_lost);
        const auto told = sink.lines.size() - 1;
        REQUIRE((told == 0 || told == 1 || told == 6));
        REQUIRE((told == 6) == (n >= complete));
    }
    // A clean end of the stream in the middle of a transaction is no clean end.
    CHECK(watched({created(5), first}).f == errc::connection_lost);
    CHECK(watched({created(5), first}).told == lines{"opened"});
}

TEST_CASE("etcd watch: a change that takes several turns has no end if the sink ends the watch within it") {
    constexpr int n = 20'000; // takes more than one slice
    bench b;
    recorder sink;
    sink.enough = 2; // opened, and the beginning of the change
    failure f;
    std::vector<std::string> all;
    for (int i = 0; i < n; ++i) all.push_back(put(pair("/s/" + std::to_string(i), "{}", 7, 7)));
    std::string stream = created(9);
    // in fragments, as etcd sends it: the sink's slices end before the first event is reported
    for (int i = 0; i < n; i += 100) stream += events(7, {all.begin() + i, all.begin() + i + 100}, i + 100 < n);
    b.etcd().next.push_back(reply(stream).streamed());
    watch(b, sink, f, after("5"));
    CHECK(!f);
    const auto told = sink.lines.size();
    CAPTURE(told);
    CHECK(told > 2);
    CHECK(told < n);
    CHECK(sink.lines[1] == "change {");
    CHECK(sink.lines.back() != "}");
}

TEST_CASE("etcd watch: a compacted revision, and another cluster, are gone") {
    const watched compacted(
        {created(9), result(R"("header":{"cluster_id":"77"},"canceled":true,"compact_revision":"8")")});
    CHECK(compacted.f == errc::gone);
    CHECK(compacted.told == lines{"opened"});
    bench b;
    recorder sink;
    failure f;
    b.etcd().next.emplace_back(range(9, {}));
    b.etcd().next.push_back(reply(result(header(9, "78") + R"(,"created":true)")).streamed());
    list(b, sink, f);
    watch(b, sink, f, after("9"));
    CHECK(f == errc::gone);
    CHECK(f.what().find("another cluster answers") != std::string::npos);
    CHECK(sink.lines == lines{"opened"}); // the list's
}

TEST_CASE("etcd watch: another cluster is errc::gone, even if it was only asked for its revision before") {
    bench b;
    recorder sink;
    failure f;
    const auto listed = [&](int revision, const char* cluster) {
        b.etcd().next.emplace_back("{" + header(revision, cluster) + "}");
        list(b, sink, f, list_options().limit(1));
        REQUIRE(!f);
    };
    const auto watched_after = [&](const char* version, const char* cluster) {
        b.etcd().next.push_back(reply(result(header(50, cluster) + R"(,"created":true)")).streamed());
        watch(b, sink, f, after(version));
        return f.code();
    };
    listed(9, "77");
    CHECK(!watched_after("9", "77"));
    listed(20, "78"); // this revision is not watched from
    CHECK(watched_after("9", "78") == errc::gone);
    CHECK(!watched_after("12", "77"));
    listed(30, "78"); // now the state is that cluster's
    CHECK(!watched_after("30", "78"));
    CHECK(watched_after("31", "77") == errc::gone);
}

TEST_CASE("etcd watch: a store that went back is gone; a member that is only behind the others is asked again") {
    bench b;
    recorder sink;
    failure f;
    int newest = 4;
    std::vector<int> at{4};
    b.etcd().answer = [&](const http::server_request& q) {
        if (q.path == "/v3/kv/range") {
            if (newest < 0) return reply(R"({"header":{"cluster_id":"77"}})");
            return newest == 0 ? reply(500, "") : reply(range(newest, {}));
        }
        const int now = at.front();
        if (at.size() > 1) at.erase(at.begin());
        return reply(created(now)).streamed();
    };
    // A watch that starts in the store's future would miss the changes before that.
    watch(b, sink, f, after("5"));
    CHECK(f == errc::gone);
    CHECK(f.what().find("etcd went back to revision 4 from 5") != std::string::npos);
    CHECK(sink.lines.empty());
    CHECK(b.etcd().lines().back() == "/v3/kv/range {\"key\":\"" + b64("/s/") + "\",\"keys_only\":true}");
    newest = 5;
    watch(b, sink, f, after("5")); // the member is still behind
    CHECK(f == errc::resource_version_too_large);
    at = {4, 5};
    watch(b, sink, f, after("5"));
    CHECK(!f);
    CHECK(sink.lines == lines{"opened"});
    newest = 0; // no answer about the newest revision, or one that does not tell it
    at = {4};
    watch(b, sink, f, after("5"));
    CHECK(f == errc::resource_version_too_large);
    CHECK(b.etcd().requests.back().path == "/v3/kv/range"); // and the watch is not opened again
    newest = -1;
    watch(b, sink, f, after("5"));
    CHECK(f == errc::resource_version_too_large);
    watch(b, sink, f);
    CHECK(!f);
}

TEST_CASE("etcd watch: the reason for its cancellation becomes the corresponding error") {
    const auto canceled = [](const std::string& reason) {
        return watched({result(header(5) + R"(,"created":true,"canceled":true,"cancel_reason":")" + reason + "\"")});
    };
    CHECK(canceled("rpc error: code = PermissionDenied desc = etcdserver: permission denied").f == errc::forbidden);
    CHECK(canceled("rpc error: code = Unauthenticated desc = etcdserver: invalid auth token").f == errc::unauthorized);
    CHECK(canceled("").f == errc::server_error);
    CHECK(canceled("").told.empty());
    const watched no_leader({created(5), events(6, {put(pair("/s/a", "{}", 6, 6))}),
                             R"({"error":{"code":14,"message":"etcdserver: no leader"}})"});
    CHECK(no_leader.f == errc::server_error);
    CHECK(no_leader.told == lines{"opened", "added a 6"});
}

TEST_CASE("etcd watch: an invalid stream fails it, and the events before that stay") {
    const std::string good = events(6, {put(pair("/s/a", "{}", 6, 6))});
    const auto ends = [&](const std::string& rest) {
        watched w({created(5), good, rest});
        CHECK(w.told == lines{"opened", "added a 6"});
        return w.f.code();
    };
    CHECK(ends("x") == errc::syntax_error);
    CHECK(ends(R"({"result":7})") == errc::bad_response);
    CHECK(ends(events(6, {put(pair("/s/b", "{}", 5, 5))})) == errc::bad_response);
    CHECK(ends(events(6, {put(pair("/s/b", "{}", 6, 6))})) == errc::bad_response); // all of revision 6 was there before
    CHECK(watched({events(6, {put(pair("/s/a", "{}", 6, 6))})}).f == errc::bad_response);
    CHECK(watched({progress(6)}).f == errc::bad_response);
    CHECK(watched({""}).f == errc::connection_lost);
    CHECK(watched({created(5)}, after("x")).f == errc::bad_request);
    CHECK(watched({created(5)}, after("5").send_initial_events()).f == errc::bad_request);
    CHECK(watched({created(5)}).b.from->watch_list() == watch_list_support::no);
}

TEST_CASE("etcd watch: it ends by itself when its time is up, without failure") {
    bench b;
    recorder sink;
    failure f;
    b.etcd().next.push_back(reply(created(5)).streamed(reply::stall));
    watch(b, sink, f, after("5").timeout(std::chrono::seconds(1)));
    CHECK(!f);
    CHECK(sink.lines == lines{"opened"});
}

TEST_CASE("etcd watch: with selectors, a key that stops matching is deleted and one that starts matching is added") {
    const auto v = [](const char* l) { return R"({"metadata":{"labels":{"l":")" + std::string(l) + "\"}}}"; };
    const auto change = [&](const char* key, const char* from, const char* to, int at) {
        return put(pair(key, v(to), 2, at, 3), pair(key, v(from), 2, 4, 2));
    };
    watched w(
        {created(5),
         events(20, {put(pair("/s/a", v("1"), 6, 6)), put(pair("/s/b", v("2"), 7, 7)), change("/s/c", "1", "1", 8),
                     change("/s/d", "1", "2", 9), change("/s/e", "2", "1", 10), change("/s/f", "2", "2", 11),
                     gone("/s/g", 12, pair("/s/g", v("1"), 2, 4)), gone("/s/h", 13, pair("/s/h", v("2"), 2, 4)),
                     put(pair("/s/i", v("2"), 2, 14, 2)), put(pair("/s/j", "{]", 2, 15, 2))})},
        after("5").labels("l=1"));
    CHECK(!w.f);
    // What i was before is unknown: it is reported as deleted, which does nothing if it is not in the cache.
    CHECK(w.told == lines{"opened", "added a 6", "modified c 8", "deleted d 9", "added e 10", "deleted g 12",
                          "deleted i 14", "bad j 15"});
    CHECK(w.sink.objects.at(object_key("", "d")).meta().label("l") == "1");
}

TEST_CASE("etcd watch: selectors that cannot be read are refused before anything is asked") {
    const watched w({created(5), events(6, {put(pair("/s/a", "{}", 6, 6))})}, after("5").labels("(("));
    CHECK(w.f == errc::bad_selector);
    CHECK(w.f.message().starts_with("watch keyvalues.etcd below /s/"));
    CHECK(w.told.empty());
}

TEST_CASE("etcd watch: without bookmarks progress is not reported") {
    CHECK(watched({created(5), progress(6)}, after("5").bookmarks(false)).told == lines{"opened"});
}

TEST_CASE("etcd watch: progress that is behind its events, or names no revision, is no bookmark") {
    const std::string event = events(10, {put(pair("/s/a", "{}", 10, 10))});
    CHECK(watched({created(5), event, progress(8)}).told == lines{"opened", "added a 10"});
    CHECK(watched({created(5), result(R"("header":{"cluster_id":"77"})")}).told == lines{"opened"});
}

TEST_CASE("etcd watch: revisions that do not ascend fail it, also if the later one had nothing that is chosen") {
    const std::string other = R"({"metadata":{"labels":{"l":"2"}}})", chosen = R"({"metadata":{"labels":{"l":"1"}}})";
    watched w(
        {created(5), events(10, {put(pair("/s/a", other, 10, 10))}), events(10, {put(pair("/s/b", chosen, 9, 9))})},
        after("5").labels("l=1"));
    CHECK(w.f == errc::bad_response);
    CHECK(w.told == lines{"opened"});
}
