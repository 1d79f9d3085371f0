// libinformer: figures of the library, and your own, in Prometheus' text format.
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
    /// Most time series (name and labels) that are kept; a label that takes ever new values must not eat the process.
    /// What comes after is dropped and counted by `informer_metrics_dropped_total`.
    // clang-format off
    prometheus_options& max_series(std::size_t n) { max_series_ = n; return *this; }
    /// Adds the figures of the process itself (`process_cpu_seconds_total`, `process_resident_memory_bytes`,
    /// `process_open_fds`, …) to each answer. Linux only; default: on.
    prometheus_options& process_figures(bool on) { process_figures_ = on; return *this; }
    // clang-format on

    std::size_t max_series_ = 10'000;
    bool process_figures_ = true;
};

/// A sink that keeps what it is told and prints it for a scrape: give it to `runtime::with_metrics` and to an
/// `http_endpoint`.
///
/// Names, labels and buckets are those of client-go (k8s.io/component-base) and controller-runtime where they have such a figure, so
/// that dashboards made for them work unchanged (durations of work queues have the buckets of both); help texts are our own.
/// docs/metrics.md lists all.
///
/// *Thread safety*: full. *Complexity*: one hash look-up for each figure told, no allocation once a series exists.
/// *Errors*: what cannot be kept (a name or label that Prometheus does not allow, a label's text that is no UTF-8, a count
/// or observation that is no finite number, a counter that is told as a gauge, a series too many) is dropped and counted,
/// never thrown: metrics must not break what they measure.
class prometheus_metrics final : public metrics_sink {
public:
    explicit prometheus_metrics(prometheus_options options = prometheus_options());
    ~prometheus_metrics() override;
    prometheus_metrics(const prometheus_metrics&) = delete;
    prometheus_metrics& operator=(const prometheus_metrics&) = delete;

    void add(std::string_view counter, double value, labels of) override;
    void set(std::string_view gauge, double value, labels of) override;
    void observe(std::string_view histogram, double value, labels of) override;
    /// The next scrape does not show it any more, and another may take its place; told of again it begins anew. The labels are
    /// in the order in which they were told.
    void forget(std::string_view name, labels of) override;

    /// Help text, and for a histogram its upper bounds in ascending order (without +Inf), of a figure of your own. Before
    /// its first series; later it has no effect, so that all series of one name have the same buckets. Where none are given a
    /// histogram that we know has its own, any other Prometheus' default ones (5 ms … 10 s).
    void describe(std::string_view name, std::string_view help);
    void describe(std::string_view name, std::string_view help, std::vector<double> buckets);

    /// All figures in text format 0.0.4.
    std::string text() const;
    /// The media type that belongs to it.
    static std::string_view content_type() noexcept;
    /// Time series kept now, and figures dropped so far.
    std::size_t series() const;
    std::uint64_t dropped() const;

private:
    friend std::shared_ptr<metrics_sink> with_labels(std::shared_ptr<prometheus_metrics> to,
                                                     std::map<std::string, std::string> constant);
    class labelled;
    struct impl;
    std::unique_ptr<impl> impl_;
};

/// A sink that tells `to` the same, with these labels on every figure: for a process that follows several clusters, whose informers
/// of one name would else report into one series.
///
///     informer::runtime east(io.get_executor());
///     east.with_metrics(informer::serving::with_labels(metrics, {{"cluster", "east"}}));
///
/// Labels that a figure has itself win over constant ones of that name. In a scrape each family should have the same labels
/// throughout: where one cluster has them, all should.
/// *Thread safety*: full. *Lifetime*: keeps `to`. *Errors*: throws `error(errc::bad_configuration)` for no sink, for a name that Prometheus
/// does not allow or keeps for itself (`le`, `__…`), and for text that is no UTF-8.
std::shared_ptr<metrics_sink> with_labels(std::shared_ptr<prometheus_metrics> to,
                                          std::map<std::string, std::string> constant);

} // namespace informer::serving
