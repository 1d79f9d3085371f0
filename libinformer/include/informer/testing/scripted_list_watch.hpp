// A list_watch whose answers a test writes.
#pragma once

#include <informer/runtime.hpp>
#include <informer/source/list_watch.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace informer::testing {

/// One watch as the test plays it: each call adds a step, before or while the watch is under way; without steps the
/// stream is silent. Objects are JSON texts and are decoded as by a real source: those without a name are quarantined,
/// and a full pool ends the request.
class watch_script {
public:
    explicit watch_script(asio::any_io_executor executor);
    ~watch_script();
    watch_script(const watch_script&) = delete;
    watch_script& operator=(const watch_script&) = delete;

    watch_script& open(); ///< the server answered 200; implied by the first event or bookmark
    watch_script& added(std::string json);
    watch_script& modified(std::string json);
    watch_script& deleted(std::string json);
    watch_script& bookmark(std::string version, bool initial_events_end = false);
    /// The steps between the two are one change, as in `object_sink`.
    watch_script& begin_change();
    watch_script& end_change();
    watch_script& bytes(std::size_t n); ///< traffic that is no event yet
    watch_script& fail(failure f);      ///< an ERROR event, a cut connection; before `open()` a refusal
    watch_script& end();                ///< a clean end
    /// The following steps come only when `release()` is called.
    watch_script& hold();
    void release();

    bool taken() const noexcept;          ///< a watch plays this script
    bool finished() const noexcept;       ///< its watch has returned
    std::size_t pending() const noexcept; ///< steps not played yet

private:
    friend class scripted_list_watch;
    struct state;
    std::shared_ptr<state> state_;
};

/// The answer to one list call.
class list_script {
public:
    list_script() {}
    // clang-format off
    list_script& item(std::string json) { items_.push_back(std::move(json)); return *this; }
    list_script& items(std::vector<std::string> texts) { items_ = std::move(texts); return *this; }
    list_script& version(std::string v) { version_ = std::move(v); return *this; }
    list_script& continue_token(std::string t) { continue_ = std::move(t); return *this; }
    /// Fails after the items; nothing else counts then.
    list_script& fail(failure f) { failure_ = std::move(f); return *this; }
    /// Nothing comes after the items.
    list_script& hang(bool on = true) { hang_ = on; return *this; }
    /// Awaits `sink.ready()` every so many items, as a real source does after each slice of input.
    list_script& slice(std::size_t items) { slice_ = items; return *this; }
    // clang-format on

    std::vector<std::string> items_;
    std::string version_, continue_;
    failure failure_;
    bool hang_ = false;
    std::size_t slice_ = 100;
};

/// Plays scripts in the order in which they were added, separately for lists and watches; a call without a script waits
/// for one. Records the options of each call.
///
/// *Thread safety*: none. *Executor*: the one given. *Lifetime*: share it with the informer.
class scripted_list_watch final : public list_watch {
public:
    explicit scripted_list_watch(asio::any_io_executor executor,
                                 api_resource resource = api_resource("", "v1", "pods", "Pod"));
    ~scripted_list_watch() override;

    /// The next list call gets this answer.
    void on_list(list_script answer);
    /// The next watch call plays the returned script.
    std::shared_ptr<watch_script> on_watch();
    /// The next watch call fails at once, as if the server refused it.
    void on_watch_fail(failure f);

    class call {
    public:
        call() {}
        bool watch = false;
        list_options list;
        watch_options query;
    };
    const std::vector<call>& calls() const noexcept { return calls_; }
    std::size_t lists() const noexcept;
    std::size_t watches() const noexcept;
    /// Calls that have not returned yet.
    std::size_t under_way() const noexcept { return under_way_; }
    std::size_t cancelled() const noexcept { return cancelled_; }

    const api_resource& resource() const override { return resource_; }
    std::string describe() const override { return resource_.group_resource(); }
    asio::awaitable<list_result> list(list_options options, object_sink& sink, failure& f) override;
    asio::awaitable<void> watch(watch_options options, object_sink& sink, failure& f) override;

private:
    struct state;
    failure cancelled_call(const std::string& what);
    asio::any_io_executor executor_;
    api_resource resource_;
    std::vector<call> calls_;
    std::size_t under_way_ = 0, cancelled_ = 0;
    std::unique_ptr<state> state_;
};

} // namespace informer::testing
