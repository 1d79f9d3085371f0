#include <informer/serving/prometheus_metrics.hpp>

#include "root/one_line.hpp"
#include "root/utf8.hpp"
#include "serving/known_metrics.hpp"
#include "serving/process_figures.hpp"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <boost/unordered/unordered_flat_map.hpp>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <type_traits>
#include <utility>
#include <variant>

namespace informer::serving {

namespace {

struct text_hash {
    using is_transparent = void;
    using is_avalanching = void;
    std::size_t operator()(std::string_view s) const noexcept { return boost::hash<std::string_view>()(s); }
};

struct description {
    std::string help;
    std::vector<double> buckets;
    bool used = false; ///< there was a series: later ones must have the same buckets
};

using constant_labels = std::map<std::string, std::string>;

/// A series: its name, the labels it was reported with, and the constant labels of its sink.
struct series_name {
    std::string_view name;
    metrics_sink::labels told;
    const constant_labels& constant;

    /// The series as one text. Each name ends with a character that Prometheus allows in no name. A value may hold any
    /// bytes, so its length comes before it.
    void assign_to(std::string& to) const {
        to.assign(name);
        for (const auto& [key, value] : told) append(to, key, value);
        for (const auto& [key, value] : constant) append(to, key, value);
    }
    std::map<std::string, std::string> all_labels() const {
        std::map<std::string, std::string> m = constant;
        for (const auto& [key, value] : told) m.insert_or_assign(std::string(key), std::string(value));
        return m;
    }

private:
    static void append(std::string& to, std::string_view key, std::string_view value) {
        const std::size_t length = value.size();
        to += '\x1e';
        to += key;
        to += '\x1f';
        to.append(reinterpret_cast<const char*>(&length), sizeof length);
        to += value;
    }
};

bool is_utf8(std::string_view s) {
    return informer::detail::utf8_end(s) == s.size();
}

/// `le` is reserved for histograms, and names that begin with two underscores for Prometheus.
bool may_be_label(std::string_view name) {
    const auto fits = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    return !name.empty() && !(name.front() >= '0' && name.front() <= '9') &&
           std::all_of(name.begin(), name.end(), fits) && name != "le" && !name.starts_with("__");
}

/// The serialiser escapes label values but not help texts: a line break would begin a line that is no comment.
std::string escaped_help(std::string_view help) {
    std::string out;
    for (const char c : help.substr(0, informer::detail::utf8_end(help))) {
        if (c == '\n')
            out += "\\n";
        else if (c == '\\')
            out += "\\\\";
        else
            out += c;
    }
    return out;
}

prometheus::MetricFamily single(std::string name, std::string help, prometheus::MetricType type, double value) {
    prometheus::MetricFamily f;
    f.name = std::move(name);
    f.help = std::move(help);
    f.type = type;
    prometheus::ClientMetric m;
    if (type == prometheus::MetricType::Counter)
        m.counter.value = value;
    else
        m.gauge.value = value;
    f.metric.push_back(std::move(m));
    return f;
}

void append_process(std::vector<prometheus::MetricFamily>& all) {
    const auto p = detail::read_process_figures();
    if (!p) return;
    using enum prometheus::MetricType;
    all.push_back(
        single("process_cpu_seconds_total", "Processor time, user and system, in seconds.", Counter, p->cpu_seconds));
    all.push_back(single("process_resident_memory_bytes", "Resident memory.", Gauge, p->resident_bytes));
    all.push_back(single("process_virtual_memory_bytes", "Virtual memory.", Gauge, p->virtual_bytes));
    all.push_back(single("process_open_fds", "Open file descriptors.", Gauge, p->open_fds));
    all.push_back(single("process_max_fds", "Most file descriptors that may be open.", Gauge, p->max_fds));
    all.push_back(
        single("process_start_time_seconds", "Start of the process in seconds since the epoch.", Gauge, p->start_time));
}

} // namespace

struct prometheus_metrics::impl {
    explicit impl(prometheus_options o) : options(o) {}

    void add(const series_name& counter, double value);
    void set(const series_name& gauge, double value);
    void observe(const series_name& histogram, double value);
    void forget(const series_name& which);

    template <class Metric>
    struct kept {
        Metric* metric;
        prometheus::Family<Metric>* in;
    };
    using series = std::variant<kept<prometheus::Counter>, kept<prometheus::Gauge>, kept<prometheus::Histogram>>;

    prometheus_options options;
    mutable std::mutex mutex;
    prometheus::Registry registry{prometheus::Registry::InsertBehavior::Merge};
    boost::unordered_flat_map<std::string, series, text_hash, std::equal_to<>> known;
    /// By series: how many keys it has in `known`, as labels come in any order.
    boost::unordered_flat_map<const void*, unsigned> spellings;
    boost::unordered_flat_map<std::string, description, text_hash, std::equal_to<>> described;
    std::string scratch;
    std::uint64_t dropped = 0;

    /// The description of a metric for which describe() was not called.
    static description usual(std::string_view name);
    /// The series, made if needed; null if it cannot be kept.
    template <class Metric, class Build>
    Metric* find(const series_name& which, Build build);
};

description prometheus_metrics::impl::usual(std::string_view name) {
    description d;
    if (const auto* ours = detail::find_known_metric(name)) {
        d.help = std::string(ours->help);
        d.buckets = ours->buckets;
    }
    if (d.buckets.empty()) d.buckets = detail::default_buckets();
    return d;
}

template <class Metric, class Build>
Metric* prometheus_metrics::impl::find(const series_name& which, Build build) {
    which.assign_to(scratch);
    if (const auto found = known.find(std::string_view(scratch)); found != known.end()) {
        const auto* one = std::get_if<kept<Metric>>(&found->second);
        if (one == nullptr) ++dropped;
        return one == nullptr ? nullptr : one->metric;
    }
    // Prometheus refuses a whole scrape for a single byte that is not UTF-8, and for a bucket that has two bounds.
    const bool readable = std::all_of(which.told.begin(), which.told.end(), [](const auto& l) {
        return is_utf8(l.second) && !(std::is_same_v<Metric, prometheus::Histogram> && l.first == "le");
    });
    if (readable && known.size() < options.max_series_) {
        try { // throws for bad names, bad labels, another type under this name
            const auto said = described.find(which.name);
            description d = said != described.end() ? said->second : usual(which.name);
            auto& family = build().Name(std::string(which.name)).Help(d.help).Register(registry);
            Metric* made = nullptr;
            if constexpr (std::is_same_v<Metric, prometheus::Histogram>)
                made = &family.Add(which.all_labels(), d.buckets);
            else
                made = &family.Add(which.all_labels());
            ++spellings[made];
            known.emplace(scratch, kept<Metric>{made, &family});
            if (!d.used) {
                d.used = true;
                described.insert_or_assign(std::string(which.name), std::move(d));
            }
            return made;
        } catch (const std::exception&) { // counted below
        }
    }
    ++dropped;
    return nullptr;
}

void prometheus_metrics::impl::add(const series_name& counter, double value) {
    const std::lock_guard lock(mutex);
    auto* c = find<prometheus::Counter>(counter, prometheus::BuildCounter);
    if (c == nullptr) return;
    if (value >= 0 && std::isfinite(value)) // a counter only grows
        c->Increment(value);
    else
        ++dropped;
}

void prometheus_metrics::impl::set(const series_name& gauge, double value) {
    const std::lock_guard lock(mutex);
    auto* g = find<prometheus::Gauge>(gauge, prometheus::BuildGauge);
    if (g != nullptr) g->Set(value);
}

void prometheus_metrics::impl::observe(const series_name& histogram, double value) {
    const std::lock_guard lock(mutex);
    auto* h = find<prometheus::Histogram>(histogram, prometheus::BuildHistogram);
    if (h == nullptr) return;
    if (std::isfinite(value)) // infinity or NaN would be the sum from then on
        h->Observe(value);
    else
        ++dropped;
}

void prometheus_metrics::impl::forget(const series_name& which) {
    const std::lock_guard lock(mutex);
    which.assign_to(scratch);
    const auto found = known.find(std::string_view(scratch));
    if (found == known.end()) return;
    std::visit(
        [this](const auto& one) {
            const auto spelt = spellings.find(one.metric);
            if (--spelt->second != 0) return;
            spellings.erase(spelt);
            one.in->Remove(one.metric);
        },
        found->second);
    known.erase(found);
}

class prometheus_metrics::labelled final : public metrics_sink {
public:
    labelled(std::shared_ptr<prometheus_metrics> to, constant_labels constant)
        : to_(std::move(to)), constant_(std::move(constant)) {}
    void add(std::string_view counter, double value, labels of) override {
        to_->impl_->add({counter, of, constant_}, value);
    }
    void set(std::string_view gauge, double value, labels of) override {
        to_->impl_->set({gauge, of, constant_}, value);
    }
    void observe(std::string_view histogram, double value, labels of) override {
        to_->impl_->observe({histogram, of, constant_}, value);
    }
    void forget(std::string_view name, labels of) override { to_->impl_->forget({name, of, constant_}); }

private:
    const std::shared_ptr<prometheus_metrics> to_;
    const constant_labels constant_;
};

std::shared_ptr<metrics_sink> with_labels(std::shared_ptr<prometheus_metrics> to,
                                          std::map<std::string, std::string> constant) {
    if (!to) throw error(errc::bad_configuration, "metrics with labels, but without a sink");
    for (const auto& [name, value] : constant) {
        if (!may_be_label(name))
            throw error(errc::bad_configuration, "metrics cannot have a label " + informer::detail::one_line(name));
        if (!is_utf8(value)) throw error(errc::bad_configuration, "the text of the label " + name + " is no UTF-8");
    }
    return std::make_shared<prometheus_metrics::labelled>(std::move(to), std::move(constant));
}

namespace {

/// Made at first use and never destroyed: metrics may be reported by constructors and destructors of static objects.
const constant_labels& no_labels() {
    static const constant_labels& none = *new constant_labels;
    return none;
}

} // namespace

prometheus_metrics::prometheus_metrics(prometheus_options options) : impl_(std::make_unique<impl>(options)) {}
prometheus_metrics::~prometheus_metrics() = default;

void prometheus_metrics::add(std::string_view counter, double value, labels of) {
    impl_->add({counter, of, no_labels()}, value);
}

void prometheus_metrics::set(std::string_view gauge, double value, labels of) {
    impl_->set({gauge, of, no_labels()}, value);
}

void prometheus_metrics::observe(std::string_view histogram, double value, labels of) {
    impl_->observe({histogram, of, no_labels()}, value);
}

void prometheus_metrics::forget(std::string_view name, labels of) {
    impl_->forget({name, of, no_labels()});
}

void prometheus_metrics::describe(std::string_view name, std::string_view help) {
    describe(name, help, {});
}

void prometheus_metrics::describe(std::string_view name, std::string_view help, std::vector<double> buckets) {
    const std::lock_guard lock(impl_->mutex);
    const auto said = impl_->described.find(name);
    if (said != impl_->described.end() && said->second.used) return;
    description d = impl::usual(name);
    d.help = escaped_help(help);
    if (!buckets.empty()) d.buckets = std::move(buckets);
    impl_->described.insert_or_assign(std::string(name), std::move(d));
}

std::string prometheus_metrics::text() const {
    auto all = impl_->registry.Collect(); // the registry has locks of its own
    std::uint64_t lost = dropped();
    const auto* about = detail::find_known_metric("informer_metrics_dropped_total");
    all.push_back(single(std::string(about->name), std::string(about->help), prometheus::MetricType::Counter,
                         static_cast<double>(lost)));
    if (impl_->options.process_figures_) append_process(all);
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return prometheus::TextSerializer().Serialize(all);
}

std::string_view prometheus_metrics::content_type() noexcept {
    return "text/plain; version=0.0.4; charset=utf-8";
}

std::size_t prometheus_metrics::series() const {
    const std::lock_guard lock(impl_->mutex);
    return impl_->known.size();
}

std::uint64_t prometheus_metrics::dropped() const {
    const std::lock_guard lock(impl_->mutex);
    return impl_->dropped;
}

} // namespace informer::serving
