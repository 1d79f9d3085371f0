// How the programs parse their command lines.
#pragma once

#include <CLI/CLI.hpp>

#include <iostream>

namespace common {

/// False if the program is to end at once with `code`: 0 after --help and --version, 2 for wrong usage, which is
/// reported on stderr.
inline bool parse(CLI::App& app, int argc, char** argv, int& code) {
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) {
            code = app.exit(e);
        } else {
            std::cerr << app.get_name() << ": " << e.what() << " (see " << app.get_name() << " --help)\n";
            code = 2;
        }
        return false;
    }
    return true;
}

} // namespace common
