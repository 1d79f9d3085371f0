// Help texts and buckets of the metrics that this library reports.
#pragma once

#include <string_view>
#include <vector>

namespace informer::serving::detail {

struct known_metric {
    std::string_view name;
    std::string_view help;
    std::vector<double> buckets; ///< of a histogram
};

/// Null if the library reports no such metric.
const known_metric* find_known_metric(std::string_view name);
const std::vector<double>& default_buckets();

} // namespace informer::serving::detail
