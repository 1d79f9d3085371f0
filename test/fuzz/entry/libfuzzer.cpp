// The entry of libFuzzer for one target, INFORMER_FUZZ_TARGET.
#include "fuzz/targets.hpp"

#include <cstddef>
#include <cstdint>

// NOLINTNEXTLINE(readability-identifier-naming) libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    informer::fuzz::INFORMER_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
    return 0;
}
