// Names, labels and buckets of work queue, client and election: k8s.io/component-base/metrics/prometheus (client-go's
// adapters); of controllers: sigs.k8s.io/controller-runtime. Work queue durations have the two additional buckets of
// controller-runtime (100 s, 1000 s), so that queries by `le` made for either find their buckets.
#include "serving/known_metrics.hpp"

#include <algorithm>

namespace informer::serving::detail {

namespace {

std::vector<double> powers_of_ten(double first, unsigned count) {
    std::vector<double> all;
    for (unsigned i = 0; i < count; ++i, first *= 10) all.push_back(first);
    return all;
}

std::vector<known_metric> all_known() {
    const std::vector<double> request_seconds{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60};
    const std::vector<double> request_bytes{64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216};
    const std::vector<double> reconcile_seconds{
        0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1,  1.25, 1.5,
        1.75,  2,    2.5,   3,    3.5, 4,    4.5, 5,    6,   7,    8,   9,    10,  15,  20,  25,  30,  40, 50,   60};
    const std::vector<double> queue_seconds = powers_of_ten(1e-8, 12);
    const std::vector<double> lag_seconds{0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60};
    return {
        {"workqueue_depth", "Items that wait in the work queue.", {}},
        {"workqueue_adds_total", "Items added to the work queue.", {}},
        {"workqueue_queue_duration_seconds", "How long an item waits in the work queue.", queue_seconds},
        {"workqueue_work_duration_seconds", "How long an item of the work queue is worked on.", queue_seconds},
        {"workqueue_unfinished_work_seconds",
         "Seconds of work in progress that workqueue_work_duration_seconds has not seen yet, summed over items.",
         {}},
        {"workqueue_longest_running_processor_seconds", "How long the item is worked on that has been longest.", {}},
        {"workqueue_retries_total", "Items that came back to the work queue by way of its rate limiter.", {}},
        {"controller_runtime_reconcile_total", "Reconciliations by result.", {}},
        {"controller_runtime_reconcile_errors_total", "Reconciliations that ended with an error.", {}},
        {"controller_runtime_terminal_reconcile_errors_total",
         "Reconciliations that ended with an error that is not to be retried.",
         {}},
        {"controller_runtime_reconcile_panics_total", "Reconciliations that ended with an exception.", {}},
        {"controller_runtime_reconcile_timeouts_total", "Reconciliations that took longer than they may.", {}},
        {"controller_runtime_reconcile_time_seconds", "How long a reconciliation takes.", reconcile_seconds},
        {"controller_runtime_max_concurrent_reconciles", "How many reconciliations may run at the same time.", {}},
        {"controller_runtime_active_workers", "How many reconciliations run now.", {}},
        {"rest_client_requests_total", "Requests to the API server by status code, method and host.", {}},
        {"rest_client_request_duration_seconds", "How long an answer takes to begin.", request_seconds},
        {"rest_client_request_size_bytes", "Size of requests.", request_bytes},
        {"rest_client_request_retries_total", "Requests that were tried again.", {}},
        {"rest_client_rate_limiter_duration_seconds", "How long a request waits because the server told us to.",
         request_seconds},
        {"rest_client_exec_plugin_call_total", "Runs of exec plugins by exit status and what became of them.", {}},
        {"leader_election_master_status", "1 while this process holds the lease of that name, else 0.", {}},
        {"leader_election_slowpath_total", "Renewals that had to read the lease first.", {}},
        {"informer_objects", "Objects in the cache.", {}},
        {"informer_bytes", "Memory of the cache: documents, keys and indexes.", {}},
        {"informer_confirmed_timestamp_seconds", "When the server last showed that the cache is not behind it.", {}},
        {"informer_queue_depth", "Deltas that are received and not yet applied.", {}},
        {"informer_listener_pending", "Events that wait for the slowest listener, looked at each half minute.", {}},
        {"informer_events_total", "Changes of the cache by type.", {}},
        {"informer_received_bytes_total", "Bytes of lists and watches that were received.", {}},
        {"informer_restarts_total", "Lists and watches that ended otherwise than planned, by reason.", {}},
        {"informer_relists_total", "Full lists after the first.", {}},
        {"informer_list_requests_total", "List requests.", {}},
        {"informer_watch_requests_total", "Watch requests.", {}},
        {"informer_bad_objects_total", "Objects that could not be used.", {}},
        {"informer_handler_exceptions_total", "Exceptions that left an event handler.", {}},
        {"informer_lag_seconds",
         "From a change's arrival until it is in every subscriber's queue, for the oldest of each batch.", lag_seconds},
        {"informer_shard_members", "Live members of the shard group that this process sees.", {}},
        {"informer_shard_active", "1 while this process owns keys of the shard group itself, else 0.", {}},
        {"informer_metrics_dropped_total", "Figures that could not be kept: bad names, or too many time series.", {}},
    };
}

// Never destroyed: metrics may be reported while the program's own statics are being destroyed.
const std::vector<known_metric>& known() {
    static const std::vector<known_metric>& all = *new std::vector<known_metric>(all_known());
    return all;
}

} // namespace

const known_metric* find_known_metric(std::string_view name) {
    const auto& all = known();
    const auto found = std::find_if(all.begin(), all.end(), [&](const known_metric& m) { return m.name == name; });
    return found == all.end() ? nullptr : &*found;
}

const std::vector<double>& default_buckets() {
    static const std::vector<double>& all =
        *new std::vector<double>{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};
    return all;
}

} // namespace informer::serving::detail
