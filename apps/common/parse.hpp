// How the programs parse their command lines.
#pragma once

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <sstream>
#include <string>

namespace common {

/// Accepts a number of things. CLI11's own check names the largest double in its message, digit by digit.
inline CLI::Validator count() {
    const auto judge = [](const std::string& text) {
        const bool whole = std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
        return whole && !text.empty() ? std::string() : text + " is not a whole number from 0 on";
    };
    return CLI::Validator("NONNEGATIVE").operation(judge);
}

/// Accepts a number from `least` to `most`. CLI11's own check lets NaN pass, which is neither too small nor too large.
inline CLI::Validator between(double least, double most) {
    const auto judge = [least, most](const std::string& text) {
        double number = 0;
        if (CLI::detail::lexical_cast(text, number) && number >= least && number <= most) return std::string();
        std::ostringstream why;
        why << text << " is not a number from " << least << " to " << most;
        return why.str();
    };
    CLI::Validator accepts = CLI::Range(least, most); // for its words in the help
    return accepts.operation(judge);
}

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
