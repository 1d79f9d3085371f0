#include "name_server.hpp"

#include <dlfcn.h>
#include <netdb.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <thread>

namespace http_test {

namespace {

std::mutex mutex;
std::condition_variable let;
bool held = false;
int round_of_look_ups = 0; ///< those of an earlier object do not wait for the next one
int begun_look_ups = 0;

void look_up_held() {
    std::unique_lock lock(mutex);
    ++begun_look_ups;
    let.wait(lock, [mine = round_of_look_ups] { return !held || round_of_look_ups != mine; });
}

} // namespace

held_look_ups::held_look_ups() {
    const std::lock_guard lock(mutex);
    held = true;
    ++round_of_look_ups;
    begun_look_ups = 0;
}

held_look_ups::~held_look_ups() {
    let_go();
}

int held_look_ups::begun() const {
    const std::lock_guard lock(mutex);
    return begun_look_ups;
}

void held_look_ups::let_go() {
    const std::lock_guard lock(mutex);
    held = false;
    let.notify_all();
}

} // namespace http_test

using namespace http_test;

/// Takes the place of the C library's function, and calls it for other names.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** result) {
    using function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
    static const auto real = reinterpret_cast<function>(::dlsym(RTLD_NEXT, "getaddrinfo"));
    const std::string_view name = node ? node : "";
    if (name == "slow.test") {
        const std::chrono::milliseconds delay(resolver_delay_ms.load());
        ++resolver_busy;
        std::this_thread::sleep_for(delay); // lint: sleep a slow name server is what is tested
        --resolver_busy;
        ++resolver_done;
    }
    if (name == "nowhere.test" || name == "slow.test") return EAI_NONAME;
    if (name == "two.test") {
        const int bad = real("127.0.0.1", service, hints, result);
        return bad != 0 ? bad : real("127.0.0.2", service, hints, &(*result)->ai_next);
    }
    if (name == "held.test") {
        look_up_held();
        return real("127.0.0.1", service, hints, result);
    }
    return real(node, service, hints, result);
}
