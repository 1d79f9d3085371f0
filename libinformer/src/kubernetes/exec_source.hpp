// Credentials from an exec plugin: when the plugin is run, and for which requests.
#pragma once

#include <informer/kubernetes/client.hpp>
#include <informer/kubernetes/config.hpp>
#include <informer/runtime.hpp>

#include "kubernetes/exec_credential.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace informer::kubernetes::detail {

class child_process;

/// Runs the plugin for the first request, and for the next one after its credential came near its end or was refused.
/// All requests of a client that need the plugin share one run. Ten seconds pass between the end of one run and the
/// next: a server that always answers 401, or a plugin that always fails, causes no more runs than that, however many
/// requests there are. Meanwhile a refused credential is sent again, and a failure is reported again.
///
/// A credential is renewed a minute before its end, or a fifth of its life if that is less: the plugin takes its time,
/// the clocks of the machines that check the end differ, and a request is under way for a while. Until the credential
/// ends, no request waits for the run, and a run that fails or hangs does no harm. A run ends with the client.
class exec_source {
public:
    exec_source(exec_plugin p, runtime r);
    ~exec_source();
    exec_source(const exec_source&) = delete;
    exec_source& operator=(const exec_source&) = delete;

    /// A credential can be sent at once. Otherwise call `look` first.
    bool ready() const { return !due() && usable(); }
    /// The value of the Authorization header; empty for none.
    const std::string& header() const noexcept { return header_; }
    /// Which credential that is.
    std::uint64_t generation() const noexcept { return generation_; }
    /// The server answered 401 to it.
    void refused(std::uint64_t generation) noexcept {
        if (generation == generation_) refused_ = true;
    }
    /// TLS failed: the reason may be the credential's certificate.
    void certificate_refused(std::uint64_t generation) noexcept {
        if (!certificate_.empty()) refused(generation);
    }

    /// Runs the plugin if that is due, and waits for the run unless there is a credential that can be sent meanwhile.
    /// *Errors*: exec_plugin_failed; cancelled, at once: the run goes on for others that still wait for it, and is
    /// killed if there are none; deadline_exceeded: the run goes on, and is killed if nobody waits for it within ten
    /// seconds.
    static asio::awaitable<void> look(std::shared_ptr<client::impl> owner, std::optional<clock::time_point> deadline,
                                      std::string doing, failure& f);

    static constexpr std::chrono::seconds pause = std::chrono::seconds(10), ahead = std::chrono::minutes(1);
    /// For a request without a deadline; its next attempt joins the run that is under way.
    static constexpr std::chrono::seconds longest_wait = std::chrono::seconds(25);

private:
    bool due() const;
    bool good() const; ///< neither refused nor at its end, as far as we know
    bool usable() const;
    std::shared_ptr<child_process> begin(const std::shared_ptr<client::impl>& owner);
    void adopt(child_process& run, client::impl& owner);
    void take(exec_credential fresh, client::impl& owner, std::string& why);
    void failed(std::string why);
    std::string unfit(const child_process& run) const;
    void count(const child_process& run) const;
    void count(int code, std::string_view status) const;

    runtime runtime_;
    exec_plugin plugin_;
    std::string name_;                       ///< for messages
    std::weak_ptr<child_process> under_way_; ///< kept by its own handlers, and by those who wait for it
    clock::time_point next_run_ = clock::time_point::min();
    failure failed_; ///< why the last run failed; empty: it did not
    bool complained_ = false;

    bool some_ = false; ///< there is a credential: the members below
    bool refused_ = false;
    std::string header_, certificate_, key_;
    std::optional<std::chrono::system_clock::time_point> expires_, renew_;
    std::uint64_t generation_ = 0;
};

} // namespace informer::kubernetes::detail
