// The inputs that are kept: examples to begin with, and inputs that once failed.
#include "targets.hpp"

#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace {

std::string bytes_of(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

} // namespace

TEST_CASE("what must hold for every input holds for the inputs that are kept", "[fuzz]") {
    for (const auto& target : informer::fuzz::targets) {
        DYNAMIC_SECTION(target.name) {
            int inputs = 0;
            for (const auto& file : std::filesystem::directory_iterator(
                     std::filesystem::path(INFORMER_TEST_DIR "/fuzz/corpus") / target.name)) {
                INFO(file.path());
                target.run(bytes_of(file.path()));
                ++inputs;
            }
            CHECK(inputs > 0);
        }
    }
}
