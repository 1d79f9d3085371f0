// Keys of an etcd instead of resources.
#include "session.hpp"

#include <informer/etcd/list_watch.hpp>

#include <algorithm>

namespace informerctl {
namespace {

using informer::object;

/// Passes on the names of files rather than their contents: the files may be rotated while a watch lasts.
informer::etcd::config where(const command_line& line) {
    const etcd_line& etcd = line.etcd;
    informer::http::tls_files files;
    files.ca = etcd.cacert;
    files.certificate = etcd.cert;
    files.key = etcd.key;
    // As etcdctl: with an option about TLS, an endpoint without a scheme means https.
    const bool secure = line.insecure || !etcd.cacert.empty() || !etcd.cert.empty();
    informer::etcd::config c;
    for (const std::string& url : etcd.endpoints)
        c.endpoint(url.find("://") != std::string::npos ? url : (secure ? "https://" : "http://") + url);
    if (!etcd.user.empty()) c.user(etcd.user, etcd.password).password_file(etcd.password_file);
    return c.tls(informer::http::tls_options().insecure(line.insecure)).tls_files(std::move(files));
}

informer::etcd::mapping what(const command_line& line) {
    using informer::etcd::wrap;
    informer::etcd::mapping m(line.resource);
    m.namespaced(line.etcd.namespaced).in(line.name_space);
    if (line.names.size() == 1) m.in(key_of(line, line.names.front()).name_space);
    m.wrap_values(line.etcd.wrap == "none" ? wrap::none : line.etcd.wrap == "all" ? wrap::all : wrap::others);
    return m;
}

/// Keeps the listed objects. As in an informer, an object that says it is of another kind is not kept but counts as
/// bad.
class collector final : public informer::object_sink {
public:
    collector(const session& s, progress& bar)
        : kind_(s.resource.kind), version_(s.resource.api_version()), part_(s.line.part), bar_(bar) {
        informer::decode_options how;
        how.type(version_, kind_).keep_managed_fields(s.line.keep_managed_fields);
        pool_ = informer::document_pool::make(std::move(how));
    }

    informer::document_pool& pool() override { return *pool_; }
    bool has_previous() const override { return false; }
    object previous(const informer::object_key&, std::size_t) override { return {}; }
    void item(object o) override {
        if (o.has_type(version_, kind_)) {
            if (!part_.contains(o)) return;
            items.push_back(std::move(o));
            return;
        }
        informer::bad_object b;
        b.key = o.key();
        b.why = informer::failure(informer::errc::not_an_object,
                                  "a " + o.api_version().str() + " " + o.kind().str() + " among the keys");
        bad.push_back(std::move(b));
    }
    void event(informer::watch_event_type, object) override {}
    void bookmark(informer::resource_version, bool) override {}
    void quarantine(informer::bad_object b) override { bad.push_back(std::move(b)); }
    asio::awaitable<bool> ready() override {
        bar_.show(items.size(), 0, "keys");
        return go_on();
    }

    std::vector<object> items;
    std::vector<informer::bad_object> bad;

private:
    static asio::awaitable<bool> go_on() { co_return true; }
    std::string kind_, version_;
    informer::shard_selector part_;
    std::shared_ptr<informer::document_pool> pool_;
    progress& bar_;
};

/// The objects that were asked for by name, in that order. Sets `code` to 1 if one is missing.
std::vector<object> named(const session& s, const collector& all, int& code) {
    std::vector<object> found;
    for (const auto& name : s.line.names) {
        const auto key = key_of(s.line, name);
        const auto& good = all.items;
        const auto it = std::find_if(good.begin(), good.end(), [&](const object& o) { return o.key() == key; });
        if (it != good.end()) {
            found.push_back(*it);
            continue;
        }
        code = 1;
        const auto bad = std::find_if(all.bad.begin(), all.bad.end(), [&](const auto& b) { return b.key == key; });
        if (bad != all.bad.end())
            skip(s, *bad);
        else
            complain("get " + etcd_key(s.line, key) + ": no such key");
    }
    return found;
}

} // namespace

informer::object_key key_of(const command_line& line, const std::string& name) {
    if (!line.etcd.namespaced) return {"", name};
    return line.name_space.empty() ? informer::object_key::parse(name) : informer::object_key(line.name_space, name);
}

std::string etcd_key(const command_line& line, const informer::object_key& key) {
    return what(line).etcd_key(key);
}

void skip(const session& s, const informer::bad_object& b) {
    const bool wraps = b.why == informer::errc::not_an_object && s.line.etcd.wrap != "all";
    complain("skipped " + s.name_of(b) + ": " + b.why.what() + (wraps ? " (--wrap all takes it)" : ""));
}

void use_etcd(session& s, informer::failure& f) {
    s.etcd = informer::etcd::make_list_watch(s.runtime, where(s.line), what(s.line), f);
    if (!f) s.resource = s.etcd->resource();
}

asio::awaitable<int> run_get_keys(std::shared_ptr<session> s) {
    progress bar("listing " + s->describe());
    const auto sink = std::make_unique<collector>(*s, bar);
    informer::list_options options;
    options.labels(s->line.labels).fields(s->line.fields).shard(s->line.part);
    informer::failure f;
    co_await s->etcd->list(options, *sink, f);
    if (f == informer::condition::cancelled) co_return 0; // a signal, or nobody reads any more
    bar.clear();
    if (f) co_return complain(f.what());
    int code = 0;
    const bool by_name = !s->line.names.empty();
    std::vector<object> items = by_name ? named(*s, *sink, code) : std::move(sink->items);
    if (!by_name) {
        for (const auto& b : sink->bad) skip(*s, b);
        if (!sink->bad.empty()) code = 1;
        std::sort(items.begin(), items.end(), [](const object& a, const object& b) { return a.key() < b.key(); });
    }
    if (items.empty() && (by_name || s->line.output.empty() || s->line.output == "wide")) {
        if (!by_name) std::fprintf(stderr, "No keys found: %s.\n", visible(s->describe()).c_str());
        co_return code;
    }
    code = std::max(code, print_objects(*s, items, s->line.names.size() == 1));
    s->out.flush();
    co_return code;
}

} // namespace informerctl
