// What is fuzzed: one function for each kind of what strangers send us. Each takes any bytes, checks what must hold, and aborts
// where it does not. By libFuzzer with `./dev fuzz`; the inputs in corpus/ also by `./dev test`.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace informer::fuzz {

void documents(std::string_view input);   ///< versions of objects, read in two ways
void frames(std::string_view input);      ///< lists and watches, in pieces
void messages(std::string_view input);    ///< HTTP answers, gzip included, in pieces
void gateway(std::string_view input);     ///< etcd's answers, in pieces, and the objects made of them
void answers(std::string_view input);     ///< Status, warnings, credentials of plugins, what a proxy says
void kubeconfigs(std::string_view input); ///< a file, and the configuration made of it
void texts(std::string_view input);       ///< selectors, addresses, times, versions, pointers
void patches(std::string_view input);     ///< of documents, which are values

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
