#include <informer/detail/page_circle.hpp>
#include <informer/kubernetes/list_pager.hpp>

#include "kubernetes/client_impl.hpp"
#include "kubernetes/list_page.hpp"
#include "kubernetes/or_throw.hpp"
#include "root/at_home.hpp"

#include <iterator>
#include <utility>

namespace informer::kubernetes {

namespace {

/// The pages that are left.
class position {
public:
    explicit position(list_options first) : request_(std::move(first)) {}

    bool done() const noexcept { return done_; }
    const list_options& request() const noexcept { return request_; }
    /// To the page of this token. False if that one was there before.
    bool advance(const std::string& token) {
        done_ = token.empty();
        if (done_) return true;
        if (!circle_.goes_on(request_.continue_, token)) return false;
        request_.continue_token(token);
        return true;
    }

private:
    list_options request_;
    bool done_ = false;
    informer::detail::page_circle circle_;
};

} // namespace

struct list_pager::impl {
    impl(std::shared_ptr<client::impl> c, bool retry, api_resource r, std::string n, list_options o)
        : client_(std::move(c)), retry_(retry), resource_(std::move(r)), name_space_(std::move(n)),
          first_(std::move(o)), at_(in_pages(first_)) {}
    static list_options in_pages(list_options o) {
        if (o.limit_ == 0) o.limit(page_size);
        return o;
    }
    /// All, in one piece.
    position anew() const {
        list_options o = first_;
        o.limit(0).continue_token({});
        return position(std::move(o));
    }

    using shared = std::shared_ptr<impl>;
    static asio::awaitable<std::optional<object_list>> next(shared s, failure& f);
    static asio::awaitable<object_list> all(shared s, failure& f);
    static asio::awaitable<object_list> read(shared s, std::shared_ptr<position> at, failure& f);

    const std::shared_ptr<client::impl> client_;
    const bool retry_;
    const api_resource resource_;
    const std::string name_space_;
    const list_options first_;
    position at_;
    std::shared_ptr<document_pool> pool_; ///< of all pages
};

/// Reads the page at `at` and moves on.
asio::awaitable<object_list> list_pager::impl::read(shared s, std::shared_ptr<position> at, failure& f) {
    if (!s->pool_) s->pool_ = detail::pool_for(*s->client_, s->resource_, at->request());
    auto work = detail::list_page(s->client_, s->resource_, s->name_space_, at->request(), s->pool_, s->retry_, f);
    object_list page = co_await std::move(work);
    if (f || at->advance(page.continue_token)) co_return page;
    f = failure(errc::bad_response,
                "list " + detail::describe(s->resource_, s->name_space_) + ": the same continue token twice");
    co_return object_list();
}

asio::awaitable<std::optional<object_list>> list_pager::impl::next(shared s, failure& f) {
    f = failure();
    if (s->at_.done()) co_return std::nullopt;
    const auto at = std::make_shared<position>(s->at_);
    object_list page = co_await read(s, at, f);
    if (f) co_return std::nullopt;
    s->at_ = std::move(*at);
    co_return std::optional<object_list>(std::move(page));
}

asio::awaitable<object_list> list_pager::impl::all(shared s, failure& f) {
    f = failure();
    object_list all;
    auto at = std::make_shared<position>(s->at_);
    // What was handed out before, by `next` or another pager, would come twice.
    bool may_begin_anew = at->request().continue_.empty();
    bool any = false;
    while (!at->done()) {
        object_list page = co_await read(s, at, f);
        if (f == errc::gone && any && may_begin_anew) {
            at = std::make_shared<position>(s->anew());
            may_begin_anew = any = false;
            all = object_list();
            continue;
        }
        if (f) co_return object_list();
        if (!any) all.version = page.version;
        any = true;
        all.items.insert(all.items.end(), std::make_move_iterator(page.items.begin()),
                         std::make_move_iterator(page.items.end()));
        all.bad.insert(all.bad.end(), std::make_move_iterator(page.bad.begin()),
                       std::make_move_iterator(page.bad.end()));
    }
    s->at_ = std::move(*at);
    co_return all;
}

list_pager::list_pager(const client& c, api_resource resource, std::string name_space, list_options options)
    : impl_(std::make_shared<impl>(c.impl_, c.retry_, std::move(resource), std::move(name_space), std::move(options))) {
}

asio::awaitable<std::optional<object_list>> list_pager::next(failure& f) {
    return informer::detail::quietly_at_home(impl_->client_->rt, impl::next(impl_, f));
}

asio::awaitable<std::optional<object_list>> list_pager::next() {
    return detail::or_throw<std::optional<object_list>>([p = *this](failure& f) mutable { return p.next(f); });
}

asio::awaitable<object_list> list_pager::all() {
    return detail::or_throw<object_list>([p = *this](failure& f) mutable { return p.all(f); });
}

asio::awaitable<object_list> list_pager::all(failure& f) {
    return informer::detail::quietly_at_home(impl_->client_->rt, impl::all(impl_, f));
}

void list_pager::begin_anew() {
    impl_->at_ = impl_->anew();
}

} // namespace informer::kubernetes
