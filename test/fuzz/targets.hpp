// What is fuzzed: one function for each kind of input from outside. Each takes any bytes, checks what must hold, and
// aborts if it does not. libFuzzer calls them with `./dev fuzz`, and `./dev test` with the inputs in corpus/.
#pragma once

#include <cstddef>
#include <string_view>

namespace informer::fuzz {

void documents(std::string_view input);   ///< versions of objects, read in two ways
void frames(std::string_view input);      ///< lists and watches, in pieces
void messages(std::string_view input);    ///< HTTP answers, gzip included, in pieces
void gateway(std::string_view input);     ///< etcd's answers, in pieces, and the objects made of them
void answers(std::string_view input);     ///< Status, warnings, credentials of plugins, what a proxy says
void kubeconfigs(std::string_view input); ///< a file, and the configuration made of it
void texts(std::string_view input);       ///< selectors, addresses, times, versions, base64, pointers
void patches(std::string_view input);     ///< JSON patches and merge patches of values

using target_function = void (*)(std::string_view);
struct named_target {
    std::string_view name;
    target_function run;
};
inline constexpr named_target targets[] = {
    {"answers", answers},         {"documents", documents}, {"frames", frames},   {"gateway", gateway},
    {"kubeconfigs", kubeconfigs}, {"messages", messages},   {"patches", patches}, {"texts", texts},
};

} // namespace informer::fuzz
