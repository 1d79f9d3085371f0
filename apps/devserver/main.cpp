// devserver: the embedded API server as a program, with a small living cluster if asked for.
#include "common/standard_descriptors.hpp"
#include "options.hpp"
#include "service.hpp"

#include <exception>
#include <iostream>

int main(int argc, char** argv) {
    if (!common::occupy_standard_descriptors(false)) return 1; // a daemon without stdout is fine
    devserver::options o;
    int code = 0;
    if (!devserver::parse(argc, argv, o, code)) return code;
    try {
        return devserver::serve(o);
    } catch (const std::exception& e) {
        std::cerr << "devserver: " << e.what() << '\n';
        return 1;
    }
}
