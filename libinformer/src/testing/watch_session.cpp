#include "watch_session.hpp"

#include "refusal.hpp"

#include <algorithm>

namespace informer::testing::detail {

namespace {

// Bytes gathered into one chunk: large enough that the cost of system calls is small, small enough for a slow peer.
constexpr std::size_t piece_size = 64 * 1024;
// The real server sends a last bookmark this long before a watch times out, so that the next watch can start from a
// recent version.
constexpr std::chrono::seconds before_the_end(2);

} // namespace

watch_session::watch_session(runtime r, watch_plan plan, std::chrono::milliseconds bookmark_every,
                             std::chrono::milliseconds default_time_out)
    : runtime_(std::move(r)), plan_(std::move(plan)), wake_(runtime_.executor()),
      head_(plan_.partial ? std::string(partial_head) : plan_.type->head()),
      bookmark_every_(std::max(bookmark_every, std::chrono::milliseconds(1))), announced_(plan_.after) {
    const auto now = runtime_.clock().now();
    const auto time_out = plan_.time_out.count() > 0 ? plan_.time_out : default_time_out;
    deadline_ = informer::detail::later(now, time_out);
    next_bookmark_ = plan_.bookmarks ? informer::detail::later(now, bookmark_every_) : time_point::max();
    last_bookmark_due_ = plan_.bookmarks && time_out > before_the_end;
    last_bookmark_ = deadline_ - before_the_end;
}

void watch_session::bookmark() {
    bookmark_now_ = plan_.bookmarks;
    wake_.notify();
}

void watch_session::finish() {
    finishing_ = true;
    wake_.notify();
}

void watch_session::expire() {
    expiring_ = true;
    wake_.notify();
}

void watch_session::append(std::string& piece, std::string_view type, std::string_view text) const {
    piece += R"({"type":")";
    piece += type;
    piece += R"(","object":)";
    piece += head_;
    piece += text;
    piece += "}\n";
}

void watch_session::append_object(std::string& piece, std::string_view type, const std::string& text) const {
    if (plan_.partial)
        append(piece, type, partial_text(text));
    else
        append(piece, type, text);
}

// An object that enters the selection is ADDED for this watch, one that leaves it is DELETED.
void watch_session::append_change(std::string& piece, const change& c) {
    const bool was = c.before && plan_.chosen.matches(*c.before);
    const bool is = c.what != change::kind::removed && plan_.chosen.matches(*c.now);
    if (is) {
        append_object(piece, was ? "MODIFIED" : "ADDED", c.now->text);
    } else if (was) {
        append_object(piece, "DELETED", c.before->text_at_version(c.version));
    } else {
        return;
    }
    announced_ = c.version;
}

std::string watch_session::bookmark_event(std::uint64_t version, bool end_of_initial) const {
    std::string text = R"("metadata":{"resourceVersion":")" + std::to_string(version) + '"';
    if (end_of_initial) text += R"(,"annotations":{"k8s.io/initial-events-end":"true"})";
    text += "}}";
    std::string event;
    append(event, "BOOKMARK", text);
    return event;
}

void watch_session::append_bookmarks_due(std::string& piece, const rest_api& api) {
    const auto now = runtime_.clock().now();
    bool due = std::exchange(bookmark_now_, false);
    if (now >= next_bookmark_) {
        next_bookmark_ = informer::detail::later(now, bookmark_every_);
        due = true;
    }
    const auto current = api.store().current();
    if (last_bookmark_due_ && now >= last_bookmark_) {
        last_bookmark_due_ = false;
        due = due || announced_ < current;
    }
    // The version of a bookmark is never below the version that the peer asked for, which may lie in the future.
    if (!due || current < plan_.after) return;
    announced_ = current;
    piece += bookmark_event(current, false);
}

std::string watch_session::next_piece(const rest_api& api) {
    const table& t = *plan_.type->rows;
    std::string piece;
    if (expiring_) {
        over_ = true;
        return error_event(expired("The resource version is too old: the watch has been told to end.").status());
    }
    if (plan_.position < t.first) { // too slow: its next change has left the history
        over_ = true;
        return piece;
    }
    while (plan_.position < t.end() && piece.size() < piece_size) {
        const auto& c = t.at(plan_.position++);
        if (c.version > plan_.after) append_change(piece, c);
    }
    if (plan_.position < t.end()) return piece;
    append_bookmarks_due(piece, api);
    if (finishing_ || !served(api) || runtime_.clock().now() >= deadline_) over_ = true;
    return piece;
}

// A definition can be deleted, created again, or stop serving single versions.
bool watch_session::served(const rest_api& api) const {
    if (!plan_.type->custom) return true;
    const auto& r = plan_.type->api;
    const auto now = api.types().find(r.group, r.version, r.plural);
    return now && now->rows == plan_.type->rows;
}

watch_session::time_point watch_session::next_wake() const {
    auto when = std::min(deadline_, next_bookmark_);
    if (last_bookmark_due_) when = std::min(when, last_bookmark_);
    return when;
}

asio::awaitable<bool> watch_session::send_initial(std::shared_ptr<watch_session> self, std::shared_ptr<outgoing> out) {
    auto& plan = self->plan_;
    for (std::size_t i = 0; i < plan.initial.size();) {
        std::string piece;
        while (i < plan.initial.size() && piece.size() < piece_size)
            self->append_object(piece, "ADDED", plan.initial[i++]->text);
        const bool more = co_await outgoing::emit(out, std::move(piece));
        if (!more) co_return false;
    }
    plan.initial.clear();
    plan.initial.shrink_to_fit();
    if (plan.mark_end_of_initial) {
        auto event = self->bookmark_event(plan.initial_version, true);
        const bool more = co_await outgoing::emit(out, std::move(event));
        co_return more;
    }
    co_return true;
}

asio::awaitable<void> watch_session::run(std::shared_ptr<watch_session> self, std::shared_ptr<outgoing> out,
                                         std::shared_ptr<const rest_api> api) {
    const std::weak_ptr<watch_session> weak = self;
    std::function<void()> on_gone = [weak] {
        if (const auto s = weak.lock()) s->wake_.notify();
    };
    out->response()->on_gone(std::move(on_gone));
    const bool begun = co_await outgoing::begin(out, 200, "application/json");
    if (!begun) co_return;
    if (self->plan_.error) {
        auto event = error_event(*self->plan_.error);
        const bool sent = co_await outgoing::emit(out, std::move(event));
        if (sent) co_await outgoing::end(out);
        co_return;
    }
    const bool initial = co_await send_initial(self, out);
    if (!initial) co_return;
    while (!self->over_) {
        auto piece = self->next_piece(*api);
        if (!piece.empty()) {
            const bool more = co_await outgoing::emit(out, std::move(piece));
            if (!more) co_return;
            continue;
        }
        if (self->over_) break;
        if (out->response()->gone()) co_return;
        co_await self->wake_.wait_until(self->runtime_.clock(), self->next_wake());
    }
    co_await outgoing::end(out);
}

} // namespace informer::testing::detail
