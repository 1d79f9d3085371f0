#include "api_server_impl.hpp"

#include "delete_options.hpp"
#include "discovery_documents.hpp"
#include "json_tools.hpp"
#include "refusal.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>

namespace informer::testing {

namespace json = boost::json;
using namespace detail;

namespace {

// A larger list is streamed in pieces of about this size.
constexpr std::size_t piece_size = 256 * 1024;
constexpr std::size_t requests_kept = 10'000, bodies_kept = 1'000, largest_body_kept = 64 * 1024;

/// C0, DEL and C1: the Unicode characters that are certainly not printable.
bool control_at(std::string_view s, std::size_t i) {
    const auto c = static_cast<unsigned char>(s[i]);
    return c < 0x20 || c == 0x7F || (c == 0xC2 && i + 1 < s.size() && static_cast<unsigned char>(s[i + 1]) < 0xA0);
}

constexpr std::size_t longest_manager = 128; // bytes

/// The field manager: `fieldManager`, which is refused if it is bad, or else the name in User-Agent without its bad
/// characters. The real server does the same.
std::string manager_of(const http::server_request& request, std::string_view options) {
    const auto given = valid_utf8(request.query_value("fieldManager"));
    std::string why;
    if (given.size() > longest_manager) why = "Too long: may not be more than 128 bytes";
    for (std::size_t i = 0; i < given.size() && why.empty(); ++i) {
        if (control_at(given, i)) why = "Invalid value: invalid character (at position " + std::to_string(i) + ")";
    }
    if (!why.empty()) {
        const auto reason = why.starts_with("Too") ? "FieldValueTooLong" : "FieldValueInvalid";
        throw invalid("meta.k8s.io", options, "", one_cause(reason, "fieldManager", std::move(why)));
    }
    if (!given.empty()) return given;
    const auto agent = request.header("User-Agent");
    const auto whole = valid_utf8(agent.substr(0, agent.find('/')));
    std::string name;
    for (std::size_t i = 0; i < whole.size();) {
        std::size_t end = i + 1; // of the character
        while (end < whole.size() && (static_cast<unsigned char>(whole[end]) & 0xC0) == 0x80) ++end;
        if (name.size() + end - i > longest_manager) break;
        if (!control_at(whole, i)) name.append(whole, i, end - i);
        i = end;
    }
    return name.empty() ? "unknown" : name;
}

std::size_t size_of(const list_answer& list) {
    std::size_t n = list.head.size() + list.tail.size();
    for (const auto& o : list.items) n += o->text.size() + list.item_head.size() + 1;
    return n;
}

std::string success_text(const resource_type& type, const stored_object& o) {
    json::object details;
    details["name"] = o.name;
    if (!type.api.group.empty()) details["group"] = type.api.group;
    details["kind"] = type.api.plural;
    details["uid"] = o.uid;
    json::object s;
    s["kind"] = "Status";
    s["apiVersion"] = "v1";
    s["metadata"] = json::object();
    s["status"] = "Success";
    s["details"] = std::move(details);
    return json::serialize(s);
}

/// Whether this is a dry run. Any value but "All" is refused, so that a misspelt dry run does not become a real write.
bool runs_dry(const json::array& asked, std::string_view options) {
    const json::value all("All");
    if (std::all_of(asked.begin(), asked.end(), [&all](const json::value& v) { return v == all; }))
        return !asked.empty();
    auto why = "Unsupported value: " + json::serialize(asked) + ": supported values: \"All\"";
    throw invalid("meta.k8s.io", options, "", one_cause("FieldValueNotSupported", "dryRun", std::move(why)));
}

json::array dry_run_of(const parameters& query) {
    json::array asked;
    for (const auto& [name, value] : query) {
        if (name == "dryRun") asked.emplace_back(valid_utf8(value));
    }
    return asked;
}

void check_patch_options(bool apply, std::string_view manager, bool force) {
    causes why;
    if (apply && manager.empty())
        why = one_cause("FieldValueRequired", "fieldManager", "Required value: is required for apply patch");
    if (!apply && force)
        why = one_cause("FieldValueForbidden", "force", "Forbidden: may not be specified for non-apply patch");
    if (!why.empty()) throw invalid("meta.k8s.io", "PatchOptions", "", std::move(why));
}

} // namespace

void api_server::impl::note(request_info info) {
    requests_.push_back(std::move(info));
    if (requests_.size() > bodies_kept) std::string().swap(requests_[requests_.size() - bodies_kept - 1].body);
    if (requests_.size() > requests_kept) requests_.pop_front();
}

api_server::impl::answer api_server::impl::of_refusal(const api_status& status) {
    answer a;
    a.status = status.code;
    a.body = status_text(status);
    if (status.retry_after) a.headers.emplace_back("Retry-After", std::to_string(status.retry_after->count()));
    return a;
}

// ---- making answers

api_server::impl::answer api_server::impl::answer_to(const http::server_request& request, const route& r) {
    try {
        answer a;
        if (r.kind == route_kind::health || r.kind == route_kind::version) {
            const bool health = r.kind == route_kind::health;
            if (health) a.type = "text/plain; charset=utf-8";
            a.body = health ? "ok" : version_text();
            return a;
        }
        const auto who = authenticate(request, options_.tokens_);
        authorize(who, r);
        if (r.kind == route_kind::object) return answer_object(request, r);
        return answer_discovery(request, r);
    } catch (const refusal& no) {
        return of_refusal(no.status());
    } catch (const std::exception& e) {
        runtime_.log(log_level::error, std::string("embedded API server: ") + e.what());
        return of_refusal(refused(500, "InternalError", std::string("internal error: ") + e.what()).status());
    }
}

api_server::impl::answer api_server::impl::answer_discovery(const http::server_request& request, const route& r) const {
    const auto& types = api_->types();
    std::optional<std::string> body;
    const bool aggregated = options_.aggregated_discovery_ && accepts_aggregated(request.header("Accept"));
    answer a;
    switch (r.kind) {
    case route_kind::core:
        body = aggregated ? aggregated_text(types, true) : api_versions_text(server_address());
        break;
    case route_kind::groups: body = aggregated ? aggregated_text(types, false) : api_group_list_text(types); break;
    case route_kind::group: body = api_group_text(types, r.info.group); break;
    case route_kind::resources: body = api_resource_list_text(types, r.info.group, r.info.version); break;
    default: break;
    }
    if (aggregated && (r.kind == route_kind::core || r.kind == route_kind::groups))
        a.type = std::string(aggregated_type);
    if (!body) {
        a.status = 404;
        a.type = "text/plain; charset=utf-8";
        body = "404 page not found\n";
    }
    a.body = std::move(*body);
    return a;
}

api_server::impl::answer api_server::impl::answer_object(const http::server_request& request, const route& r) {
    if (is_review(r.info)) return answer_review(request, r.info);
    answer a;
    target t;
    t.type = api_->types().find(r.info.group, r.info.version, r.info.resource);
    const auto& verb = r.info.verb;
    const bool wants_namespace = t.type && t.type->api.namespaced && r.info.name_space.empty();
    const bool misplaced = t.type && !t.type->api.namespaced && !r.info.name_space.empty();
    const bool lacks_namespace = wants_namespace && t.type->custom && verb != "list" && verb != "watch";
    if (!t.type || misplaced || lacks_namespace) {
        // A built-in group answers with a Status. The group of a definition comes and goes; when it is gone, its paths
        // are unknown pages.
        if (api_->types().has_built_in(r.info.group, r.info.version)) {
            throw refused(404, "NotFound", "the server could not find the requested resource");
        }
        a.status = 404;
        a.type = "text/plain; charset=utf-8";
        a.body = "404 page not found\n";
        return a;
    }
    const auto form = form_of(request.header("Accept"));
    if (!form) {
        throw refused(406, "NotAcceptable", "only the following media types are accepted: application/json");
    }
    t.name_space = r.info.name_space;
    t.name = r.info.name;
    t.subresource = r.info.subresource;
    if (verb == "list") {
        a.list = api_->list(*t.type, t.name_space, request.query, *form);
        return a;
    }
    if (verb == "watch") {
        a.watch = api_->watch(t.type, t.name_space, request.query, *form);
        return a;
    }
    if (t.subresource == "token" && t.type->is_service_account() && verb == "create") return request_token(request, t);
    const bool known_part = t.subresource.empty() || (t.subresource == "status" && t.type->status) ||
                            (t.subresource == "scale" && t.type->scale) ||
                            (t.subresource == "finalize" && t.type->is_namespace());
    if (!known_part) throw refused(404, "NotFound", "the server could not find the requested resource");
    const bool wants_name = t.name.empty() && (verb == "update" || verb == "patch");
    if (verb == "other" || wants_name || (verb == "create" && !t.name.empty()) ||
        (verb == "delete" && !t.subresource.empty()) || wants_namespace ||
        (verb == "deletecollection" && t.type->is_namespace()) || (t.subresource == "finalize" && verb != "update")) {
        throw refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
    }
    if (verb != "get") return answer_write(request, r, t, *form);
    const auto o = api_->get(t, request.query);
    a.body = t.subresource == "scale" ? api_->scale_text(*t.type, *o) : api_->text(*t.type, *o, *form);
    return a;
}

api_server::impl::answer api_server::impl::answer_write(const http::server_request& request, const route& r,
                                                        const target& t, answer_form form) {
    answer a;
    write_by by;
    const auto& verb = r.info.verb;
    if (verb == "create" || verb == "update" || verb == "patch") { // a deletion has no field manager
        const char* options = verb == "create" ? "CreateOptions" : verb == "update" ? "UpdateOptions" : "PatchOptions";
        by.manager = manager_of(request, options);
        by.dry_run = runs_dry(dry_run_of(request.query), options);
    }
    if (request.body.size() > options_.max_body_) {
        throw refused(413, "RequestEntityTooLarge",
                      "Request entity too large: limit is " + std::to_string(options_.max_body_));
    }
    stored o;
    if (verb == "create" || verb == "update") {
        check_body_type(request.header("Content-Type"));
        auto body = parse_body(request.body);
        bool created = verb == "create";
        o = created ? api_->create(t, std::move(body), by) : api_->put(t, std::move(body), by, created);
        if (created) a.status = 201;
    } else if (verb == "patch") {
        const auto type = request.header("Content-Type");
        const bool apply = type.substr(0, type.find(';')) == "application/apply-patch+yaml";
        check_patch_options(apply, request.query_value("fieldManager"), has_parameter(request.query, "force"));
        by.force = truth(request.query, "force");
        bool created = false;
        o = apply ? api_->apply(t, request.body, by, created) : api_->patch(t, type, request.body, by);
        if (created) a.status = 201;
    } else {
        if (!request.body.empty()) check_body_type(request.header("Content-Type"));
        const auto options = delete_options_of(request.body, request.query);
        const auto* dry_run = options.if_contains("dryRun");
        by.dry_run = dry_run != nullptr && runs_dry(dry_run->get_array(), "DeleteOptions");
        if (verb == "deletecollection") {
            auto gone = api_->remove_collection(t.type, t.name_space, request.query, options, by);
            json::object metadata;
            metadata["resourceVersion"] = std::to_string(api_->store().current());
            auto list = empty_list(*t.type, metadata, form);
            list.items = std::move(gone);
            a.list = std::move(list);
            return a;
        }
        bool gone = false;
        o = api_->remove(t, options, by, gone);
        if (gone && !t.type->returns_deleted) {
            a.body = success_text(*t.type, *o);
            return a;
        }
    }
    a.body = t.subresource == "scale" ? api_->scale_text(*t.type, *o) : api_->text(*t.type, *o, form);
    return a;
}

api_server::impl::answer api_server::impl::answer_review(const http::server_request& request,
                                                         const request_info& what) const {
    if (what.verb != "create" || !what.name.empty())
        throw refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
    answer a;
    a.status = 201;
    a.body = json::serialize(
        reviews_.answer(*api_, options_.tokens_, what, parse_body(request.body), runtime_.clock().wall()));
    return a;
}

api_server::impl::answer api_server::impl::request_token(const http::server_request& request, const target& account) {
    answer a;
    a.status = 201;
    a.body = json::serialize(
        reviews_.request_token(*api_, account, parse_body(request.body), api_->new_token(), runtime_.clock().wall()));
    return a;
}

// ---- sending answers

asio::awaitable<void> api_server::impl::handle(std::shared_ptr<impl> self, request_ptr request, response_ptr response) {
    auto r = route_of(request->method, request->path, request->query);
    r.info.target = request->target;
    if (request->body.size() <= largest_body_kept) r.info.body = request->body;
    r.info.number = ++self->request_count_;
    self->note(r.info);
    auto trouble = self->faults_.take(r.info);
    if (trouble.delay.count() > 0) {
        const bool slept = co_await self->runtime_.clock().sleep_for(trouble.delay);
        if (!slept) co_return; // the server stops: it does not begin this request any more
    }
    if (trouble.what) {
        auto f = std::make_shared<fault>(*trouble.what);
        const bool answered = co_await play_fault(self, f, r.info, response);
        if (answered) co_return;
    }
    auto a = self->answer_to(*request, r);
    if (self->runtime_.logs(log_level::debug)) {
        self->runtime_.log(log_level::debug, request->method + " " + request->target + " " + std::to_string(a.status));
    }
    auto out = std::make_shared<outgoing>(response, std::move(trouble.what));
    if (a.list) {
        co_await send_list(out, std::move(*a.list));
    } else if (a.watch) {
        co_await send_watch(self, out, std::move(*a.watch));
    } else {
        co_await outgoing::send(out, a.status, std::move(a.type), std::move(a.body), std::move(a.headers));
    }
}

// Plays a fault that is an answer by itself; returns false when the request is to be answered as usual.
asio::awaitable<bool> api_server::impl::play_fault(std::shared_ptr<impl> self, std::shared_ptr<fault> f,
                                                   request_info info, response_ptr response) {
    using kind = fault::kind;
    const bool watch = info.verb == "watch";
    api_status status;
    status.code = f->what == kind::gone ? 410 : f->code;
    status.reason = reason_of(status.code);
    status.message = f->text.empty() ? "a fault was injected into this server" : f->text;
    if (f->retry_after >= 0) status.retry_after = std::chrono::seconds(f->retry_after);
    if (self->runtime_.logs(log_level::debug)) {
        self->runtime_.log(log_level::debug, info.method + " " + info.target + " meets a fault");
    }
    switch (f->what) {
    case kind::refuse: response->reset(); co_return true;
    case kind::stall_after:
        if (f->bytes > 0) co_return false;
        co_await response->wait_gone();
        co_return true;
    case kind::garbage:
        co_await response->write_raw(std::move(f->text));
        response->close();
        co_return true;
    case kind::garbage_body:
        if (watch) co_return false;
        co_await response->send(200, "application/json", std::move(f->text));
        co_return true;
    case kind::gone:
    case kind::error_event:
        if (watch) {
            std::string event = error_event(status);
            co_await response->begin(200, "application/json");
            co_await response->write(std::move(event));
            co_await response->end(); // if the peer is gone, each of the three returns false and does nothing
            co_return true;
        }
        break;
    case kind::status:
    case kind::plain_status: break;
    default: co_return false;
    }
    auto a = of_refusal(status);
    if (f->what == kind::plain_status) {
        a.type = "text/plain; charset=utf-8";
        a.body = status.message + "\n";
    }
    co_await response->send(a.status, std::move(a.type), std::move(a.body), std::move(a.headers));
    co_return true;
}

asio::awaitable<void> api_server::impl::send_list(std::shared_ptr<outgoing> out, list_answer list) {
    const bool stream = size_of(list) > piece_size;
    if (stream) {
        const bool begun = co_await outgoing::begin(out, 200, "application/json");
        if (!begun) co_return;
    }
    std::string piece = std::move(list.head);
    for (std::size_t i = 0; i < list.items.size(); ++i) {
        if (i != 0) piece += ',';
        piece += list.item_head;
        piece += list.text_of(*list.items[i]);
        if (stream && piece.size() >= piece_size) {
            const bool more = co_await outgoing::emit(out, std::move(piece));
            if (!more) co_return;
            piece.clear();
        }
    }
    piece += list.tail;
    if (stream) {
        const bool more = co_await outgoing::emit(out, std::move(piece));
        if (more) co_await outgoing::end(out);
        co_return;
    }
    header_list headers;
    co_await outgoing::send(out, 200, "application/json", std::move(piece), std::move(headers));
}

asio::awaitable<void> api_server::impl::send_watch(std::shared_ptr<impl> self, std::shared_ptr<outgoing> out,
                                                   watch_plan plan) {
    auto session = std::make_shared<watch_session>(self->runtime_, std::move(plan), self->options_.bookmark_every_,
                                                   self->options_.default_watch_timeout_);
    struct registration { // is undone however the watch ends
        registration(std::shared_ptr<impl> i, std::shared_ptr<watch_session> s, response_ptr r)
            : in(std::move(i)), session(std::move(s)), response(std::move(r)) {
            in->watches_.insert(session);
            in->streams_.insert(response);
        }
        registration(const registration&) = delete;
        registration& operator=(const registration&) = delete;
        ~registration() {
            in->watches_.erase(session);
            in->streams_.erase(response);
        }
        std::shared_ptr<impl> in;
        std::shared_ptr<watch_session> session;
        response_ptr response;
    };
    const registration open(self, session, out->response());
    co_await watch_session::run(session, out, self->api_);
}

} // namespace informer::testing
