#include <informer/testing/scripted_list_watch.hpp>

#include <informer/detail/async.hpp>
#include <informer/object/framer.hpp>

#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <deque>
#include <list>
#include <utility>

namespace informer::testing {

namespace {

struct step {
    enum class kind { open, event, bookmark, begin_change, end_change, bytes, fail, end, hold };
    explicit step(kind k) : what(k) {}
    kind what;
    watch_event_type type = watch_event_type::added;
    std::string text; // JSON of an object, or version of a bookmark
    bool initial_events_end = false;
    std::size_t size = 0;
    failure why;
};

/// Counts a call while it runs, however it ends.
class running {
public:
    explicit running(std::size_t& count) : count_(count) { ++count_; }
    ~running() { --count_; }
    running(const running&) = delete;
    running& operator=(const running&) = delete;

private:
    std::size_t& count_;
};

/// Any number of waiting callers.
class waiting_room {
public:
    explicit waiting_room(asio::any_io_executor executor) : executor_(std::move(executor)) {}
    /// Wakes all of them.
    void notify() {
        for (detail::async_event* one : waiting_) one->notify();
    }
    /// False when cancelled.
    asio::awaitable<bool> wait() {
        detail::async_event called(executor_);
        const place here(waiting_, called);
        const bool notified = co_await called.wait();
        co_return notified;
    }

private:
    class place {
    public:
        place(std::list<detail::async_event*>& in, detail::async_event& e) : in_(in), at_(in.insert(in.end(), &e)) {}
        place(const place&) = delete;
        place& operator=(const place&) = delete;
        ~place() { in_.erase(at_); }

    private:
        std::list<detail::async_event*>& in_;
        std::list<detail::async_event*>::iterator at_;
    };

    asio::any_io_executor executor_;
    std::list<detail::async_event*> waiting_;
};

/// Decodes one object. Returns an empty object if it is quarantined, or if the pool is full: then `fatal` is set, since
/// decoding other objects would fail, too.
object decode(object_sink& sink, const std::string& text, bad_object about, failure& fatal) {
    about.key = peek_key(text);
    const object previous = sink.previous(about.key, about.position);
    object o = sink.pool().decode(text, previous, about.why);
    if (about.why == errc::pool_full) {
        fatal = std::move(about.why);
        return {};
    }
    if (!about.why && !o.has_name()) {
        about.resource_version = o.resource_version();
        about.why = failure(errc::no_metadata, "decode object " + std::to_string(about.position));
    }
    if (!about.why) return o;
    about.uid = peek_uid(text);
    sink.quarantine(std::move(about));
    return {};
}

} // namespace

struct watch_script::state {
    explicit state(asio::any_io_executor executor) : changed(std::move(executor)) {}
    std::deque<step> steps;
    detail::async_event changed;
    bool taken = false, finished = false;

    void add(step s) {
        steps.push_back(std::move(s));
        changed.notify();
    }
};

watch_script::watch_script(asio::any_io_executor executor) : state_(std::make_shared<state>(std::move(executor))) {}
watch_script::~watch_script() = default;

namespace {

step event_step(watch_event_type type, std::string json) {
    step s(step::kind::event);
    s.type = type;
    s.text = std::move(json);
    return s;
}

} // namespace

watch_script& watch_script::open() {
    state_->add(step(step::kind::open));
    return *this;
}

watch_script& watch_script::added(std::string json) {
    state_->add(event_step(watch_event_type::added, std::move(json)));
    return *this;
}

watch_script& watch_script::modified(std::string json) {
    state_->add(event_step(watch_event_type::modified, std::move(json)));
    return *this;
}

watch_script& watch_script::deleted(std::string json) {
    state_->add(event_step(watch_event_type::deleted, std::move(json)));
    return *this;
}

watch_script& watch_script::bookmark(std::string version, bool initial_events_end) {
    step s(step::kind::bookmark);
    s.text = std::move(version);
    s.initial_events_end = initial_events_end;
    state_->add(std::move(s));
    return *this;
}

watch_script& watch_script::begin_change() {
    state_->add(step(step::kind::begin_change));
    return *this;
}

watch_script& watch_script::end_change() {
    state_->add(step(step::kind::end_change));
    return *this;
}

watch_script& watch_script::bytes(std::size_t n) {
    step s(step::kind::bytes);
    s.size = n;
    state_->add(std::move(s));
    return *this;
}

watch_script& watch_script::fail(failure f) {
    step s(step::kind::fail);
    s.why = std::move(f);
    state_->add(std::move(s));
    return *this;
}

watch_script& watch_script::end() {
    state_->add(step(step::kind::end));
    return *this;
}

watch_script& watch_script::hold() {
    state_->add(step(step::kind::hold));
    return *this;
}

void watch_script::release() {
    auto& steps = state_->steps;
    const auto at = std::find_if(steps.begin(), steps.end(), [](const step& s) { return s.what == step::kind::hold; });
    if (at != steps.end()) steps.erase(at);
    state_->changed.notify();
}

bool watch_script::taken() const noexcept {
    return state_->taken;
}
bool watch_script::finished() const noexcept {
    return state_->finished;
}
std::size_t watch_script::pending() const noexcept {
    return state_->steps.size();
}

struct scripted_list_watch::state {
    explicit state(const asio::any_io_executor& executor) : more_lists(executor), more_watches(executor) {}
    std::deque<list_script> lists;
    std::deque<std::shared_ptr<watch_script::state>> watches;
    waiting_room more_lists, more_watches;
};

scripted_list_watch::scripted_list_watch(asio::any_io_executor executor, api_resource resource)
    : executor_(executor), resource_(std::move(resource)), state_(std::make_unique<state>(executor)) {}

scripted_list_watch::~scripted_list_watch() = default;

void scripted_list_watch::on_list(list_script answer) {
    state_->lists.push_back(std::move(answer));
    state_->more_lists.notify();
}

std::shared_ptr<watch_script> scripted_list_watch::on_watch() {
    auto script = std::make_shared<watch_script>(executor_);
    state_->watches.push_back(script->state_);
    state_->more_watches.notify();
    return script;
}

void scripted_list_watch::on_watch_fail(failure f) {
    on_watch()->fail(std::move(f));
}

std::size_t scripted_list_watch::lists() const noexcept {
    return static_cast<std::size_t>(
        std::count_if(calls_.begin(), calls_.end(), [](const call& c) { return !c.watch; }));
}

std::size_t scripted_list_watch::watches() const noexcept {
    return calls_.size() - lists();
}

failure scripted_list_watch::cancelled_call(const std::string& what) {
    ++cancelled_;
    return failure(errc::cancelled, what + " " + describe());
}

asio::awaitable<list_result> scripted_list_watch::list(list_options options, object_sink& sink, failure& f) {
    const running counted(under_way_);
    call c;
    c.list = std::move(options);
    calls_.push_back(std::move(c));
    list_result result;
    while (state_->lists.empty()) {
        const bool more = co_await state_->more_lists.wait();
        if (!more) {
            f = cancelled_call("list");
            co_return result;
        }
    }
    list_script script = std::move(state_->lists.front());
    state_->lists.pop_front();
    if (!script.failure_ || !script.items_.empty()) sink.opened();
    for (std::size_t i = 0; i < script.items_.size(); ++i) {
        const std::string text = std::move(script.items_[i]); // freeing all texts at the end would take long
        sink.received(text.size());
        bad_object about;
        about.position = i;
        about.from_list = true;
        object o = decode(sink, text, std::move(about), f);
        if (f) co_return result;
        if (o) {
            ++result.items;
            sink.item(std::move(o));
        }
        if ((i + 1) % std::max<std::size_t>(script.slice_, 1) != 0) continue;
        const bool go_on = co_await sink.ready();
        if (go_on) continue;
        const auto asked = co_await asio::this_coro::cancellation_state;
        if (asked.cancelled() != asio::cancellation_type::none) f = cancelled_call("list");
        co_return result;
    }
    if (script.hang_) {
        detail::async_event never(executor_);
        const bool woken = co_await never.wait();
        static_cast<void>(woken);
        f = cancelled_call("list");
        co_return result;
    }
    f = script.failure_;
    result.resource_version = informer::resource_version(script.version_);
    result.continue_token = script.continue_;
    co_return result;
}

asio::awaitable<void> scripted_list_watch::watch(watch_options options, object_sink& sink, failure& f) {
    const running counted(under_way_);
    call c;
    c.watch = true;
    c.query = std::move(options);
    calls_.push_back(std::move(c));
    while (state_->watches.empty()) {
        const bool more = co_await state_->more_watches.wait();
        if (!more) {
            f = cancelled_call("watch");
            co_return;
        }
    }
    const std::shared_ptr<watch_script::state> script = std::move(state_->watches.front());
    state_->watches.pop_front();
    script->taken = true;
    bool opened = false;
    std::size_t position = 0;
    for (;;) {
        while (script->steps.empty() || script->steps.front().what == step::kind::hold) {
            const bool more = co_await script->changed.wait();
            if (!more) {
                f = cancelled_call("watch");
                script->finished = true;
                co_return;
            }
        }
        const step s = std::move(script->steps.front());
        script->steps.pop_front();
        const bool speaks = s.what != step::kind::fail && s.what != step::kind::bytes;
        if (!opened && speaks) {
            opened = true;
            sink.opened();
        }
        if (s.what == step::kind::end || s.what == step::kind::fail) {
            f = s.why;
            script->finished = true;
            co_return;
        }
        if (s.what == step::kind::bytes) sink.received(s.size);
        if (s.what == step::kind::begin_change) sink.begin_change();
        if (s.what == step::kind::end_change) sink.end_change();
        if (s.what == step::kind::bookmark) {
            sink.received(s.text.size());
            sink.bookmark(informer::resource_version(s.text), s.initial_events_end);
        }
        if (s.what == step::kind::event) {
            sink.received(s.text.size());
            bad_object about;
            about.position = position++;
            about.type = s.type;
            object o = decode(sink, s.text, std::move(about), f);
            if (f) {
                script->finished = true;
                co_return;
            }
            if (o) sink.event(s.type, std::move(o));
        }
        const bool go_on = co_await sink.ready();
        if (!go_on) {
            const auto asked = co_await asio::this_coro::cancellation_state;
            if (asked.cancelled() != asio::cancellation_type::none) f = cancelled_call("watch");
            script->finished = true;
            co_return;
        }
    }
}

} // namespace informer::testing
