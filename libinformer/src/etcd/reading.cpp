#include "etcd/reading.hpp"

#include "object/large_text.hpp"
#include "source/is_progress.hpp"
#include "source/undecodable.hpp"

#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <utility>

namespace informer::etcd::detail {

namespace {

using informer::detail::large_text;
using informer::detail::undecodable;

/// How much is parsed at once: a few hundred small entries.
constexpr std::size_t piece = std::size_t(16) << 10;

} // namespace

selection::selection(const std::string& labels, const std::string& fields, failure& f) {
    f = failure();
    labels_ = label_selector::parse(labels, f);
    if (!f) fields_ = field_selector::parse(fields, f);
    if (!f && !(labels_.everything() && fields_.everything()))
        pool_ = document_pool::make(decode_options().text_difference(false));
}

asio::awaitable<bool> stopped(std::string doing, failure& f) {
    const auto asked = co_await asio::this_coro::cancellation_state;
    const bool yes = asked.cancelled() != asio::cancellation_type::none;
    if (yes) f = failure(errc::cancelled, std::move(doing));
    co_return yes;
}

/// Gives the executor a turn in the middle of a slice. False: the request must end.
asio::awaitable<bool> reading::turn(std::shared_ptr<reading> r, failure& f) {
    const bool wanted = co_await r->sink->turn();
    const bool cancelled = co_await stopped(r->doing, f);
    r->pace.begin();
    r->enough = r->enough || !wanted;
    co_return wanted && !cancelled;
}

/// Decodes into the pool `own` or, without it, into the sink's. `why`: the document is bad; `f`: the request ends.
asio::awaitable<object> reading::decode(std::shared_ptr<reading> r, std::shared_ptr<document_pool> own, object previous,
                                        failure& why, failure& f) {
    const auto pool_now = [&]() -> document_pool& { return own ? *own : r->sink->pool(); };
    why = failure();
    object o;
    if (r->text.text().size() <= large_text) {
        o = pool_now().decode(r->text.text(), previous, why);
    } else {
        const auto steps = pool_now().begin_decode(r->text.text(), std::move(previous));
        while (!steps->step()) {
            if (!r->pace.over()) continue;
            const bool on = co_await turn(r, f);
            if (!on) co_return object();
        }
        o = steps->finish(why);
    }
    if (why == errc::pool_full) f = why.within(r->doing + ": decode");
    co_return o;
}

asio::awaitable<reading::made> reading::make(std::shared_ptr<reading> r, std::shared_ptr<const key_value> kv,
                                             named_key name, std::int64_t resource_version, bool only_match,
                                             failure& f) {
    made m;
    bool readable = false;
    if (!name.fits) {
        m.bad = failure(errc::no_metadata, why_unfit(r->rules, kv->key));
    } else if (kv->oversized) {
        m.bad = failure(errc::too_large, "the value");
    } else {
        readable = r->text.make(r->rules, name, *kv, resource_version, m.bad);
    }
    while (readable) {
        m.bad = failure();
        const bool choosing = !r->chosen.everything();
        object candidate;
        if (choosing) candidate = co_await decode(r, r->chosen.pool(), object(), m.bad, f);
        if (f || r->enough) co_return m;
        if (!m.bad) {
            m.matches = !choosing || r->chosen.matches(candidate);
            if (!m.matches || only_match) co_return m;
            object previous;
            if (r->sink->has_previous()) previous = r->sink->previous(name.key, r->position);
            m.o = co_await decode(r, nullptr, std::move(previous), m.bad, f);
            if (f || r->enough) co_return made();
            if (!m.bad && !is_the_one(m.o, name, resource_version))
                m.bad = failure(errc::no_metadata, "the value names itself otherwise");
        }
        if (!m.bad) co_return m;
        m.o = object();
        // Only after a syntax error, which comes before the transform: that must not see an object twice.
        readable = m.bad == errc::syntax_error && r->text.try_as_text(r->rules, name, *kv, resource_version);
    }
    if (m.bad) m.bad = m.bad.within(r->doing + ": decode " + r->rules.etcd_key(name.key));
    co_return m;
}

asio::awaitable<void> reading::read_body(std::shared_ptr<reading> r, std::shared_ptr<http::response> answer,
                                         failure& f) {
    http::body_parts parts;
    while (!f && !r->enough) {
        const std::size_t n = co_await answer->receive(parts, f);
        if (f) f = f.within(r->doing);
        if (f || n == 0) break;
        r->bytes += n;
        if (informer::detail::is_progress(parts)) r->sink->received(n);
        r->pace.begin();
        for (std::size_t i = 0; i < parts.size() && !f && !r->enough; ++i) {
            for (std::string_view rest = parts[i]; !rest.empty() && !f && !r->enough;) {
                const std::string_view some = rest.substr(0, piece);
                rest.remove_prefix(some.size());
                failure garbage;
                r->reader.feed(some, garbage);
                co_await r->take_found(r, f); // the entries before the fault are good
                if (garbage && !f && !r->enough) f = undecodable(garbage, r->doing, answer->header("Content-Type"));
            }
        }
        if (f || r->enough) break;
        const bool wanted = co_await r->sink->ready();
        if (wanted) continue;
        r->enough = true; // or the request was cancelled while the sink waited
        co_await stopped(r->doing, f);
    }
    if (f || r->enough) answer->close();
}

} // namespace informer::etcd::detail
