#include "json_path.hpp"
#include "printer.hpp"
#include "session.hpp"

#include <algorithm>

namespace informerctl {
namespace {

using informer::object;

std::string as_list(const std::vector<object>& items) {
    // One object at a time: the list as a whole never exists twice.
    std::string out = "{\n  \"apiVersion\": \"v1\",\n  \"items\": [";
    for (std::size_t i = 0; i < items.size(); ++i) {
        out += i ? ",\n" : "\n";
        std::string text = items[i].value().to_pretty_json(2);
        std::size_t at = 0;
        while (at <= text.size()) { // indent by two levels
            const auto end = std::min(text.find('\n', at), text.size());
            out += "    " + text.substr(at, end - at);
            if (end < text.size()) out += '\n';
            at = end + 1;
        }
    }
    out += items.empty() ? "],\n" : "\n  ],\n";
    return out + "  \"kind\": \"List\",\n  \"metadata\": {\n    \"resourceVersion\": \"\"\n  }\n}\n";
}

std::string as_yaml_list(const std::vector<object>& items) {
    std::string out = "apiVersion: v1\nitems:";
    if (items.empty()) out += " []";
    out += "\n";
    for (const auto& o : items) {
        const std::string text = yaml(o.value());
        std::size_t at = 0;
        bool first = true;
        while (at < text.size()) {
            const auto end = std::min(text.find('\n', at), text.size());
            out += (first ? "  - " : "    ") + text.substr(at, end - at) + "\n";
            first = false;
            at = end + 1;
        }
    }
    return out + "kind: List\nmetadata:\n  resourceVersion: \"\"\n";
}

/// The columns of the table, for objects and for values in etcd.
std::vector<std::string> header_of(const session& s, bool spaces, bool wide) {
    std::vector<std::string> header;
    if (spaces) header.emplace_back("NAMESPACE");
    header.emplace_back("NAME");
    if (s.etcd) {
        header.emplace_back("REVISION");
        if (wide) header.insert(header.end(), {"VERSION", "LABELS"});
        header.emplace_back("VALUE");
    } else {
        header.emplace_back("STATUS");
        if (wide) header.insert(header.end(), {"AGE", "LABELS"});
    }
    return header;
}

std::vector<std::string> row_of(const session& s, const object& o, bool spaces, bool wide) {
    std::vector<std::string> row;
    if (spaces) row.push_back(o.meta().name_space().str());
    row.push_back(o.meta().name().str());
    if (s.etcd) {
        row.push_back(o.resource_version().str());
        if (wide) row.insert(row.end(), {std::to_string(o.meta().generation()), labels(o)});
        row.push_back(plain_value(o, wide ? std::string::npos : 64));
    } else {
        row.push_back(glance(o));
        if (wide) row.insert(row.end(), {age(o, s.runtime.clock().wall()), labels(o)});
    }
    return row;
}

} // namespace

void print_objects(session& s, const std::vector<object>& items, bool single) {
    auto& out = s.out;
    const auto& how = s.line.output;
    if (how == "json") {
        if (single)
            out.line(items.front().value().to_pretty_json(4));
        else
            out.write(as_list(items));
    } else if (how == "yaml") {
        if (single)
            out.write(yaml(items.front().value()));
        else
            out.write(as_yaml_list(items));
    } else if (how == "jsonpath") {
        std::string why;
        const auto path = json_path::parse(s.line.jsonpath, why);
        out.write(single ? path->evaluate(items.front()) : path->evaluate(items));
    } else if (how == "name") {
        for (const auto& o : items) out.line(s.name_of(o));
    } else {
        const bool spaces = s.resource.namespaced && (s.etcd ? s.name_space().empty() : s.line.all_namespaces);
        const bool wide = how == "wide";
        table t(header_of(s, spaces, wide), !s.line.no_headers);
        for (const auto& o : items) t.row(row_of(s, o, spaces, wide));
        out.write(t.str());
    }
}

asio::awaitable<int> run_get(std::shared_ptr<session> s) {
    co_await find_resource(s);
    std::vector<object> items;
    int code = 0;
    if (!s->line.names.empty()) {
        for (const auto& name : s->line.names) {
            const informer::object_key key(s->name_space(), name);
            informer::failure f;
            object o = co_await s->client->get(s->resource, key, f);
            if (f == informer::condition::cancelled) co_return 0;
            if (f)
                code = complain(f.what());
            else
                items.push_back(std::move(o));
        }
        if (items.empty()) co_return code;
    } else {
        progress bar("listing " + s->describe());
        informer::list_options options;
        options.limit(500).labels(s->line.labels).fields(s->line.fields).shard(s->line.part);
        bool restarted = false;
        for (;;) {
            informer::failure f;
            auto page = co_await s->client->list(s->resource, s->name_space(), options, f);
            if (f == informer::condition::gone && !options.continue_.empty() && !restarted) {
                // The remaining pages have expired: list once more, in one piece.
                restarted = true;
                items.clear();
                options.continue_.clear();
                options.limit(0);
                continue;
            }
            if (f == informer::condition::cancelled) co_return 0; // a signal, or nobody reads any more
            if (f) co_return complain(f.what());
            for (const auto& b : page.bad)
                code = complain("skipped " + (b.key.empty() ? "item " + std::to_string(b.position) : b.key.str()) +
                                ": " + b.why.what());
            std::move(page.items.begin(), page.items.end(), std::back_inserter(items));
            bar.show(items.size(), 0, "objects");
            if (page.continue_token.empty()) break;
            if (page.continue_token == options.continue_) // it would go on like this for ever
                co_return complain("list " + s->describe() + ": the same continue token twice");
            options.continue_token(page.continue_token);
        }
        std::sort(items.begin(), items.end(), [](const object& a, const object& b) { return a.key() < b.key(); });
        if (items.empty() && (s->line.output.empty() || s->line.output == "wide")) {
            const auto where = s->name_space();
            std::fprintf(stderr, "No resources found%s.\n",
                         where.empty() ? "" : (" in " + where + " namespace").c_str());
            co_return code;
        }
    }
    const bool single = s->line.names.size() == 1;
    print_objects(*s, items, single);
    s->out.flush();
    co_return code;
}

} // namespace informerctl
