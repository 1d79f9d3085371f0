#include "serving/process_figures.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include <sys/resource.h>
#include <unistd.h>

namespace informer::serving::detail {

namespace {

double boot_time() { // seconds since the epoch
    std::ifstream stat("/proc/stat");
    std::string word;
    double at = 0;
    while (stat >> word)
        if (word == "btime") {
            stat >> at;
            break;
        }
    return at;
}

} // namespace

std::optional<process_figures> read_process_figures() {
    std::ifstream file("/proc/self/stat");
    std::string line;
    if (!std::getline(file, line)) return std::nullopt;
    file.close(); // an open file would be counted below
    // Field 2, the program's name in parentheses, may hold anything, also spaces and parentheses: field 3 begins after
    // the last ')'.
    const auto end_of_name = line.rfind(')');
    if (end_of_name == std::string::npos) return std::nullopt;
    std::istringstream fields(line.substr(end_of_name + 1));
    std::string skipped;
    for (int field = 3; field < 14; ++field) fields >> skipped;
    double user = 0, system = 0, started = 0, virtual_bytes = 0, pages = 0;
    fields >> user >> system; // 14, 15
    for (int field = 16; field < 22; ++field) fields >> skipped;
    fields >> started >> virtual_bytes >> pages; // 22, 23, 24
    if (!fields) return std::nullopt;

    const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
    process_figures p;
    p.cpu_seconds = (user + system) / ticks;
    p.virtual_bytes = virtual_bytes;
    p.resident_bytes = pages * static_cast<double>(::sysconf(_SC_PAGESIZE));
    static const double boot = boot_time();
    p.start_time = boot + started / ticks;
    std::error_code ec;
    for (std::filesystem::directory_iterator i("/proc/self/fd", ec), end; !ec && i != end; i.increment(ec))
        p.open_fds += 1;
    if (p.open_fds > 0) p.open_fds -= 1; // the one that this count uses
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) p.max_fds = static_cast<double>(limit.rlim_cur);
    return p;
}

} // namespace informer::serving::detail
