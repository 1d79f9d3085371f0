// Passes what an exec plugin writes to stderr on to the program or its log, while the plugin runs.
#pragma once

#include <informer/kubernetes/config.hpp>
#include <informer/runtime.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace informer::kubernetes::detail {

/// The stderr of one run. Each line goes to `on_stderr` or the logger when it is complete: a user who is asked to open
/// a page and enter a code must see that before the plugin ends. In the log, lines are masked and printable; only the
/// first fifty are logged, and only the beginning of a long one.
class exec_lines {
public:
    exec_lines(runtime r, std::string name, const exec_plugin& p);

    /// The bytes as they arrive, in pieces of any size; empty: the end.
    void hear(std::string_view bytes);

    static constexpr std::size_t most_lines = 50, longest = 4 << 10, longest_shown = 512;

private:
    void tell();

    runtime runtime_;
    std::string name_;
    exec_plugin plugin_;
    std::string line_;    ///< the current line, as far as it has arrived
    bool cut_ = false;    ///< the line was longer than `longest`
    bool in_key_ = false; ///< between the lines that begin and end a private key
    std::size_t told_ = 0;
};

} // namespace informer::kubernetes::detail
