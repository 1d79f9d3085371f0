// libinformer: metrics of the library, and your own, in Prometheus' text format.
#pragma once

#include <informer/runtime.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace informer::serving {

class prometheus_options {
public:
    prometheus_options() {}
    /// Maximum number of time series (name and labels) kept, since a label that takes ever new values must not eat the
    /// process. Further ones are dropped and counted by `informer_metrics_dropped_total`.
    // clang-format off
    prometheus_options& max_series(std::size_t n) { max_series_ = n; return *this; }
    /// Adds the metrics of the process itself (`process_cpu_seconds_total`, `process_resident_memory_bytes`,
    /// `process_open_fds`, …) to each answer. Linux only; default: on.
    prometheus_options& process_figures(bool on) { process_figures_ = on; return *this; }
    // clang-format on

    std::size_t max_series_ = 10'000;
    bool process_figures_ = true;
};

/// A sink that keeps what is reported to it and prints it for a scrape: give it to `runtime::with_metrics` and to an
/// `http_endpoint`.
///
/// Names, labels and buckets are those of client-go (k8s.io/component-base) and controller-runtime where they have such
/// a metric, so that dashboards made for them work unchanged (durations of work queues have the buckets of both). Help
/// texts are our own. docs/metrics.md lists all metrics.
///
/// *Thread safety*: full. *Complexity*: one hash look-up for each reported value, no allocation once a series exists.
/// *Errors*: what cannot be kept is dropped and counted, never thrown, because metrics must not break what they
/// measure: a name or label that Prometheus does not allow, a label's text that is not UTF-8, a count or observation
/// that is not a finite number, a counter that is reported as a gauge, a series too many.
class prometheus_metrics final : public metrics_sink {
public:
    explicit prometheus_metrics(prometheus_options options = prometheus_options());
    ~prometheus_metrics() override;
    prometheus_metrics(const prometheus_metrics&) = delete;
    prometheus_metrics& operator=(const prometheus_metrics&) = delete;

    void add(std::string_view counter, double value, labels of) override;
    void set(std::string_view gauge, double value, labels of) override;
    void observe(std::string_view histogram, double value, labels of) override;
    /// The next scrape no longer shows this series, and another may take its place; if it is reported again it begins
    /// anew. The labels must be in the order in which they were reported.
    void forget(std::string_view name, labels of) override;

    /// Sets the help text, and for a histogram the upper bounds in ascending order (without +Inf), of a metric of your
    /// own. Call it before the metric's first series; later it has no effect, so that all series of one name have the
    /// same buckets. If no bounds are given, a histogram that the library knows has its own, and any other has
    /// Prometheus' default ones (5 ms … 10 s).
    void describe(std::string_view name, std::string_view help);
    void describe(std::string_view name, std::string_view help, std::vector<double> buckets);

    /// All metrics in text format 0.0.4.
    std::string text() const;
    /// The media type of `text()`.
    static std::string_view content_type() noexcept;
    /// Time series kept now, and reported values dropped so far.
    std::size_t series() const;
    std::uint64_t dropped() const;

private:
    friend std::shared_ptr<metrics_sink> with_labels(std::shared_ptr<prometheus_metrics> to,
                                                     std::map<std::string, std::string> constant);
    class labelled;
    struct impl;
    std::unique_ptr<impl> impl_;
};

/// A sink that passes everything on to `to`, with these labels on every metric. For a process that follows several
/// clusters, whose informers of the same name would otherwise report into one series.
///
///     informer::runtime east(io.get_executor());
///     east.with_metrics(informer::serving::with_labels(metrics, {{"cluster", "east"}}));
///
/// Labels that a metric has itself win over constant ones of the same name. In a scrape each family should have the
/// same labels throughout: if one cluster has them, all should. *Thread safety*: full. *Lifetime*: keeps `to`.
/// *Errors*: throws `error(errc::bad_configuration)` if there is no sink, for a name that Prometheus does not allow or
/// keeps for itself (`le`, `__…`), and for text that is not UTF-8.
std::shared_ptr<metrics_sink> with_labels(std::shared_ptr<prometheus_metrics> to,
                                          std::map<std::string, std::string> constant);

} // namespace informer::serving
