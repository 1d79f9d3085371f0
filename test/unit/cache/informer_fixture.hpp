// An informer on a scripted source and a manual clock.
#pragma once

#include "support/log_capture.hpp"
#include "support/run.hpp"

#include <informer/cache/shared_informer.hpp>
#include <informer/testing/manual_clock.hpp>
#include <informer/testing/scripted_list_watch.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace informer::testing {

/// The text of a pod.
inline std::string pod(const std::string& name, int version, const std::string& note = "",
                       const std::string& uid = "") {
    const std::string id = uid.empty() ? "uid-" + name : uid;
    return R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":")" + name + R"(","uid":")" +
           id + R"(","resourceVersion":")" + std::to_string(version) + R"("},"spec":{"note":")" + note + R"("}})";
}

inline list_script list_of(std::vector<std::string> items, const std::string& version, const std::string& token = "") {
    list_script l;
    l.items(std::move(items)).version(version).continue_token(token);
    return l;
}

/// The io_context, the clock, the source and the informer of one test. The test drives them from outside: `settle()`
/// runs what is ready, `pass()` lets time go by.
class bench {
public:
    explicit bench(informer_options options = informer_options())
        : clock(std::make_shared<manual_clock>()),
          source(std::make_shared<scripted_list_watch>(context.get_executor())), rt(make_runtime()),
          pods(rt, source, std::move(options)) {}

    ~bench() {
        pods.stop();
        // Whatever the test did, no work may be left.
        CHECK(drain());
    }

    void start() {
        boost::asio::co_spawn(context, pods.run(), [this](std::exception_ptr e) {
            finished = true;
            failed = std::move(e);
        });
        settle();
    }
    /// Runs until nothing is ready any more.
    void settle() {
        context.restart();
        while (context.poll() != 0) context.restart();
    }
    void pass(clock::duration d) {
        clock->advance(d);
        settle();
    }
    /// Runs what is left; true if the informer has stopped and left no work.
    bool drain() {
        context.restart();
        context.run_for(std::chrono::seconds(5));
        return context.stopped();
    }

    /// Starts with these objects by watch-list, at version `v`; the watch goes on.
    std::shared_ptr<watch_script> sync_with(std::vector<std::string> objects, int v) {
        auto w = source->on_watch();
        for (auto& o : objects) w->added(std::move(o));
        w->bookmark(std::to_string(v), true);
        start();
        return w;
    }

    /// The same by a list, for an informer without watch-list.
    std::shared_ptr<watch_script> list_with(std::vector<std::string> objects, int v) {
        source->on_list(list_of(std::move(objects), std::to_string(v)));
        auto w = source->on_watch();
        start();
        return w;
    }

    std::string note(const std::string& name) const {
        const object o = pods.get("default/" + name);
        return o ? o.at_pointer("/spec/note").string_or_empty().str() : "(absent)";
    }

    boost::asio::io_context context{1};
    log_capture log;
    std::shared_ptr<manual_clock> clock;
    std::shared_ptr<scripted_list_watch> source;
    runtime rt;
    shared_informer pods;
    bool finished = false;
    std::exception_ptr failed;

private:
    runtime make_runtime() {
        runtime r(context.get_executor());
        r.with_clock(clock).with_seed(1).with_logger(log.logger(), log_level::debug);
        return r;
    }
};

/// What a subscription holds now, one word an event: "+a b c" is added, "~" updated, "-" deleted, "*" a sync mark;
/// "?" behind a delete whose final state is not known, "!" behind initial ones, "@" behind resyncs, "#" behind events
/// of a relist.
inline std::vector<std::string> read_all(subscription& s) {
    std::vector<std::string> out;
    while (auto e = s.try_next()) {
        if (e->kind == event_kind::synced) {
            out.push_back("*" + e->version.str());
            continue;
        }
        std::string w = e->kind == event_kind::added ? "+" : e->kind == event_kind::updated ? "~" : "-";
        w += e->key().name + ":" + e->version.str();
        if (e->initial) w += "!";
        if (!e->final_state_known) w += "?";
        if (e->reason == event_reason::resync) w += "@";
        if (e->reason == event_reason::relist) w += "#";
        out.push_back(std::move(w));
    }
    return out;
}

using words = std::vector<std::string>;

inline failure status_failure(int code, const std::string& reason, const std::string& message = "") {
    api_status s;
    s.code = code;
    s.reason = reason;
    s.message = message;
    return failure(std::move(s), "watch pods");
}

} // namespace informer::testing
