#include "printer.hpp"
#include "session.hpp"

#include <boost/json.hpp>

#include <set>

namespace informerctl {
namespace {

std::string join(const std::vector<std::string>& v) {
    std::string s;
    for (const auto& x : v) s += (s.empty() ? "" : ",") + x;
    return s;
}

boost::json::array strings(const std::vector<std::string>& v) {
    return boost::json::array(v.begin(), v.end());
}

} // namespace

asio::awaitable<int> run_resources(std::shared_ptr<session> s) {
    const auto all = co_await s->client->discover();
    const auto& how = s->line.output;
    for (const auto& p : all.problems) complain(p);
    if (how == "json") {
        for (const auto& r : all.resources) {
            boost::json::object o;
            o["name"] = r.plural;
            o["group"] = r.group;
            o["version"] = r.version;
            o["kind"] = r.kind;
            o["singular"] = r.singular;
            o["namespaced"] = r.namespaced;
            o["shortNames"] = strings(r.short_names);
            o["verbs"] = strings(r.verbs);
            s->out.line(boost::json::serialize(o));
        }
    } else if (how == "name") {
        std::set<std::string> told; // a resource of several versions is one
        for (const auto& r : all.resources)
            if (told.insert(r.group_resource()).second) s->out.line(r.group_resource());
    } else {
        std::vector<std::string> header{"NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"};
        if (how == "wide") header.insert(header.end(), {"VERBS", "CATEGORIES"});
        table t(header, !s->line.no_headers);
        for (const auto& r : all.resources) {
            std::vector<std::string> row{r.plural, join(r.short_names), r.api_version(),
                                         r.namespaced ? "true" : "false", r.kind};
            if (how == "wide") row.insert(row.end(), {join(r.verbs), join(r.categories)});
            t.row(std::move(row));
        }
        t.print([&](std::string_view line) { return s->out.put(line); });
    }
    s->out.flush();
    co_return all.problems.empty() ? 0 : 1;
}

} // namespace informerctl
