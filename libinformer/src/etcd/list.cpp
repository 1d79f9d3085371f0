#include "etcd/reading.hpp"
#include "etcd/requests.hpp"
#include "root/base64.hpp"

#include <algorithm>
#include <utility>

namespace informer::etcd::detail {

using informer::detail::base64_decoder;
using informer::detail::base64_encode;

namespace {

/// The first page if the caller requests no limit: there are pages all the same, so that neither etcd nor we ever hold
/// all values at once.
constexpr std::uint64_t first_page = 500;
/// How large the text of a page is meant to be. For each page etcd counts all keys that are left (60 ms for 100,000),
/// which is most of the work if pages are a few hundred small keys; but a few hundred of the largest values are too
/// much for one answer.
constexpr std::uint64_t page_bytes = std::uint64_t(4) << 20;
constexpr std::uint64_t smallest_page = 16, largest_page = 10'000;
constexpr std::uint64_t growth = 4; // at most, from one page to the next

struct listing final : reading {
    using reading::reading;
    asio::awaitable<void> take_found(std::shared_ptr<reading> self, failure& f) override;
    bool begin(const list_options& o);
    failure check_page(bool first);
    void adapt_page(std::uint64_t limit);

    list_result result;
    std::shared_ptr<source> of;
    bool goes_on = false;       ///< a list that has begun before, at its continue token
    std::int64_t asked = 0;     ///< the revision to reach at least
    std::int64_t pinned = 0;    ///< the revision of all pages; 0: the first page tells
    std::string last_key;       ///< of the pages so far
    std::optional<message> end; ///< the message that ends the page
    std::uint64_t entries = 0;  ///< of the page
};

/// "revision:key", where the page before ended.
std::string token_of(std::int64_t revision, std::string_view last_key) {
    return std::to_string(revision) + ":" + base64_encode(last_key);
}

bool read_token(std::string_view token, std::int64_t& revision, std::string& last_key) {
    const auto colon = token.find(':');
    if (colon == std::string_view::npos) return false;
    const auto n = revision_of(token.substr(0, colon));
    base64_decoder decoder;
    if (!n || *n == 0 || !decoder.feed(token.substr(colon + 1), last_key) || !decoder.complete() || last_key.empty())
        return false;
    revision = *n;
    return true;
}

/// False: the options hold no revision, or no continue token, of etcd's.
bool listing::begin(const list_options& o) {
    goes_on = !o.continue_.empty();
    const auto revision = revision_of(o.resource_version_);
    if (!revision) return false;
    asked = *revision;
    if (goes_on) return read_token(o.continue_, pinned, last_key);
    if (o.resource_version_match_ == "Exact") pinned = asked;
    return true;
}

/// The failure if the page is not of the state that the list is of.
failure listing::check_page(bool first) {
    if (pinned == 0) {
        pinned = end->revision;
        if (pinned < asked) return not_there_yet(asked, pinned, doing);
    }
    if (first && !goes_on) {
        of->listed_at = pinned;
        of->listed_by = end->cluster;
    } else if (pinned == of->listed_at && end->cluster != of->listed_by) {
        return another_cluster(end->cluster, of->listed_by, doing);
    }
    return {};
}

/// The size of the next page, by that of this one. It grows slowly: the values that follow may be much larger.
void listing::adapt_page(std::uint64_t limit) {
    if (entries == 0) return;
    const std::uint64_t each = std::exchange(bytes, 0) / entries + 1;
    const std::uint64_t most = growth * std::min(limit, largest_page / growth);
    of->next_page = std::clamp(page_bytes / each, smallest_page, std::max(most, smallest_page));
}

std::string range_request(const std::string& key, const std::string& end, std::uint64_t limit, std::int64_t revision,
                          bool serializable) {
    std::string s = R"({"key":")" + base64_encode(key) + R"(","range_end":")" + base64_encode(end) + '"';
    s += R"(,"limit":")" + std::to_string(limit) + '"';
    if (revision != 0) s += R"(,"revision":")" + std::to_string(revision) + '"';
    if (serializable) s += R"(,"serializable":true)";
    return s + '}';
}

asio::awaitable<void> take_item(std::shared_ptr<listing> r, std::shared_ptr<const key_value> kv, failure& f) {
    const named_key name = name_of(r->rules, kv->key);
    reading::made m = co_await reading::make(r, kv, name, kv->mod_revision, false, f);
    if (f || r->enough) co_return;
    r->of->count_key(m.bad);
    if (m.bad) {
        bad_object b;
        b.key = name.key;
        b.position = r->position;
        b.from_list = true;
        b.resource_version = resource_version(std::to_string(kv->mod_revision));
        if (kv->create_revision != 0) b.uid = uid_of(kv->key, kv->create_revision);
        b.why = std::move(m.bad);
        r->sink->quarantine(std::move(b));
    } else if (m.matches) {
        ++r->result.items;
        r->sink->item(std::move(m.o));
    }
    ++r->position;
}

asio::awaitable<void> take_all(std::shared_ptr<listing> r, failure& f) {
    for (auto found = r->reader.next(); found != message_reader::found::nothing; found = r->reader.next()) {
        if (found == message_reader::found::message) {
            if (r->end) f = failure(errc::bad_response, r->doing + ": there is more behind the answer");
            r->end = r->reader.message();
        } else {
            ++r->entries;
            const auto kv = std::make_shared<const key_value>(std::move(r->reader.current().kv));
            if (kv->key <= r->last_key) { // a server that answers each request with the same page would never end
                f = failure(errc::bad_response, r->doing + ": the keys do not ascend");
                co_return;
            }
            r->last_key = kv->key;
            co_await take_item(r, kv, f);
        }
        if (f || r->enough) co_return;
        if (!r->pace.over()) continue;
        const bool on = co_await reading::turn(r, f);
        if (!on) co_return;
    }
}

asio::awaitable<void> listing::take_found(std::shared_ptr<reading> self, failure& f) {
    return take_all(std::static_pointer_cast<listing>(std::move(self)), f);
}

asio::awaitable<void> read_page(std::shared_ptr<listing> r, http::response answer, failure& f) {
    r->end.reset();
    r->entries = 0;
    co_await reading::read_body(r, std::make_shared<http::response>(std::move(answer)), f);
    if (f || r->enough) co_return;
    if (!r->end)
        f = failure(errc::connection_lost, r->doing + ": the answer ends in the middle");
    else if (r->end->revision == 0)
        f = failure(errc::bad_response, r->doing + ": the answer has no revision");
    else if (r->end->more && r->entries == 0)
        f = failure(errc::bad_response, r->doing + ": an empty page, and more to come");
}

http::timeouts list_times(http::timeouts t) {
    return t.request(std::chrono::milliseconds(0)); // no limit as long as data arrives
}

} // namespace

asio::awaitable<std::int64_t> newest_revision(std::shared_ptr<source> s, std::string doing, failure& f) {
    // Asks for one key that we may read, whether it exists or not.
    std::string body = R"({"key":")" + base64_encode(range_begin(asked_prefix(s->rules))) + R"(","keys_only":true})";
    call c("/v3/kv/range", std::move(body), doing);
    c.time = s->members->options().time_;
    c.time.request(std::chrono::seconds(30));
    gateway::opened o = co_await gateway::open(s->members, std::move(c), f);
    if (f) co_return 0;
    const std::string text = co_await o.answer.read_all(std::size_t(64) << 10, f);
    message_reader reader(message_reader::kind::range, s->members->options().max_object_);
    if (!f) reader.feed(text, f);
    std::int64_t revision = 0;
    for (auto found = reader.next(); found != message_reader::found::nothing; found = reader.next())
        if (found == message_reader::found::message) revision = reader.message().revision;
    if (!f && revision == 0) f = failure(errc::bad_response, "the answer has no revision");
    if (f) f = f.within(doing);
    co_return revision;
}

asio::awaitable<list_result> list_into(std::shared_ptr<source> s, list_options options, object_sink& sink, failure& f) {
    const std::string doing = "list " + s->describe();
    selection chosen(options.label_selector_, options.field_selector_, f);
    if (f) {
        f = f.within(doing);
        co_return list_result();
    }
    const auto r =
        std::make_shared<listing>(s->members, s->rules, sink, doing, std::move(chosen), message_reader::kind::range);
    r->of = s;
    if (!r->begin(options)) {
        f = failure(errc::bad_request, doing + ": no revision, or no continue token, of etcd's");
        co_return list_result();
    }
    if (!r->goes_on) s->list_begins();
    const bool any = !r->goes_on && options.resource_version_ == "0";
    std::uint64_t limit = options.limit_ != 0 ? options.limit_ : first_page;
    const std::string prefix = asked_prefix(s->rules), end = range_end(prefix);
    for (bool first = true;;) {
        if (!r->last_key.empty() && s->next_page != 0) limit = s->next_page;
        const std::string from = r->last_key.empty() ? range_begin(prefix) : r->last_key + '\0';
        call c("/v3/kv/range", range_request(from, end, limit, r->pinned, any && first), doing);
        c.time = list_times(s->members->options().time_);
        c.needs_leader = !(any && first);
        gateway::opened o = co_await gateway::open(s->members, std::move(c), f);
        if (too_large_an_answer(f) && limit > smallest_page) {
            limit = s->next_page = smallest_page;
            continue;
        }
        if (f) break;
        if (first) sink.opened();
        co_await read_page(r, std::move(o.answer), f);
        if (is_members_fault(f)) s->members->fails(o.member);
        if (f || r->enough) break;
        f = r->check_page(first);
        if (f) break;
        r->adapt_page(limit);
        first = false;
        r->result.resource_version = resource_version(std::to_string(r->pinned));
        if (!r->end->more) {
            s->list_ends();
            break;
        }
        if (options.limit_ != 0) {
            r->result.continue_token = token_of(r->pinned, r->last_key);
            if (r->end->count > static_cast<std::int64_t>(r->entries))
                r->result.remaining = static_cast<std::uint64_t>(r->end->count) - r->entries;
            break;
        }
    }
    co_return r->result;
}

} // namespace informer::etcd::detail
