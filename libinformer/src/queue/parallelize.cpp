#include <informer/queue/parallelize.hpp>

#include <informer/detail/async.hpp>
#include <informer/error.hpp>
#include <informer/task_group.hpp>

#include "root/quietly.hpp"

#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

namespace informer {

namespace {

struct parallel_work {
    parallel_work(const asio::any_io_executor& e, std::size_t n, std::function<asio::awaitable<void>(std::size_t)> w)
        : over(e), pieces(n), work(std::move(w)) {}

    detail::async_event over; ///< a worker ended
    std::size_t pieces, next = 0, finished = 0, workers = 0;
    bool stopped = false;
    std::exception_ptr failed;
    std::function<asio::awaitable<void>(std::size_t)> work;
};

asio::awaitable<void> work_off(std::shared_ptr<parallel_work> p) {
    try {
        while (!p->stopped && p->next < p->pieces) {
            asio::awaitable<void> piece = p->work(p->next++);
            co_await std::move(piece);
            ++p->finished;
        }
    } catch (...) {
        p->stopped = true;
        if (!p->failed) p->failed = std::current_exception();
    }
    --p->workers;
    p->over.notify();
}

asio::awaitable<void> share_out(std::size_t workers, std::size_t pieces,
                                std::function<asio::awaitable<void>(std::size_t)> work) {
    const auto executor = co_await asio::this_coro::executor;
    const auto p = std::make_shared<parallel_work>(executor, pieces, std::move(work));
    // Whatever happens, the workers are joined before this returns: they may use what the caller owns.
    task_group group(executor);
    group.on_error([p](std::exception_ptr e) { // a worker could not begin
        p->stopped = true;
        if (!p->failed) p->failed = std::move(e);
        --p->workers;
        p->over.notify();
    });
    p->workers = std::min(std::max<std::size_t>(workers, 1), pieces);
    for (std::size_t n = p->workers; n-- > 0;) group.spawn(work_off(p));
    bool cancelled = false;
    while (p->workers != 0 && !cancelled) cancelled = !co_await p->over.wait();
    const bool all = p->finished == p->pieces; // before pieces are cut short
    p->stopped = true;
    group.stop();
    co_await group.join();
    if (all) co_return;
    if (cancelled || !p->failed) throw error(errc::cancelled, "parallel work");
    std::rethrow_exception(p->failed);
}

} // namespace

asio::awaitable<void> parallelize(std::size_t workers, std::size_t pieces,
                                  std::function<asio::awaitable<void>(std::size_t)> work) {
    if (!work) throw error(errc::bad_configuration, "parallel work: none is given");
    return detail::quietly(share_out(workers, pieces, std::move(work)));
}

} // namespace informer
