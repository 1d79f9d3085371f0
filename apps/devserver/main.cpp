// devserver: the embedded API server as a program, with a small living cluster if asked for.
#include "options.hpp"
#include "service.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <exception>
#include <iostream>

int main(int argc, char** argv) {
    // What the caller left closed of 0, 1 and 2 must not become a socket. A daemon without stdout is fine.
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
        if (::fcntl(fd, F_GETFD) == -1 && ::open("/dev/null", O_RDWR) != fd) return 1;
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
