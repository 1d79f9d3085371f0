// informerctl: the library's command line.
#include "command_line.hpp"
#include "common/standard_descriptors.hpp"
#include "printer.hpp"
#include "session.hpp"

#include <informer/version.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <fcntl.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>

namespace informerctl {

std::string session::name_space() const {
    if (!resource.namespaced || line.all_namespaces) return {};
    return line.name_space.empty() && client ? client->config().name_space : line.name_space;
}

std::string session::describe() const {
    const auto ns = name_space();
    if (etcd) return line.resource.empty() && ns.empty() ? "all keys" : line.resource + (ns.empty() ? "" : ns + "/");
    return resource.group_resource() + (ns.empty() ? "" : " in " + ns);
}

std::string session::field_selector() const {
    if (line.names.empty()) return line.fields;
    std::string name = etcd ? key_of(line, line.names.front()).name : line.names.front();
    for (std::size_t at = 0; (at = name.find_first_of("\\,=", at)) != std::string::npos; at += 2)
        name.insert(at, 1, '\\');
    return "metadata.name=" + name;
}

std::string session::name_of(const informer::object& o) const {
    return etcd ? visible(line.resource + o.key().str()) : resource_name(resource, o);
}

std::string session::name_of(const informer::bad_object& b) const {
    if (etcd) return etcd_key(line, b.key);
    return b.key.empty() ? "item " + std::to_string(b.position) : b.key.str();
}

informer::informer_options session::informer_options() const {
    informer::decode_options decode;
    decode.keep_managed_fields(line.keep_managed_fields);
    informer::informer_options options;
    options.labels(line.labels).fields(field_selector()).shard(line.part).watch_list(line.watch_list).decode(decode);
    return options;
}

asio::awaitable<void> find_resource(std::shared_ptr<session> s) {
    s->resource = co_await s->client->find_resource(s->line.resource);
}

asio::awaitable<std::shared_ptr<informer::list_watch>> find_source(std::shared_ptr<session> s) {
    if (s->etcd) co_return s->etcd;
    co_await find_resource(s);
    co_return s->client->make_list_watch(s->resource, s->name_space());
}

int complain(const std::string& what) {
    std::string one_line = what;
    for (char& c : one_line)
        if (c == '\n' || c == '\r') c = ' ';
    std::fprintf(stderr, "informerctl: %s\n", visible(one_line).c_str());
    return 1;
}

namespace {

asio::awaitable<int> run_command(std::shared_ptr<session> s) {
    switch (s->line.command) {
    case command::get: return s->etcd ? run_get_keys(s) : run_get(s);
    case command::watch: return run_watch(s);
    case command::sync: return run_sync(s);
    case command::types: return run_types(s);
    case command::resources: break;
    }
    return run_resources(s);
}

void log_to_stderr(informer::log_level level, std::string_view text) {
    std::fprintf(stderr, "informerctl: %s: %s\n", to_string(level).data(), visible(text).c_str());
}

/// The user who must log in sits at this terminal, so show where, and allow as much time for it as the first request
/// has.
void ask_at_terminal(informer::kubernetes::exec_plugin& plugin) {
    const std::string name = plugin.command.substr(plugin.command.rfind('/') + 1);
    plugin.on_stderr = [name](std::string_view line) {
        std::fprintf(stderr, "%s: %s\n", name.c_str(), visible(line).c_str());
    };
    plugin.time_limit = std::chrono::minutes(2);
}

void use_cluster(session& s, informer::failure& f) {
    const command_line& line = s.line;
    informer::kubernetes::kubeconfig_options where;
    where.path(line.kubeconfig).context(line.context).cluster(line.cluster).user(line.user);
    where.server(line.server).insecure(line.insecure);
    auto config = informer::kubernetes::default_config(where, f);
    if (f) return;
    if (!line.token.empty()) {
        config.credentials.token = line.token;
        config.credentials.token_file.clear();
    }
    config.user_agent = "informerctl/" INFORMER_VERSION_STRING " (linux)";
    ask_at_terminal(config.credentials.exec);
    s.client.emplace(s.runtime, config, f);
    if (f) return;
    s.client->keep_managed_fields(line.keep_managed_fields);
    if (line.verbosity > 0) return; // the client logs them
    // The user should not have to guess why the server does not know who they are.
    for (const auto& w : s.client->config().warnings) log_to_stderr(informer::log_level::warning, w);
}

int run(const command_line& line) {
    asio::io_context context(1);
    informer::runtime runtime(context.get_executor());
    if (line.verbosity > 0)
        runtime.with_logger(log_to_stderr, line.verbosity > 1 ? informer::log_level::debug : informer::log_level::info);
    auto s = std::make_shared<session>(line, runtime);
    informer::failure f;
    line.etcd.asked ? use_etcd(*s, f) : use_cluster(*s, f);
    if (f) return complain(f.what());

    int code = 0;
    std::exception_ptr failed;
    asio::cancellation_signal stop;
    // The command ends on SIGINT, on SIGTERM, and when the reader of our stdout goes away.
    asio::posix::stream_descriptor signals(context, ::fcntl(signal_descriptor(), F_DUPFD_CLOEXEC, 0));
    asio::posix::stream_descriptor reader(context);
    bool finished = false, ended_from_outside = false;
    const auto end = [&](const boost::system::error_code& ec) {
        if (ec || finished) return;
        ended_from_outside = true;
        stop.emit(asio::cancellation_type::terminal);
    };
    signals.async_wait(asio::posix::descriptor_base::wait_read, end);
    if (const int gone = reader_gone_descriptor(); gone != -1) {
        boost::system::error_code ignored;
        reader.assign(gone, ignored);
        if (!ignored) reader.async_wait(asio::posix::descriptor_base::wait_read, end);
    }
    asio::co_spawn(context, run_command(s), // lint: law3 the root coroutine of the program
                   asio::bind_cancellation_slot(
                       stop.slot(), asio::bind_executor(context.get_executor(), [&](std::exception_ptr e, int c) {
                           finished = true;
                           failed = e;
                           code = c;
                           boost::system::error_code ignored;
                           signals.close(ignored);
                           reader.close(ignored);
                           // do not wait for a DNS look-up
                           if (signalled()) context.stop();
                       })));
    context.run();
    s->out.flush();
    if (s->out.error() != 0) return complain(std::string("stdout: ") + std::strerror(s->out.error()));
    // A signal is how a watch normally ends; the output of any other command is incomplete.
    // Exit at once: the destructor of the context would join the thread of a DNS look-up, as long as the name server is
    // silent.
    if (const int signal = signalled()) std::_Exit(line.command == command::watch ? 0 : 128 + signal);
    if (ended_from_outside || s->out.closed()) return 0;
    if (failed) {
        try {
            std::rethrow_exception(failed);
        } catch (const std::exception& e) {
            return complain(e.what());
        }
    }
    return code;
}

} // namespace
} // namespace informerctl

int main(int argc, char** argv) {
    informerctl::measure_process(); // the clock of the first phase starts here
    common::occupy_standard_descriptors(true);
    informerctl::install_signals();
    informerctl::command_line line;
    try {
        if (const int code = informerctl::parse_command_line(argc, argv, line); code >= 0)
            return std::cout.flush() ? code : informerctl::complain("stdout cannot be written to"); // --help
        return informerctl::run(line);
    } catch (const std::exception& e) {
        return informerctl::complain(e.what());
    }
}
