#include "json_path.hpp"
#include "printer.hpp"
#include "session.hpp"

#include <algorithm>

namespace informerctl {
namespace {

using informer::object;

/// Writes lines: `first` in front of the first one, `others` in front of the others.
void write_lines(output& out, std::string_view lines, std::string_view first, std::string_view others) {
    for (bool more = true; more;) {
        const auto end = lines.find('\n');
        more = end != std::string_view::npos;
        out.write(first);
        out.write(lines.substr(0, end));
        if (more) out.write("\n");
        lines.remove_prefix(more ? end + 1 : lines.size());
        first = others;
    }
}

// The lists are written one object at a time: as a whole their texts never exist.

void write_list(output& out, const std::vector<object>& items) {
    out.write("{\n  \"apiVersion\": \"v1\",\n  \"items\": [");
    std::string_view separator = "\n";
    for (const auto& o : items) {
        out.write(separator);
        write_lines(out, o.value().to_pretty_json(2), "    ", "    ");
        if (!out.go_on()) return;
        separator = ",\n";
    }
    out.write(items.empty() ? "],\n" : "\n  ],\n");
    out.write("  \"kind\": \"List\",\n  \"metadata\": {\n    \"resourceVersion\": \"\"\n  }\n}\n");
}

void write_yaml_list(output& out, const std::vector<object>& items) {
    out.write(items.empty() ? "apiVersion: v1\nitems: []\n" : "apiVersion: v1\nitems:\n");
    for (const auto& o : items) {
        std::string text = yaml(o.value());
        text.pop_back(); // the line break at the end
        write_lines(out, text, "  - ", "    ");
        if (!out.put("\n")) return;
    }
    out.write("kind: List\nmetadata:\n  resourceVersion: \"\"\n");
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

int print_objects(session& s, const std::vector<object>& items, bool single) {
    auto& out = s.out;
    const auto take = [&out](std::string_view part) { return out.put(part); };
    const auto& how = s.line.output;
    if (how == "json") {
        if (single)
            out.line(items.front().value().to_pretty_json(4));
        else
            write_list(out, items);
    } else if (how == "yaml") {
        if (single)
            out.write(yaml(items.front().value()));
        else
            write_yaml_list(out, items);
    } else if (how == "jsonpath") {
        std::string why;
        const auto path = json_path::parse(s.line.jsonpath, why);
        const bool good = single ? path->evaluate(items.front(), take, why) : path->evaluate(items, take, why);
        if (!good) return complain("-o jsonpath: " + why);
    } else if (how == "name") {
        for (const auto& o : items)
            if (!out.put(s.name_of(o) + '\n')) break;
    } else {
        const bool spaces = s.resource.namespaced && (s.etcd ? s.name_space().empty() : s.line.all_namespaces);
        const bool wide = how == "wide";
        table t(header_of(s, spaces, wide), !s.line.no_headers);
        for (const auto& o : items) {
            if (!out.go_on()) return 0;
            t.row(row_of(s, o, spaces, wide));
        }
        t.print(take);
    }
    return 0;
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
        options.labels(s->line.labels).fields(s->line.fields).shard(s->line.part);
        informer::kubernetes::list_pager pages(*s->client, s->resource, s->name_space(), options);
        bool anew = false;
        for (;;) {
            informer::failure f;
            auto page = co_await pages.next(f);
            if (f == informer::condition::gone && !anew) {
                // The remaining pages have expired.
                pages.begin_anew();
                items.clear();
                anew = true;
                continue;
            }
            if (f == informer::condition::cancelled) co_return 0; // a signal, or nobody reads any more
            if (f) co_return complain(f.what());
            if (!page) break;
            for (const auto& b : page->bad) code = complain("skipped " + s->name_of(b) + ": " + b.why.what());
            std::move(page->items.begin(), page->items.end(), std::back_inserter(items));
            bar.show(items.size(), 0, "objects");
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
    code = std::max(code, print_objects(*s, items, single));
    s->out.flush();
    co_return code;
}

} // namespace informerctl
