// One request about Leases at a time. It runs beside the loop that asked for it, so the loop can do other things
// meanwhile and give the request up.
#pragma once

#include <informer/detail/async.hpp>
#include <informer/kubernetes/client.hpp>
#include <informer/task_group.hpp>

#include <boost/json/value.hpp>

#include <chrono>
#include <memory>
#include <string>

namespace informer::detail {

/// *Lifetime*: while a request is under way, `co_await abandon()` before the destruction.
class lease_call {
public:
    /// `wake` is notified when a request has ended. Each request is sent once: the holder of a Lease asks again in its
    /// own rhythm, and a Retry-After that the client waited for would cost the Lease and hide the reason. `at_most`:
    /// the time after which the owner abandons a request. Writes and `get` give up by themselves a little sooner: a
    /// cancelled request also ends the run of the exec plugin that it waits for, so a plugin that needs longer than
    /// that would be started and ended for ever.
    lease_call(asio::any_io_executor executor, const kubernetes::client& c, std::shared_ptr<async_event> wake,
               std::chrono::nanoseconds at_most);

    void get(object_key key);
    void create(boost::json::value lease);
    void update(boost::json::value lease);
    void list(std::string name_space, list_options options);
    void remove(object_key key, kubernetes::delete_options options);

    bool finished() const noexcept { return !answer_ || answer_->finished; }
    /// If the request has not ended, closes its connection and waits until it is gone.
    asio::awaitable<void> abandon();

    const failure& why() const noexcept { return answer_->why; }
    const object& lease() const noexcept { return answer_->lease; }
    const kubernetes::object_list& page() const noexcept { return answer_->page; }

private:
    struct answer {
        answer(kubernetes::client c, std::shared_ptr<async_event> w, std::chrono::milliseconds l)
            : client(std::move(c)), wake(std::move(w)), limit(l) {}
        kubernetes::client client;
        std::shared_ptr<async_event> wake;
        std::chrono::milliseconds limit;
        failure why;
        object lease;
        kubernetes::object_list page;
        bool finished = false;
        void end();
    };
    std::shared_ptr<answer> begin();

    static asio::awaitable<void> run_get(std::shared_ptr<answer> a, object_key key);
    static asio::awaitable<void> run_create(std::shared_ptr<answer> a, boost::json::value lease);
    static asio::awaitable<void> run_update(std::shared_ptr<answer> a, boost::json::value lease);
    static asio::awaitable<void> run_list(std::shared_ptr<answer> a, std::string name_space, list_options options);
    static asio::awaitable<void> run_remove(std::shared_ptr<answer> a, object_key key,
                                            kubernetes::delete_options options);

    asio::any_io_executor executor_;
    kubernetes::client client_;
    std::shared_ptr<async_event> wake_;
    std::chrono::milliseconds limit_;
    std::shared_ptr<answer> answer_;
    std::unique_ptr<task_group> group_;
};

} // namespace informer::detail
