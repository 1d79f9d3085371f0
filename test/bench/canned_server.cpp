// Serves a recorded corpus (bench_corpus) like a Kubernetes API server, at almost no cost: the answers are in memory
// before the first request, and are written in gathers of half a megabyte.
//
//   bench_canned_server DIR [--port N] [--control N] [--tls] [--gzip]
//
// Prints {"port":…,"control":…,"pid":…,"objects":…,"protobuf":…[,"ca":FILE]} once it listens. It serves
// lists (whole and in pages), watch-lists and watches of the corpus's one resource: in JSON, in protobuf if the corpus
// has it, and as PartialObjectMetadata.
//
// The control port takes commands, one a line, and answers each with one line of JSON when it is done:
//   burst N        sends the next N updates to every open watch, as fast as they are read
//   paced N RATE   sends N updates at RATE a second, with bench/sent set to the time of writing (CLOCK_REALTIME, ns)
//   bookmark       sends a bookmark to every open watch
//   expire         sends 410 to every open watch, and to watches that resume before the next list: clients must relist
//   cut            closes the connections of all watches
//   hold, release  leaves new lists and watches unanswered until released
//   digest         SHA-256 over the sorted lines "namespace/name resourceVersion\n" of the current state of all objects
//   stats, quit
#include "bench/support/digest.hpp"
#include "bench/support/wire_writer.hpp"

#include <informer/detail/async.hpp>
#include <informer/http/url.hpp>
#include <informer/runtime.hpp>
#include <informer/task_group.hpp>
#include <informer/testing/certificates.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <iostream>
#include <list>
#include <map>
#include <sstream>

#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

namespace {

using namespace informer::bench;

struct request {
    std::string path, accept;
    bool gzip = false;
    std::map<std::string, std::string> query;

    std::string value(const std::string& key) const {
        const auto at = query.find(key);
        return at == query.end() ? std::string() : at->second;
    }
    bool is_true(const std::string& key) const { return value(key) == "true" || value(key) == "1"; }
};

std::string lower(std::string s) {
    for (char& c : s) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    return s;
}

/// Parses the head of a GET request; requests have no body here.
request parse_head(std::string_view head) {
    request r;
    const std::string_view target =
        head.substr(head.find(' ') + 1, head.find(' ', head.find(' ') + 1) - head.find(' ') - 1);
    const std::size_t mark = target.find('?');
    r.path = target.substr(0, mark);
    for (std::string_view rest = mark == std::string_view::npos ? "" : target.substr(mark + 1); !rest.empty();) {
        const std::size_t end = std::min(rest.find('&'), rest.size());
        const std::string_view pair = rest.substr(0, end);
        const std::size_t equals = std::min(pair.find('='), pair.size());
        r.query[std::string(pair.substr(0, equals))] =
            informer::http::percent_decode(pair.substr(std::min(equals + 1, pair.size())));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    for (std::size_t at = head.find("\r\n"); at != std::string_view::npos && at + 2 < head.size();) {
        const std::size_t end = std::min(head.find("\r\n", at + 2), head.size());
        const std::string_view line = head.substr(at + 2, end - at - 2);
        const std::size_t colon = std::min(line.find(':'), line.size());
        const std::string name = lower(std::string(line.substr(0, colon)));
        const std::string value(line.substr(std::min(line.find_first_not_of(' ', colon + 1), line.size())));
        if (name == "accept") r.accept = value;
        if (name == "accept-encoding") r.gzip = value.find("gzip") != std::string::npos;
        at = end;
    }
    return r;
}

std::string gzipped(std::string_view text) {
    z_stream z{};
    if (deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        throw std::bad_alloc(); // level 1, as in kube-apiserver
    std::string out(deflateBound(&z, text.size()), '\0');
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    z.avail_in = static_cast<uInt>(text.size());
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    z.avail_out = static_cast<uInt>(out.size());
    const int result = deflate(&z, Z_FINISH);
    out.resize(z.total_out);
    deflateEnd(&z);
    if (result != Z_STREAM_END) throw std::runtime_error("gzip failed");
    return out;
}

class canned_server {
public:
    canned_server(asio::io_context& io, const std::string& folder, bool tls, bool gzip, unsigned short port,
                  unsigned short control)
        : io_(io), corpus_(folder), gzip_(gzip), group_(io.get_executor()), released_(io.get_executor()),
          acceptor_(io, tcp::endpoint(asio::ip::address_v4::loopback(), port)),
          control_(io, tcp::endpoint(asio::ip::address_v4::loopback(), control)) {
        for (unsigned e = 0; e < encodings; ++e) dialects_.emplace_back(corpus_, static_cast<encoding>(e));
        released_.expires_at(informer::clock::time_point::max());
        std::string ca;
        if (tls) ca = use_tls(folder);
        std::cout << "{\"port\":" << acceptor_.local_endpoint().port()
                  << ",\"control\":" << control_.local_endpoint().port() << ",\"pid\":" << ::getpid()
                  << ",\"objects\":" << corpus_.size()
                  << ",\"protobuf\":" << (corpus_.has(encoding::protobuf) ? "true" : "false") << ca << "}" << std::endl;
    }

    void start() {
        group_.spawn(accept(this));
        group_.spawn(take_commands(this));
    }

private:
    struct watch {
        std::shared_ptr<wire> to;
        encoding how;
    };
    using watch_list = std::list<watch>;

    std::string use_tls(const std::string& folder) {
        const informer::testing::certificate_authority authority("bench CA");
        const auto pair = authority.server({"localhost", "127.0.0.1"});
        tls_.emplace(asio::ssl::context::tls_server);
        tls_->use_certificate_chain(asio::buffer(pair.certificate_pem));
        tls_->use_private_key(asio::buffer(pair.key_pem), asio::ssl::context::pem);
        const std::string name = folder + "/ca.pem";
        std::ofstream(name) << authority.certificate_pem();
        return ",\"ca\":\"" + name + "\"";
    }

    // ---- HTTP -------------------------------------------------------------------------------------------------------

    static asio::awaitable<void> accept(canned_server* self) {
        for (;;) {
            auto [ec, socket] = co_await self->acceptor_.async_accept(as_result);
            if (ec) co_return;
            auto to = std::make_shared<wire>(std::move(socket), self->tls_ ? &*self->tls_ : nullptr);
            self->group_.spawn(serve(self, std::move(to)));
        }
    }

    static asio::awaitable<void> serve(canned_server* self, std::shared_ptr<wire> to) {
        co_await wire::handshake(to);
        std::string in;
        std::array<char, 16 << 10> buffer{};
        while (!to->broken()) {
            const std::size_t end = in.find("\r\n\r\n");
            if (end == std::string::npos) {
                const std::size_t n = co_await wire::read_some(to, asio::buffer(buffer));
                if (n == 0 || in.size() > (64 << 10)) break;
                in.append(buffer.data(), n);
                continue;
            }
            const auto r = std::make_shared<const request>(parse_head(std::string_view(in).substr(0, end)));
            in.erase(0, end + 4);
            ++self->requests_;
            co_await answer(self, to, r);
        }
        self->bytes_ += to->written();
        to->close();
    }

    static asio::awaitable<void> answer(canned_server* self, std::shared_ptr<wire> to,
                                        std::shared_ptr<const request> r) {
        if (r->path == self->corpus_.path()) {
            while (self->held_) {
                ++self->waiting_;
                co_await self->released_.async_wait(as_result);
                --self->waiting_;
            }
            if (r->is_true("watch"))
                co_await serve_watch(self, to, r);
            else
                co_await serve_list(self, to, r);
            co_return;
        }
        int status = 200;
        const std::string body = self->document(r->path, status);
        to->add_head("HTTP/1.1 ", status == 200 ? "200 OK" : "404 Not Found",
                     "\r\nContent-Type: application/json\r\nContent-Length: ", std::to_string(body.size()), "\r\n\r\n");
        to->add(body);
        co_await wire::flush(to);
    }

    std::string document(const std::string& path, int& status) const {
        const std::string& group = corpus_.group;
        const std::string version = corpus_.api_version();
        if (path == "/version")
            return R"({"major":"1","minor":"34","gitVersion":"v1.34.0","gitCommit":"0","gitTreeState":"clean","buildDate":"2025-08-27T10:17:43Z","goVersion":"go1.24.5","compiler":"gc","platform":"linux/amd64"})";
        if (path == "/api") return R"({"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[]})";
        if (path == "/apis") {
            const std::string one = "{\"groupVersion\":\"" + version + "\",\"version\":\"" + corpus_.version + "\"}";
            return "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[" +
                   (group.empty()
                        ? ""
                        : "{\"name\":\"" + group + "\",\"versions\":[" + one + "],\"preferredVersion\":" + one + "}") +
                   "]}";
        }
        const bool ours = path + "/" + corpus_.resource == corpus_.path();
        if (ours || path == "/api/v1")
            return "{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\",\"groupVersion\":\"" + (ours ? version : "v1") +
                   "\",\"resources\":[" +
                   (ours ? "{\"name\":\"" + corpus_.resource + "\",\"singularName\":\"" + lower(corpus_.kind) +
                               "\",\"namespaced\":true,\"kind\":\"" + corpus_.kind +
                               "\",\"verbs\":[\"get\",\"list\",\"watch\"]}"
                         : "") +
                   "]}";
        status = 404;
        return R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"not found","reason":"NotFound","code":404})";
    }

    /// The first encoding that the client accepts and the corpus has.
    encoding negotiate(const request& r) const {
        for (std::string_view rest = r.accept; !rest.empty();) {
            const std::size_t end = std::min(rest.find(','), rest.size());
            const std::string_view one = rest.substr(0, end);
            rest.remove_prefix(std::min(end + 1, rest.size()));
            const bool metadata = one.find("as=PartialObjectMetadata") != std::string_view::npos;
            if (one.find("application/vnd.kubernetes.protobuf") != std::string_view::npos) {
                const encoding e = metadata ? encoding::protobuf_metadata : encoding::protobuf;
                if (corpus_.has(e)) return e;
            } else if (one.find("as=") == std::string_view::npos || metadata) {
                if (one.find("json") != std::string_view::npos || one.find("*/*") != std::string_view::npos)
                    return metadata ? encoding::json_metadata : encoding::json;
            }
        }
        return encoding::json;
    }
    const dialect& speak(encoding e) const { return dialects_[static_cast<std::size_t>(e)]; }

    static asio::awaitable<void> serve_list(canned_server* self, std::shared_ptr<wire> to,
                                            std::shared_ptr<const request> r) {
        const encoding how = self->negotiate(*r);
        const dialect& d = self->speak(how);
        const std::size_t size = self->corpus_.size();
        // As in kube-apiserver: a list that may come from the watch cache is whole, whatever the limit.
        const std::size_t limit =
            r->value("resourceVersion") == "0" ? 0 : std::strtoull(r->value("limit").c_str(), nullptr, 10);
        const std::size_t begin = std::min<std::size_t>(std::strtoull(r->value("continue").c_str(), nullptr, 10), size);
        const std::size_t end = limit ? std::min(begin + limit, size) : size;
        self->expired_ = false;
        const auto frame = std::make_shared<const dialect::list_frame>(d.list(begin, end));
        if (self->gzip_ && r->gzip) {
            const auto body = std::make_shared<const std::string>(self->compressed(how, begin, end, *frame));
            to->add_head("HTTP/1.1 200 OK\r\nContent-Type: ", d.content_type(false),
                         "\r\nContent-Encoding: gzip\r\nContent-Length: ", std::to_string(body->size()), "\r\n\r\n");
            to->add(*body);
            co_await wire::flush(to);
        } else {
            to->add_head("HTTP/1.1 200 OK\r\nContent-Type: ", d.content_type(false),
                         "\r\nContent-Length: ", std::to_string(frame->size), "\r\n\r\n");
            to->add(frame->head);
            for (std::size_t i = begin; i < end && !to->broken(); ++i) {
                if (to->full()) co_await wire::flush(to);
                d.add_item(*to, i, i == begin);
            }
            if (to->full()) co_await wire::flush(to);
            to->add(frame->tail);
            co_await wire::flush(to);
        }
        if (end == size) ++self->lists_;
    }

    const std::string& compressed(encoding how, std::size_t begin, std::size_t end, const dialect::list_frame& frame) {
        if (compressed_version_ != corpus_.resource_version()) compressed_.clear();
        compressed_version_ = corpus_.resource_version();
        std::string& kept = compressed_[{static_cast<unsigned>(how), begin, end}];
        if (kept.empty()) kept = gzipped(speak(how).text(frame, begin, end));
        return kept;
    }

    static asio::awaitable<void> serve_watch(canned_server* self, std::shared_ptr<wire> to,
                                             std::shared_ptr<const request> r) {
        const encoding how = self->negotiate(*r);
        const dialect& d = self->speak(how);
        const std::string version = r->value("resourceVersion");
        const bool watch_list = r->is_true("sendInitialEvents");
        const bool initial = watch_list || version.empty() || version == "0";
        to->add_head("HTTP/1.1 200 OK\r\nContent-Type: ", d.content_type(true),
                     "\r\nTransfer-Encoding: chunked\r\n\r\n");
        if (initial) {
            self->expired_ = false;
            for (std::size_t i = 0; i < self->corpus_.size() && !to->broken(); ++i) {
                if (to->full()) co_await wire::flush(to);
                d.add_event(*to, false, i);
            }
        } else if (self->expired_) {
            const std::string last = d.gone() + "0\r\n\r\n";
            to->add(last);
            co_await wire::flush(to);
            co_return;
        }
        co_await wire::flush(to);
        if (watch_list) {
            const std::string mark = d.bookmark(true);
            to->add(mark);
            co_await wire::flush(to);
            ++self->watch_lists_;
        }
        if (to->broken()) co_return;
        ++self->watches_opened_;
        const auto entry = self->watches_.insert(self->watches_.end(), watch{to, how});
        self->changed();
        std::array<char, 4096> nothing{};
        for (;;) { // until either side closes the connection
            const std::size_t n = co_await wire::read_some(to, asio::buffer(nothing));
            if (n == 0) break;
        }
        self->watches_.erase(entry);
        to->close();
    }

    // ---- control ----------------------------------------------------------------------------------------------------

    /// Wakes the requests that `hold` keeps waiting.
    void changed() { released_.cancel(); }

    static asio::awaitable<void> take_commands(canned_server* self) {
        for (;;) {
            auto [ec, socket] = co_await self->control_.async_accept(as_result);
            if (ec) co_return;
            auto from = std::make_shared<tcp::socket>(std::move(socket));
            self->group_.spawn(take_commands_of(self, std::move(from)));
        }
    }

    static asio::awaitable<void> take_commands_of(canned_server* self, std::shared_ptr<tcp::socket> from) {
        std::string in;
        for (;;) {
            auto into = asio::dynamic_buffer(in);
            const auto [ec, n] = co_await asio::async_read_until(*from, into, '\n', as_result);
            if (ec) co_return;
            std::istringstream words(in.substr(0, n));
            in.erase(0, n);
            std::string word;
            words >> word;
            std::size_t count = 0;
            double rate = 0;
            words >> count >> rate;
            std::string done;
            if (word != "paced") rate = 0;
            if (word == "burst" || word == "paced")
                done = co_await send_updates(self, count, rate);
            else if (word == "bookmark" || word == "expire")
                done = co_await send_mark(self, word == "expire");
            else if (word == "cut")
                done = self->cut();
            else if (word == "hold" || word == "release")
                done = self->hold(word == "hold");
            else if (word == "digest")
                done = "{\"done\":\"digest\",\"sha256\":\"" + digest(self->corpus_.key_lines()) + "\"}";
            else if (word == "stats")
                done = self->stats();
            else if (word == "quit")
                done = "{\"done\":\"quit\"}";
            else
                done = "{\"error\":\"unknown command\"}";
            done += '\n';
            const auto out = asio::buffer(done);
            co_await asio::async_write(*from, out, as_result);
            if (word == "quit") self->io_.stop();
        }
    }

    static asio::awaitable<std::string> send_updates(canned_server* self, std::size_t count, double rate) {
        if (self->corpus_.updates() == 0) co_return "{\"error\":\"the corpus has no updates\"}";
        const auto start = std::chrono::steady_clock::now();
        for (std::size_t waited = 0; self->watches_.empty() && waited < 600; ++waited) { // a client between two watches
            asio::steady_timer soon(self->io_, std::chrono::milliseconds(50));
            co_await soon.async_wait(as_result);
        }
        const std::size_t watches = self->watches_.size();
        std::vector<std::size_t> which;
        for (std::size_t sent = 0; sent < count;) {
            if (rate > 0) {
                const auto due = std::chrono::duration<double>(static_cast<double>(sent) / rate);
                asio::steady_timer at(self->io_, start + std::chrono::duration_cast<std::chrono::nanoseconds>(due));
                co_await at.async_wait(as_result);
            }
            which.clear();
            std::size_t bytes = 0;
            do {
                timespec now{};
                if (rate > 0) ::clock_gettime(CLOCK_REALTIME, &now);
                const auto ns =
                    static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
                which.push_back(self->corpus_.update(ns));
                bytes += self->corpus_.now(encoding::json, which.back()).watch.size();
                ++sent;
                // No object comes twice in a gather: its second update would overwrite the first.
            } while (rate <= 0 && sent < count && which.size() < std::min<std::size_t>(20, self->corpus_.size()) &&
                     bytes < 400'000);
            const std::vector<watch> to(self->watches_.begin(), self->watches_.end());
            for (const watch& w : to) {
                for (const std::size_t i : which) self->speak(w.how).add_event(*w.to, true, i);
                co_await wire::flush(w.to);
            }
        }
        self->updates_ += count;
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        co_return "{\"done\":\"updates\",\"events\":" + std::to_string(count) +
            ",\"watches\":" + std::to_string(watches) + ",\"seconds\":" + std::to_string(took.count()) + "}";
    }

    static asio::awaitable<std::string> send_mark(canned_server* self, bool expire) {
        if (expire) self->expired_ = true;
        const std::vector<watch> to(self->watches_.begin(), self->watches_.end());
        for (const watch& w : to) {
            const std::string text =
                expire ? self->speak(w.how).gone() + "0\r\n\r\n" : self->speak(w.how).bookmark(false);
            w.to->add(text);
            co_await wire::flush(w.to);
            boost::system::error_code ignored;
            if (expire) w.to->socket().shutdown(tcp::socket::shutdown_both, ignored);
        }
        co_return "{\"done\":\"mark\",\"watches\":" + std::to_string(to.size()) + "}";
    }

    std::string cut() {
        const std::size_t n = watches_.size();
        for (const watch& w : watches_) {
            boost::system::error_code ignored;
            w.to->socket().shutdown(tcp::socket::shutdown_both, ignored);
        }
        return "{\"done\":\"cut\",\"watches\":" + std::to_string(n) + "}";
    }

    std::string hold(bool on) {
        held_ = on;
        if (!on) changed();
        return on ? "{\"done\":\"hold\"}" : "{\"done\":\"release\"}";
    }

    std::string stats() const {
        rusage u{};
        ::getrusage(RUSAGE_SELF, &u);
        const auto seconds = [](const timeval& t) {
            return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
        };
        std::uint64_t bytes = bytes_;
        for (const watch& w : watches_) bytes += w.to->written();
        std::ostringstream s;
        s << "{\"done\":\"stats\",\"cpu_s\":" << seconds(u.ru_utime) + seconds(u.ru_stime) << ",\"bytes\":" << bytes
          << ",\"requests\":" << requests_ << ",\"lists\":" << lists_ << ",\"watch_lists\":" << watch_lists_
          << ",\"watches\":" << watches_.size() << ",\"watches_opened\":" << watches_opened_
          << ",\"updates\":" << updates_ << ",\"waiting\":" << waiting_ << "}";
        return s.str();
    }

    asio::io_context& io_;
    recorded_corpus corpus_;
    std::vector<dialect> dialects_;
    bool gzip_ = false, held_ = false, expired_ = false;
    std::optional<asio::ssl::context> tls_;
    informer::task_group group_;
    asio::steady_timer released_;
    tcp::acceptor acceptor_, control_;
    watch_list watches_;
    std::map<std::array<std::size_t, 3>, std::string> compressed_;
    std::uint64_t compressed_version_ = 0;
    std::uint64_t bytes_ = 0, requests_ = 0, lists_ = 0, watch_lists_ = 0, watches_opened_ = 0, updates_ = 0,
                  waiting_ = 0;
};

} // namespace

int main(int argc, char** argv) {
    std::string folder;
    unsigned short port = 0, control = 0;
    bool tls = false, gzip = false;
    for (int i = 1; i < argc; ++i) {
        const std::string_view a = argv[i];
        if (a == "--tls")
            tls = true;
        else if (a == "--gzip")
            gzip = true;
        else if ((a == "--port" || a == "--control") && i + 1 < argc)
            (a == "--port" ? port : control) = static_cast<unsigned short>(std::atoi(argv[++i]));
        else if (folder.empty() && !a.starts_with('-'))
            folder = a;
        else {
            std::cerr << "usage: bench_canned_server DIR [--port N] [--control N] [--tls] [--gzip]\n";
            return 2;
        }
    }
    try {
        asio::io_context io(1);
        canned_server server(io, folder, tls, gzip, port, control);
        server.start();
        io.run();
    } catch (const std::exception& e) {
        std::cerr << "bench_canned_server: " << e.what() << "\n";
        return 1;
    }
    return 0;
}
