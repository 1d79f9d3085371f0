#include "controller/lease_call.hpp"

#include "controller/lease_record.hpp"

#include <algorithm>
#include <utility>

namespace informer::detail {

lease_call::lease_call(asio::any_io_executor executor, const kubernetes::client& c, std::shared_ptr<async_event> wake,
                       std::chrono::nanoseconds at_most)
    : executor_(std::move(executor)), client_(c.without_retries()), wake_(std::move(wake)),
      limit_(std::max(std::chrono::duration_cast<std::chrono::milliseconds>(at_most - at_most / 8),
                      std::chrono::milliseconds(1))) {}

void lease_call::answer::end() {
    finished = true;
    wake->notify();
}

std::shared_ptr<lease_call::answer> lease_call::begin() {
    answer_ = std::make_shared<answer>(client_, wake_, limit_);
    group_ = std::make_unique<task_group>(executor_);
    return answer_;
}

asio::awaitable<void> lease_call::abandon() {
    if (!group_) co_return;
    if (!answer_->finished) {
        group_->stop();
        co_await group_->join();
    }
    const bool cut = !answer_->finished || answer_->why == errc::cancelled;
    if (cut) answer_->why = failure(errc::request_timeout, answer_->why ? answer_->why.message() : "lease request");
    answer_->finished = true;
}

asio::awaitable<void> lease_call::run_get(std::shared_ptr<answer> a, object_key key) {
    kubernetes::get_options in_time;
    in_time.time_limit(a->limit);
    a->lease = co_await a->client.get(leases(), std::move(key), in_time, a->why);
    a->end();
}

asio::awaitable<void> lease_call::run_create(std::shared_ptr<answer> a, boost::json::value lease) {
    kubernetes::write_options in_time;
    in_time.time_limit(a->limit);
    a->lease = co_await a->client.create(leases(), std::move(lease), in_time, a->why);
    a->end();
}

asio::awaitable<void> lease_call::run_update(std::shared_ptr<answer> a, boost::json::value lease) {
    kubernetes::write_options in_time;
    in_time.time_limit(a->limit);
    a->lease = co_await a->client.update(leases(), std::move(lease), in_time, a->why);
    a->end();
}

asio::awaitable<void> lease_call::run_list(std::shared_ptr<answer> a, std::string name_space, list_options options) {
    a->page = co_await a->client.list(leases(), std::move(name_space), std::move(options), a->why);
    a->end();
}

asio::awaitable<void> lease_call::run_remove(std::shared_ptr<answer> a, object_key key,
                                             kubernetes::delete_options options) {
    options.time_limit(a->limit);
    co_await a->client.remove(leases(), std::move(key), std::move(options), a->why);
    a->end();
}

void lease_call::get(object_key key) {
    const auto a = begin();
    group_->spawn(run_get(a, std::move(key)));
}

void lease_call::create(boost::json::value lease) {
    const auto a = begin();
    group_->spawn(run_create(a, std::move(lease)));
}

void lease_call::update(boost::json::value lease) {
    const auto a = begin();
    group_->spawn(run_update(a, std::move(lease)));
}

void lease_call::list(std::string name_space, list_options options) {
    const auto a = begin();
    group_->spawn(run_list(a, std::move(name_space), std::move(options)));
}

void lease_call::remove(object_key key, kubernetes::delete_options options) {
    const auto a = begin();
    group_->spawn(run_remove(a, std::move(key), std::move(options)));
}

} // namespace informer::detail
