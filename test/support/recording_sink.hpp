// A metrics sink that keeps all values by name and labels: "workqueue_depth name=foos".
#pragma once

#include <informer/runtime.hpp>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace informer::testing {

class recording_sink final : public metrics_sink {
public:
    void add(std::string_view name, double value, labels of) override { counters[told(name, of)] += value; }
    void set(std::string_view name, double value, labels of) override { gauges[told(name, of)] = value; }
    void observe(std::string_view name, double value, labels of) override { samples[told(name, of)].push_back(value); }
    void forget(std::string_view name, labels of) override { live.erase(full(name, of)); }

    std::map<std::string, double> counters, gauges;
    std::map<std::string, std::vector<double>> samples;
    std::set<std::string> live; ///< reported and not forgotten since

private:
    std::string told(std::string_view name, labels of) {
        std::string s = full(name, of);
        live.insert(s);
        return s;
    }
    static std::string full(std::string_view name, labels of) {
        std::string s(name);
        for (const label& l : of) s += " " + std::string(l.first) + "=" + std::string(l.second);
        return s;
    }
};

} // namespace informer::testing
