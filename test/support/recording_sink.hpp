// A metrics sink that keeps what it is told, by name and labels: "workqueue_depth name=foos".
#pragma once

#include <informer/runtime.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace informer::testing {

class recording_sink final : public metrics_sink {
public:
    void add(std::string_view name, double value, labels of) override { counters[full(name, of)] += value; }
    void set(std::string_view name, double value, labels of) override { gauges[full(name, of)] = value; }
    void observe(std::string_view name, double value, labels of) override { samples[full(name, of)].push_back(value); }

    std::map<std::string, double> counters, gauges;
    std::map<std::string, std::vector<double>> samples;

private:
    static std::string full(std::string_view name, labels of) {
        std::string s(name);
        for (const label& l : of) s += " " + std::string(l.first) + "=" + std::string(l.second);
        return s;
    }
};

} // namespace informer::testing
