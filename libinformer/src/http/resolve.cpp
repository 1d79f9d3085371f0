#include "http/resolve.hpp"

#include "root/parking.hpp"

#include <informer/detail/async.hpp>

#include <boost/asio/ip/address.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <netdb.h>
#include <sys/socket.h>

namespace informer::http::detail {

using asio::ip::tcp;
using informer::detail::waiter;
using informer::detail::waiter_ptr;

/// One call of getaddrinfo, and who waits for it. *Thread safety*: any thread.
class look_up {
public:
    struct outcome {
        std::vector<tcp::endpoint> addresses;
        std::string problem; ///< why there are none, if there is more to say than that
    };

    look_up(std::string host, std::uint16_t port) : host_(std::move(host)), port_(port) {}

    /// Makes room for one more; those who have left are forgotten.
    void expect() {
        const std::lock_guard lock(mutex_);
        if (waiting_.size() < waiting_.capacity()) return;
        std::erase_if(waiting_, [](const waiter_ptr& w) { return !informer::detail::is_waiting(w); });
        waiting_.reserve(2 * waiting_.size() + 1);
    }
    /// False if it has ended; else `w`, which was expected, will be woken when it does.
    bool join(const waiter_ptr& w) noexcept {
        const std::lock_guard lock(mutex_);
        if (!ended_) waiting_.push_back(w);
        return !ended_;
    }
    bool ended() const noexcept {
        const std::lock_guard lock(mutex_);
        return ended_;
    }
    /// Once it has ended; null if it was not begun, because nobody waited for it.
    const outcome* found() const noexcept { return begun_ ? &outcome_ : nullptr; }

    /// Blocks as long as the system's resolver does.
    void run() noexcept {
        {
            const std::lock_guard lock(mutex_);
            begun_ = std::any_of(waiting_.begin(), waiting_.end(), informer::detail::is_waiting);
            ended_ = !begun_;
        }
        if (!begun_) return;
        try {
            end(ask());
        } catch (const std::exception& e) {
            fail(e);
        }
    }
    void fail(const std::exception& why) noexcept {
        begun_ = true;
        outcome o;
        try {
            o.problem = why.what();
        } catch (...) {
            o.problem = "no memory"; // needs none
        }
        end(std::move(o));
    }

private:
    outcome ask() const {
        addrinfo wanted{};
        wanted.ai_family = AF_UNSPEC;
        wanted.ai_socktype = SOCK_STREAM;
        addrinfo* all = nullptr;
        const int bad = ::getaddrinfo(host_.c_str(), nullptr, &wanted, &all);
        const int why = errno;
        const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> freed(all, &::freeaddrinfo);
        outcome o;
        if (bad != 0) {
            o.problem = bad == EAI_SYSTEM ? std::generic_category().message(why) : ::gai_strerror(bad);
            return o;
        }
        for (const addrinfo* a = all; a; a = a->ai_next) {
            tcp::endpoint to;
            if ((a->ai_family != AF_INET && a->ai_family != AF_INET6) || a->ai_addrlen > to.capacity()) continue;
            to.resize(a->ai_addrlen);
            std::memcpy(to.data(), a->ai_addr, a->ai_addrlen);
            to.port(port_);
            o.addresses.push_back(to);
        }
        return o;
    }
    void end(outcome o) noexcept {
        std::vector<waiter_ptr> all;
        {
            const std::lock_guard lock(mutex_);
            outcome_ = std::move(o);
            ended_ = true;
            all.swap(waiting_);
        }
        informer::detail::wake_soon([&all] { informer::detail::wake_all(all); });
    }

    const std::string host_;
    const std::uint16_t port_;
    mutable std::mutex mutex_;
    std::vector<waiter_ptr> waiting_;
    outcome outcome_;
    bool begun_ = false; ///< written by its thread before it ends, read by others after that
    bool ended_ = false;
};

namespace {

/// New threads inherit that no signal is theirs: a host program that handles signals expects them on its own threads.
class no_signals {
public:
    no_signals() noexcept {
        sigset_t all;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    no_signals(const no_signals&) = delete;
    no_signals& operator=(const no_signals&) = delete;
    ~no_signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
    sigset_t before_;
};

/// The threads of the process on which names are looked up. A thread ends when there is nothing to look up.
///
/// Of one thread, as Asio has it for an io_context, the first name that does not answer makes a queue: the look-ups of
/// healthy clusters would outlast their time in it.
class look_up_threads {
public:
    /// Never destroyed: a thread that the resolver does not let go may outlive main().
    static look_up_threads& of_process() {
        static auto* const all = new look_up_threads;
        return *all;
    }
    /// If no thread can be made, and none is there, the look-up fails.
    void begin(const std::shared_ptr<look_up>& l) noexcept {
        try {
            const std::lock_guard lock(mutex_);
            line_.push_back(l);
            if (running_ < most_look_ups) add_thread();
            return;
        } catch (const std::exception& e) {
            l->fail(e);
        }
    }

private:
    void add_thread() { // under the mutex
        try {
            const no_signals masked;
            std::thread([this] { work(); }).detach();
            ++running_;
        } catch (...) {
            if (running_ > 0) return; // its turn comes later
            line_.pop_back();
            throw;
        }
    }
    void work() noexcept {
        while (const auto l = next()) l->run();
    }
    std::shared_ptr<look_up> next() noexcept {
        const std::lock_guard lock(mutex_);
        if (line_.empty()) {
            --running_;
            return nullptr;
        }
        const auto l = std::move(line_.front());
        line_.pop_front();
        return l;
    }

    std::mutex mutex_;
    std::deque<std::shared_ptr<look_up>> line_;
    std::size_t running_ = 0;
};

/// Parks a coroutine until its look-up ends or its time is over.
class parker {
public:
    parker(std::shared_ptr<look_up> l, bool is_new, std::shared_ptr<std::weak_ptr<waiter>> here)
        : look_up_(std::move(l)), new_(is_new), here_(std::move(here)) {}
    void operator()(const waiter_ptr& w) const noexcept {
        *here_ = w;
        if (!look_up_->join(w)) informer::detail::wake_soon([&w] { informer::detail::wake(w); });
        if (new_) look_up_threads::of_process().begin(look_up_); // not before somebody waits for it
    }

private:
    std::shared_ptr<look_up> look_up_;
    bool new_;
    std::shared_ptr<std::weak_ptr<waiter>> here_;
};

} // namespace

asio::awaitable<std::vector<tcp::endpoint>> resolve(endpoint to, std::shared_ptr<name_desk> names,
                                                    std::chrono::milliseconds limit, std::shared_ptr<phase_timer> timer,
                                                    failure& f) {
    std::vector<tcp::endpoint> addresses;
    error_code not_literal;
    const auto literal = asio::ip::make_address(to.host, not_literal);
    if (!not_literal) {
        addresses.emplace_back(literal, to.port);
        co_return addresses;
    }
    if (to.host == "localhost") { // RFC 6761, 6.3: needs no look-up; a bare chroot has no /etc/hosts
        addresses.emplace_back(asio::ip::address_v4::loopback(), to.port);
        addresses.emplace_back(asio::ip::address_v6::loopback(), to.port);
        co_return addresses;
    }
    const auto here = std::make_shared<std::weak_ptr<waiter>>();
    timer->on_late([here] { informer::detail::wake(here->lock()); });
    timer->begin(limit, errc::resolve_timeout);
    const std::string doing = "resolve " + to.host;
    std::shared_ptr<look_up> l;
    const look_up::outcome* found = nullptr;
    bool cancelled = false;
    while (!found && !cancelled && !timer->late()) {
        l = names->under_way.lock();
        const bool is_new = !l || l->ended();
        if (is_new) names->under_way = l = std::make_shared<look_up>(to.host, to.port);
        l->expect();
        const parker park(l, is_new, here);
        co_await informer::detail::wait_parked(park);
        if (l->ended()) found = l->found();
        cancelled = co_await informer::detail::cancelled();
    }
    timer->end();
    if (cancelled) {
        f = failure(errc::cancelled, doing);
    } else if (timer->late()) {
        f = failure(*timer->late(), doing); // the next attempt may find it still under way
    } else if (found->addresses.empty()) {
        f = failure(errc::resolve_failed,
                    doing + " (" + (found->problem.empty() ? "no address" : found->problem) + ")");
    } else {
        addresses = found->addresses;
    }
    co_return addresses;
}

} // namespace informer::http::detail
