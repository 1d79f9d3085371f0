#include "kubernetes/client_impl.hpp"
#include "kubernetes/discovery_names.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

namespace informer::kubernetes {

namespace {

using detail::call;

/// Kubernetes 1.27 to 1.29 have v2beta1, which looks the same.
constexpr std::string_view accepted = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
                                      "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,"
                                      "application/json";
/// The time limit for one group, if each takes a request of its own: client-go's.
constexpr std::chrono::milliseconds group_time = std::chrono::seconds(32);

/// Reads no more than it is told to, and remembers what it read.
class discovery_reader {
public:
    explicit discovery_reader(std::shared_ptr<client::impl> c)
        : client_(std::move(c)), until_(client_->deadline_of(std::chrono::milliseconds(0))) {}

    discovery found;

    /// Reads /api and, if the server has no aggregated discovery, /api/v1.
    static asio::awaitable<void> read_core(std::shared_ptr<discovery_reader> self, failure& f) {
        const std::string text = co_await get(self, "/api", f);
        if (f == errc::not_found) {
            f = failure(); // a stand-alone API server, behind no aggregator, has no /api
            co_return;
        }
        if (f || self->take_aggregated(text, f)) co_return;
        const auto versions = discovery_format::api_versions(text, f);
        if (f) {
            f = f.within("discover /api");
            co_return;
        }
        self->any_ = true;
        for (const auto& version : versions) {
            co_await read_resources(self, version, "/api/" + http::percent_encode(version), f);
            if (f) co_return;
        }
    }

    /// Reads /apis, which is everything if the answer is aggregated.
    static asio::awaitable<void> read_group_list(std::shared_ptr<discovery_reader> self, failure& f) {
        const std::string text = co_await get(self, "/apis", f);
        if (f == errc::not_found) {
            self->listed_ = self->any_;
            if (self->any_)
                f = failure();
            else
                f = f.within("neither /api nor /apis is there");
            co_return;
        }
        self->listed_ = !f;
        if (f || self->take_aggregated(text, f)) co_return;
        self->groups_ = discovery_format::api_groups(text, f);
        if (f) f = f.within("discover /apis");
    }

    /// Reads the groups of the list that are wanted (without `asked`: all) and were not read yet.
    static asio::awaitable<void> read_groups(std::shared_ptr<discovery_reader> self,
                                             std::shared_ptr<const std::vector<detail::asked_name>> asked, failure& f) {
        std::vector<discovery_format::group> rest;
        for (auto& g : std::exchange(self->groups_, {})) {
            if (asked && !wanted(g, *asked)) {
                rest.push_back(std::move(g));
                continue;
            }
            for (const auto& version : g.versions) {
                const std::string path = "/apis/" + http::percent_encode(g.name) + "/" + http::percent_encode(version);
                co_await read_resources(self, g.name + "/" + version, path, f);
                if (f) co_return;
            }
        }
        self->groups_ = std::move(rest);
    }

    bool complete() const noexcept { return listed_ && groups_.empty(); }

private:
    static bool wanted(const discovery_format::group& g, const std::vector<detail::asked_name>& asked) {
        return std::any_of(asked.begin(), asked.end(), [&g](const auto& a) {
            return a.has_group ? !a.group.empty() && g.name.starts_with(a.group) : true;
        });
    }

    static asio::awaitable<std::string> get(std::shared_ptr<discovery_reader> self, std::string path, failure& f,
                                            bool of_group = false) {
        call c("GET", path, "discover " + path);
        c.accept = accepted;
        auto left = of_group ? group_time : std::chrono::milliseconds::max();
        if (self->until_)
            left = std::min(
                left, std::chrono::ceil<std::chrono::milliseconds>(*self->until_ - self->client_->rt.clock().now()));
        c.time_limit = std::max(left, std::chrono::milliseconds(1));
        std::string text = co_await client::impl::perform(self->client_, std::move(c), f);
        co_return text;
    }

    bool take_aggregated(const std::string& text, failure& f) {
        failure other;
        auto all = discovery_format::aggregated(text, other, &found.problems);
        if (other) {
            if (other != errc::bad_response) f = other.within("discover"); // no JSON at all
            return static_cast<bool>(f);
        }
        any_ = true;
        std::move(all.begin(), all.end(), std::back_inserter(found.resources));
        return true;
    }

    /// Whether all other groups would fail, too: the request was cancelled, the time is over, or the server refuses our
    /// credentials or cannot be reached.
    bool is_hopeless(const failure& f) const {
        if (f == errc::cancelled || f == errc::unauthorized) return true;
        if (until_ && *until_ <= client_->rt.clock().now()) return true;
        return !f.status() && f != errc::bad_response && f != errc::too_large && f != condition::timed_out;
    }

    /// Notes the failure of one group as a problem of that group, unless it is hopeless.
    static asio::awaitable<void> read_resources(std::shared_ptr<discovery_reader> self, std::string name,
                                                std::string path, failure& f) {
        failure bad;
        const std::string text = co_await get(self, path, bad, true);
        if (bad && self->is_hopeless(bad)) {
            f = bad;
            co_return;
        }
        std::vector<api_resource> all;
        if (!bad) all = discovery_format::api_resources(text, bad);
        if (bad) self->found.problems.push_back(name + ": " + bad.what());
        std::move(all.begin(), all.end(), std::back_inserter(self->found.resources));
    }

    std::shared_ptr<client::impl> client_;
    std::optional<clock::time_point> until_;      ///< for the whole discovery
    std::vector<discovery_format::group> groups_; ///< not read yet
    bool any_ = false, listed_ = false;
};

} // namespace

void client::impl::remember(discovery found, bool complete) {
    complete = complete && found.problems.empty();
    if (complete || !known) {
        known = known_resources{std::move(found), complete};
        return;
    }
    // Adds only resources that are new, and behind the known ones, which keep their precedence. Of two incomplete
    // results the later one comes first.
    if (!known->complete) std::swap(known->all, found);
    for (auto& r : found.resources)
        if (!known->all.find(r.group, r.version, r.plural)) known->all.resources.push_back(std::move(r));
}

asio::awaitable<discovery> client::impl::discover(std::shared_ptr<impl> self, failure& f) {
    f = failure();
    const auto reader = std::make_shared<discovery_reader>(self);
    co_await discovery_reader::read_core(reader, f);
    if (!f) co_await discovery_reader::read_group_list(reader, f);
    if (!f) co_await discovery_reader::read_groups(reader, nullptr, f);
    if (f) co_return discovery();
    self->remember(reader->found, true);
    co_return std::move(reader->found);
}

asio::awaitable<api_resource> client::impl::find_resource(std::shared_ptr<impl> self, std::string name, failure& f) {
    f = failure();
    const auto asked = std::make_shared<const std::vector<detail::asked_name>>(detail::readings(name));
    if (self->known) {
        const auto* found = detail::match(self->known->all.resources, *asked);
        const bool certain = found && (self->known->complete || detail::is_certain(*found, *asked));
        if (certain) co_return *found;
    }

    const auto reader = std::make_shared<discovery_reader>(self);
    co_await discovery_reader::read_core(reader, f);
    if (f) co_return api_resource();
    const auto* found = detail::match(reader->found.resources, *asked);
    if (!found || !detail::is_certain(*found, *asked)) {
        co_await discovery_reader::read_group_list(reader, f);
        if (!f) co_await discovery_reader::read_groups(reader, asked, f);
        if (f) co_return api_resource();
        found = detail::match(reader->found.resources, *asked);
    }
    if (!found && !reader->complete()) { // to name the nearest ones
        co_await discovery_reader::read_groups(reader, nullptr, f);
        if (f) co_return api_resource();
    }
    api_resource result;
    if (found)
        result = *found;
    else
        result = reader->found.find(name, f); // fails, and names the nearest ones
    self->remember(std::move(reader->found), reader->complete());
    co_return result;
}

} // namespace informer::kubernetes
