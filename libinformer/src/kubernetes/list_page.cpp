#include "kubernetes/list_page.hpp"

#include "kubernetes/kubernetes_list_watch.hpp"

#include <optional>
#include <utility>

namespace informer::kubernetes::detail {

namespace {

class collector final : public object_sink {
public:
    collector(std::shared_ptr<document_pool> pool, shard_selector part, asio::any_io_executor executor)
        : pool_(std::move(pool)), part_(std::move(part)), executor_(std::move(executor)) {}

    document_pool& pool() override { return *pool_; }
    object previous(const object_key&, std::size_t) override { return {}; }
    void item(object o) override {
        if (part_.contains(o)) page.items.push_back(std::move(o));
    }
    void event(watch_event_type, object) override {}
    void bookmark(resource_version, bool) override {}
    void quarantine(bad_object b) override { page.bad.push_back(std::move(b)); }
    asio::awaitable<bool> ready() override { return take_turn(executor_); }

    object_list page;

private:
    std::shared_ptr<document_pool> pool_;
    shard_selector part_;
    asio::any_io_executor executor_;
};

} // namespace

decode_options options_for(const client::impl& i, const api_resource& r) {
    decode_options o;
    o.keep_managed_fields(i.keep_managed_fields);
    if (!r.kind.empty()) o.type(r.api_version(), r.kind);
    return o;
}

std::shared_ptr<document_pool> pool_for(const client::impl& c, const api_resource& r, const list_options& options) {
    decode_options decoding = options_for(c, r);
    if (options.metadata_only_) decoding.project(projection::keep({"/metadata"}));
    return document_pool::make(std::move(decoding));
}

asio::awaitable<object_list> list_page(std::shared_ptr<client::impl> c, api_resource r, std::string name_space,
                                       list_options options, std::shared_ptr<document_pool> pool, bool retry,
                                       failure& f) {
    retries so_far("GET", retry, std::nullopt);
    const std::string doing = "list " + describe(r, name_space);
    for (;;) {
        f = failure();
        collector sink(pool, options.shard_, c->rt.executor());
        const list_result result = co_await list_into(c, r, name_space, options, sink, f);
        if (!f) {
            sink.page.version = result.resource_version;
            sink.page.continue_token = result.continue_token;
            co_return std::move(sink.page);
        }
        const bool again = co_await client::impl::ask_again(c, so_far, doing, f);
        if (!again) co_return object_list();
    }
}

} // namespace informer::kubernetes::detail
