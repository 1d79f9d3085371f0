// A broken metrics sink: every call throws.
#pragma once

#include <informer/runtime.hpp>

#include <stdexcept>
#include <string_view>

namespace informer::testing {

class throwing_sink final : public metrics_sink {
public:
    void add(std::string_view, double, labels) override { throw std::runtime_error("no room"); }
    void set(std::string_view, double, labels) override { throw 1; }
    void observe(std::string_view, double, labels) override { throw std::runtime_error("no room"); }
    void forget(std::string_view, labels) override { throw 2; }
};

} // namespace informer::testing
