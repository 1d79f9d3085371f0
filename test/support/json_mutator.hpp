// Texts that are near JSON.
#pragma once

#include "support/pod_generator.hpp"

#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace informer::testing {

/// And near what the pool treats apart.
class json_mutator {
public:
    explicit json_mutator(unsigned seed) : random_(seed) {}
    std::size_t pick(std::size_t n) { return random_() % n; }
    std::string text() {
        static const std::vector<std::string> whole = {
            R"({"metadata":{"name":"a","managedFields":[{"x":"]\"}","y":[{}]}],"uid":"123e4567-e89b-12d3-a456-426614174000"},"n":[1e400,-0.5,12345678901]})",
            R"({"kind":"K","metadata" : { "managedFields"  :  {"a":[1,2,{"b":null}]} , "labels":{"managedFields":"x"}},"t":true,"f":false,"z":null})",
            R"({"metadata":{"managedFields":[{]]},"a":["managedFields"],"b":{"managedFields":[1]}})",
            R"({"s":"\u00e9\ud83d\ude00\\\"\n\\\\","t":"äöü日本😀","u":"\\\\\\\\\\\\\\\\\\\\","v":["\u0001","\/"]})",
            R"({"a":[[[[[[[[[[]]]]]]]]]],"a":{"b":{"c":{}}},"b":"2024-05-06T07:08:09Z","c":["abc","abcd","",1,22,333333333]})",
        };
        std::string s = pick(6) == 0 ? pod(static_cast<unsigned>(pick(50)), static_cast<unsigned>(pick(3))) : whole[pick(whole.size())];
        static const std::vector<std::string> pieces = {"\"", "\\", "{", "}", "[", "]", ",", ":", "\\u", "\\ud83d", "\xff", "\xe4", "\xc3\xa4",
                                                        " ",  "0",  "-", ".", "e", "x", "\n", "\x01", "\"managedFields\":", "null", "tru"};
        for (std::size_t n = pick(4); n > 0; --n) {
            const std::size_t at = pick(s.size() + 1);
            switch (pick(4)) {
            case 0: s.insert(at, pieces[pick(pieces.size())]); break;
            case 1: s.erase(at, 1 + pick(4)); break;
            case 2: s.resize(at); break;
            default: s.replace(at, 1, pieces[pick(pieces.size())]);
            }
            if (s.size() < 2) s = "{}";
        }
        return s;
    }

private:
    std::mt19937 random_;
};

} // namespace informer::testing
