// sample-controller: Kubernetes' sample controller (Foo → Deployment) on libinformer.
#include "common/standard_descriptors.hpp"
#include "program.hpp"

#include <exception>

int main(int argc, char** argv) {
    if (!common::occupy_standard_descriptors(false)) return 1;
    sample_controller::options o;
    int code = 0;
    if (!sample_controller::parse(argc, argv, o, code)) return code;
    try {
        return sample_controller::run(o);
    } catch (const std::exception& e) {
        return sample_controller::complain(e.what());
    }
}
