#include "json_path.hpp"
#include "patience.hpp"
#include "printer.hpp"
#include "session.hpp"

#include <informer/cache/shared_informer.hpp>
#include <informer/object/rfc3339.hpp>
#include <informer/task_group.hpp>

#include <boost/json.hpp>

#include <set>

namespace informerctl {
namespace {

using informer::event;
using informer::event_kind;

std::string json_string(std::string_view s) {
    return boost::json::serialize(boost::json::string_view(s.data(), s.size()));
}

/// Turns events into text.
class event_printer {
public:
    explicit event_printer(const session& s) : session_(s) {
        std::string why;
        if (s.line.output == "jsonpath") path_ = json_path::parse(s.line.jsonpath, why);
    }

    /// False, with the reason, for an event that cannot be printed.
    bool print(const event& e, std::string& out, std::string& why) const {
        const auto& how = session_.line.output;
        if (how == "json") {
            json(e, out);
            return true;
        }
        if (e.kind == event_kind::synced) return true; // sync marks are for programs
        if (path_) return by_path(e, out, why);
        if (how == "name")
            out += session_.name_of(e.current) + "\n";
        else if (how == "yaml")
            out += "---\n" + yaml(e.current.value());
        else
            line(e, out);
        return true;
    }

private:
    void json(const event& e, std::string& out) const {
        if (e.kind == event_kind::synced) {
            out += "{\"type\":\"SYNCED\",\"resourceVersion\":" + json_string(e.version.str()) + "}\n";
            return;
        }
        out += "{\"time\":\"" + informer::rfc3339(session_.runtime.clock().wall(), 3) + "\",\"type\":\"";
        out += to_string(e.kind);
        out += "\",\"key\":" + json_string(e.key().str());
        out += ",\"resourceVersion\":" + json_string(e.current.resource_version().str());
        out += e.initial ? ",\"initial\":true" : ",\"initial\":false";
        out += ",\"reason\":\"";
        out += to_string(e.reason);
        out += '"';
        if (e.kind == event_kind::deleted)
            out += e.final_state_known ? ",\"finalStateKnown\":true" : ",\"finalStateKnown\":false";
        out += ",\"object\":";
        e.current.value().to_json(out);
        out += "}\n";
    }

    bool by_path(const event& e, std::string& out, std::string& why) const {
        const auto take = [&out](std::string_view part) {
            out += part;
            return true;
        };
        if (path_->evaluate(e.current, take, why)) {
            out += '\n';
            return true;
        }
        why = "-o jsonpath: " + e.key().str() + ": " + why;
        return false;
    }

    void line(const event& e, std::string& out) const {
        out += informer::rfc3339(session_.runtime.clock().wall(), 3) + "  ";
        std::string type(to_string(e.kind));
        type.resize(8, ' ');
        std::string about = e.current.kind().str() + "  " + e.key().str() + "  " + e.current.resource_version().str();
        if (session_.line.output == "wide")
            about += "  " + age(e.current, session_.runtime.clock().wall()) + "  " + labels(e.current);
        out += type + "  " + visible(about);
        if (e.kind == event_kind::deleted && !e.final_state_known) out += "  (final state unknown)";
        out += '\n';
        if (session_.line.diff && e.kind == event_kind::updated && e.previous) out += diff_lines(e.previous, e.current);
    }

    const session& session_;
    std::optional<json_path> path_;
};

/// Reports changes of the informer's state to the user, one line for each.
struct reporter {
    explicit reporter(const session& s) : before_sync(s.runtime.clock()), session_(s) {}

    patience before_sync;
    bool synced = false;
    bool failing = false;

    /// Reports each bad object once, though every relist brings it again, and at most `most_bad` of them.
    void bad(const informer::bad_object& b) {
        if (told_.size() > most_bad) return;
        if (!told_.insert(b.key.str() + ' ' + b.why.what()).second) return;
        if (told_.size() > most_bad)
            complain("more bad objects come; they are not named any more");
        else if (session_.etcd)
            skip(session_, b);
        else
            complain("skipped " + b.why.what());
    }

private:
    static constexpr std::size_t most_bad = 1000;
    const session& session_;
    std::set<std::string> told_;
};

} // namespace

asio::awaitable<int> run_watch(std::shared_ptr<session> s) {
    const auto from = co_await find_source(s);
    auto watched = std::make_shared<informer::shared_informer>(s->runtime, from, s->informer_options());

    auto report = std::make_shared<reporter>(*s);
    const std::string what = s->describe();
    watched->on_state_change([report, what, raw = std::weak_ptr(watched)](const informer::informer_status& now) {
        if (report->before_sync.over(now)) {
            if (const auto i = raw.lock()) i->stop();
            return;
        }
        if (!report->synced || now.phase == informer::informer_phase::stopped) return;
        const bool failing = now.attempts > 0;
        if (failing == report->failing) return; // reported once, not at each retry
        report->failing = failing;
        if (failing)
            std::fprintf(stderr, "informerctl: %s: %s; trying again\n", what.c_str(),
                         visible(now.last_error.what()).c_str());
        else
            std::fprintf(stderr, "informerctl: %s: following again\n", what.c_str());
    });

    watched->on_bad_object([report](const informer::bad_object& b) { report->bad(b); });

    informer::subscription_options how;
    how.policy(informer::overflow_policy::back_pressure).sync_marks();
    auto events = watched->subscribe(how);
    informer::task_group group(s->runtime.executor());
    group.spawn(watched->run());

    progress bar("listing " + what);
    const event_printer printer(*s);
    std::string text, unprintable;
    for (;;) {
        auto batch = co_await events.next_batch(256);
        if (batch.empty()) break;
        for (const auto& e : batch) {
            if (e.kind == event_kind::synced) {
                report->synced = true;
                bar.clear();
            }
            text.clear();
            if (!printer.print(e, text, unprintable)) break; // as in kubectl, it ends the watch
            s->out.write(text);
            if (s->out.buffered() > (std::size_t(64) << 10) && !s->out.flush()) break;
        }
        if (!s->out.flush() || !unprintable.empty()) break;
    }
    bar.clear();
    watched->stop();
    co_await group.join();
    if (report->before_sync.why() && !s->out.closed()) co_return complain(report->before_sync.why().what());
    if (!unprintable.empty() && !s->out.closed()) co_return complain(unprintable);
    co_return 0;
}

} // namespace informerctl
