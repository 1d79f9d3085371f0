// path: test/unit/cache/sample.cpp
#include <thread>
void f() {
    std::this_thread::sleep_for(1s); // expect: sleep
    std::this_thread::sleep_until(t); // expect: sleep
    usleep(5); // expect: sleep
    auto a = clock.sleep_for(1s);
    // std::this_thread::sleep_for(1s);
    log("std::this_thread::sleep_for");
    std::this_thread::sleep_for(1s); // lint: sleep nothing else can happen here
}
