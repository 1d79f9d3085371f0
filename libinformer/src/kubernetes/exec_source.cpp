#include "kubernetes/exec_source.hpp"

#include "kubernetes/child_process.hpp"
#include "kubernetes/client_impl.hpp"
#include "kubernetes/exec_lines.hpp"
#include "kubernetes/kubeconfig.hpp"
#include "root/ascii.hpp"
#include "root/in_seconds.hpp"
#include "root/one_line.hpp"

#include <informer/detail/async.hpp>
#include <informer/object/rfc3339.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace informer::kubernetes::detail {

namespace {

/// Searches $PATH as exec does, but never in the current folder. Empty: not found.
std::string on_path(const std::string& command) {
    if (command.find('/') != std::string::npos) return command;
    const char* variable = std::getenv("PATH"); // NOLINT(concurrency-mt-unsafe) as every exec does
    const std::string path = variable ? variable : "";
    for (std::size_t at = 0; at <= path.size();) {
        const std::size_t end = std::min(path.find(':', at), path.size());
        const std::string folder = path.substr(at, end - at), file = folder + "/" + command;
        at = end + 1;
        if (!folder.starts_with('/')) continue; // an empty entry must not become the root folder
        std::error_code ec;
        if (std::filesystem::is_regular_file(file, ec) && ::access(file.c_str(), X_OK) == 0) return file;
    }
    return {};
}

} // namespace

exec_source::exec_source(exec_plugin p, runtime r)
    : runtime_(std::move(r)), plugin_(std::move(p)), name_("exec plugin " + in_quotes(plugin_.command)) {}

bool exec_source::due() const {
    auto& clock = runtime_.clock();
    if (clock.now() < next_run_) return false;
    return !some_ || failed_ || refused_ || (renew_ && clock.wall() >= *renew_);
}

exec_source::~exec_source() {
    if (const auto run = under_way_.lock()) run->abandon();
}

bool exec_source::good() const {
    return some_ && !refused_ && !(expires_ && runtime_.clock().wall() >= *expires_);
}

/// A credential that has expired or was refused is still sent if the last run gave nothing better: the server decides.
/// After a failed run it is not sent.
bool exec_source::usable() const {
    return some_ && (!failed_ || good());
}

asio::awaitable<void> exec_source::look(std::shared_ptr<client::impl> owner, std::optional<clock::time_point> deadline,
                                        std::string doing, failure& f) {
    exec_source& self = *owner->exec;
    f = failure();
    if (const auto last = self.under_way_.lock(); last && last->ended())
        self.adopt(*last, *owner); // it was abandoned, or there was no memory to handle its end
    if (self.due()) {
        auto run = self.under_way_.lock();
        if (!run) run = self.begin(owner);
        if (run && self.good()) {
            run->keep(); // renewed in advance: no request waits for that
        } else if (run) {
            const bool ended = co_await child_process::wait(run, &owner->rt.clock(), deadline);
            if (!ended) {
                const bool asked = co_await informer::detail::cancelled();
                f = asked ? failure(errc::cancelled, doing + ": " + self.name_)
                          : failure(errc::deadline_exceeded,
                                    doing + ": " + self.name_ + " still runs: the time limit passed");
                co_return;
            }
        }
    }
    if (self.usable()) co_return;
    f = self.failed_.within(doing);
    // There was no memory to note the reason, which is no reason to send the request without a credential.
    if (!f) f = failure(errc::exec_plugin_failed, doing + ": " + self.name_ + " has given nothing yet");
}

/// Null where it could not be started.
std::shared_ptr<child_process> exec_source::begin(const std::shared_ptr<client::impl>& owner) {
    program what;
    what.path = on_path(plugin_.command);
    what.arguments.push_back(plugin_.command);
    what.arguments.insert(what.arguments.end(), plugin_.arguments.begin(), plugin_.arguments.end());
    what.environment = exec_environment(plugin_, exec_info(owner->config, owner->tls.in_use().ca_pem_));
    what.time_limit = plugin_.time_limit;
    if (plugin_.on_stderr || runtime_.logs(log_level::info)) {
        const auto lines = std::make_shared<exec_lines>(runtime_, name_, plugin_);
        what.heard = [lines](std::string_view bytes) { lines->hear(bytes); };
    }
    int error = what.path.empty() ? ENOENT : 0;
    std::string why, doing;
    if (error == 0) {
        if (auto run = child_process::start(runtime_.executor(), what, error, doing)) {
            if (runtime_.logs(log_level::debug)) runtime_.log(log_level::debug, name_ + " runs");
            under_way_ = run;
            // The run reports its end by itself, not through a waiter, which may have left. The callback keeps neither
            // the run nor the client alive.
            run->when_ended([weak = std::weak_ptr<client::impl>(owner)](child_process& r) {
                if (const auto there = weak.lock()) there->exec->adopt(r, *there);
            });
            if (run->ended()) adopt(*run, *owner); // it ended before it could be watched
            return run;
        }
    }
    count(1, doing.empty() ? "plugin_not_found_error" : "client_internal_error");
    const bool missing = doing.empty() && (error == ENOENT || error == ENOTDIR);
    if (missing && !what.path.empty() && ::access(what.path.c_str(), F_OK) == 0)
        why = "cannot be run: the program that its first line names does not exist";
    else if (missing)
        why = what.path.empty() ? "is not on $PATH" : "is not there";
    else
        why = "cannot be run: " + doing + (doing.empty() ? "" : ": ") + std::generic_category().message(error);
    const auto hint = informer::detail::trimmed(plugin_.install_hint);
    if (missing && !hint.empty()) why += " (" + shown(informer::detail::one_line(std::string(hint))) + ")";
    next_run_ = informer::detail::later(runtime_.clock().now(), pause);
    failed(std::move(why));
    return nullptr;
}

/// What went wrong with the run; empty: nothing.
std::string exec_source::unfit(const child_process& run) const {
    using ending = child_process::ending;
    switch (run.how()) {
    case ending::exited: return run.code() == 0 ? std::string() : "exited with status " + std::to_string(run.code());
    case ending::signalled: return "died of signal " + std::to_string(run.code());
    case ending::timed_out:
        return "did not end within " + informer::detail::in_seconds(plugin_.time_limit) + " and was killed";
    case ending::too_much: return "wrote more than 1 MiB to stdout and was killed";
    case ending::none:
    case ending::abandoned:
    case ending::broken: break;
    }
    return "was killed for lack of memory";
}

// As in client-go: what a run with status 0 has written does not count here, and a run that was killed has no exit
// status.
void exec_source::count(const child_process& run) const {
    using ending = child_process::ending;
    if (run.how() == ending::broken) return count(1, "client_internal_error");
    const int code = run.how() == ending::exited ? run.code() : -1;
    count(code, code == 0 ? "no_error" : "plugin_execution_error");
}

void exec_source::count(int code, std::string_view status) const {
    if (runtime_.metrics() == nullptr) return;
    const std::string text = std::to_string(code);
    runtime_.metrics()->add("rest_client_exec_plugin_call_total", 1, {{"code", text}, {"call_status", status}});
}

void exec_source::adopt(child_process& run, client::impl& owner) {
    if (under_way_.lock().get() != &run) return; // adopted already
    under_way_.reset();
    if (run.how() == child_process::ending::abandoned) return;
    next_run_ = informer::detail::later(runtime_.clock().now(), pause);
    count(run);
    std::string why = unfit(run);
    exec_credential fresh;
    if (why.empty()) fresh = read_exec_credential(run.output(), plugin_.api_version, why);
    if (why.empty()) take(std::move(fresh), owner, why);
    if (why.empty()) return;
    if (const auto words = last_words(run.complaint(), plugin_); !words.empty()) why += ", saying: " + words;
    failed(std::move(why));
}

void exec_source::take(exec_credential fresh, client::impl& owner, std::string& why) {
    if (fresh.certificate_pem != certificate_ || fresh.key_pem != key_) {
        failure bad;
        owner.tls.use_certificate(*owner.http, fresh.certificate_pem, fresh.key_pem, bad);
        if (bad) {
            why = "its client certificate cannot be used (" + bad.message() + ")";
            return;
        }
        certificate_ = std::move(fresh.certificate_pem);
        key_ = std::move(fresh.key_pem);
    }
    header_ = fresh.token.empty() ? std::string() : "Bearer " + fresh.token;
    expires_ = fresh.expires;
    if (const auto now = runtime_.clock().wall(); expires_ && *expires_ > now) {
        renew_ = *expires_ - std::min<std::chrono::system_clock::duration>(ahead, (*expires_ - now) / 5);
    } else {
        renew_ = expires_; // none, or it came too late or the clocks differ: the server decides
    }
    some_ = true;
    refused_ = false;
    ++generation_;
    failed_ = failure();
    if (runtime_.logs(log_level::debug))
        runtime_.log(log_level::debug,
                     name_ + " gave a credential" + (expires_ ? ", good until " + rfc3339(*expires_) : ""));
    if (std::exchange(complained_, false)) runtime_.log(log_level::info, name_ + " gave a credential again");
}

void exec_source::failed(std::string why) {
    failed_ = failure(errc::exec_plugin_failed, name_ + " " + why);
    // Not logged if there is no usable credential: the requests that fail report it.
    if (usable() && !std::exchange(complained_, true))
        runtime_.log(log_level::warning, failed_.message() + "; the old credential stays in use until it ends");
}

} // namespace informer::kubernetes::detail
