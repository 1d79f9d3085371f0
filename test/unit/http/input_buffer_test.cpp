// How much is read at once.
#include "http/input_buffer.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

using informer::http::detail::input_buffer;

namespace {

/// One read of `n` bytes, all of which are consumed; returns the room that it had.
std::size_t read(input_buffer& in, std::size_t n, bool waited = false) {
    const std::size_t room = in.prepare().size();
    in.commit(std::min(n, room), waited);
    in.consume(in.size());
    return room;
}

} // namespace

TEST_CASE("reads grow while they are filled, and the memory goes back after a row of short ones", "[input_buffer]") {
    input_buffer in;
    const std::size_t first = read(in, input_buffer::most);
    CHECK(first == input_buffer::piece);
    for (int i = 0; i < 10; ++i) read(in, input_buffer::most);
    CHECK(read(in, 100) == input_buffer::most);
    for (int i = 0; i < 100; ++i) read(in, 100);
    CHECK(read(in, 100) == input_buffer::piece);
}

TEST_CASE("a short read that was long waited for gives most of the memory back, until a read is filled",
          "[input_buffer]") {
    input_buffer in;
    for (int i = 0; i < 10; ++i) read(in, input_buffer::most);
    CHECK(read(in, input_buffer::most, true) == input_buffer::most); // a long one does not
    CHECK(read(in, 100, true) == input_buffer::most);
    CHECK(read(in, 100, true) == input_buffer::idle);
    CHECK(read(in, 100) == input_buffer::idle);
    CHECK(read(in, input_buffer::most, true) == input_buffer::idle);
    CHECK(read(in, input_buffer::most) == input_buffer::piece);
}

TEST_CASE("the first short read that was long waited for gives the memory back also while a line end is pending",
          "[input_buffer]") {
    input_buffer in;
    in.prepare();
    in.commit(100, true);
    in.consume(in.size() - 2);
    CHECK(in.prepare().size() <= input_buffer::idle);
    CHECK(in.size() == 2);
}

TEST_CASE("a long read now and then keeps its room", "[input_buffer]") {
    input_buffer in;
    for (int i = 0; i < 10; ++i) read(in, input_buffer::most);
    for (int i = 0; i < 100; ++i) read(in, i % 10 == 0 ? input_buffer::most / 2 : 100);
    CHECK(read(in, 100) == input_buffer::most);
}

TEST_CASE("the memory goes back after a row of short reads also while a line end is pending", "[input_buffer]") {
    input_buffer in;
    for (int i = 0; i < 10; ++i) read(in, input_buffer::most);
    for (int i = 0; i < 100; ++i) {
        in.prepare();
        in.commit(100);
        in.consume(in.size() - 2);
    }
    CHECK(in.prepare().size() <= input_buffer::piece);
    CHECK(in.size() == 2);
}

TEST_CASE("the answer after a long one is read in long reads from the start, after a short one in short ones",
          "[input_buffer]") {
    input_buffer in;
    for (int i = 0; i < 10; ++i) read(in, input_buffer::most);
    in.release();
    CHECK(in.view().empty());
    CHECK(read(in, input_buffer::most) == input_buffer::most);
    for (int i = 0; i < 100; ++i) read(in, 100);
    in.release();
    CHECK(read(in, 100) == input_buffer::piece);
}

TEST_CASE("pending bytes stay when the memory is released", "[input_buffer]") {
    input_buffer in;
    const auto room = in.prepare();
    std::fill_n(static_cast<char*>(room.data()), 10, 'x');
    in.commit(10);
    in.consume(4);
    in.release();
    CHECK(in.view() == "xxxxxx");
}

TEST_CASE("pending bytes survive a read, and a row of short ones", "[input_buffer]") {
    input_buffer in;
    std::string sent, seen;
    for (unsigned i = 0; i < 2'000; ++i) {
        const auto room = in.prepare();
        const std::size_t n = i % 500 < 20 ? room.size() : 50;
        REQUIRE(room.size() >= n);
        for (std::size_t k = 0; k < n; ++k) static_cast<char*>(room.data())[k] = static_cast<char>('a' + (i + k) % 26);
        sent.append(static_cast<const char*>(room.data()), n);
        in.commit(n);
        const std::size_t used = i % 100 == 99 ? in.size() : in.size() * 3 / 4;
        seen += in.view().substr(0, used);
        in.consume(used);
    }
    seen += in.view();
    CHECK((seen == sent));
}

TEST_CASE("pending bytes survive a row of short reads, also if they are more than a short read has room for",
          "[input_buffer]") {
    input_buffer in;
    for (int i = 0; i < 10; ++i) read(in, input_buffer::most); // so that reads are long
    std::string all;
    const auto add = [&](std::size_t n) {
        const std::string some = std::to_string(all.size()) + std::string(n, 'x');
        const auto room = in.prepare();
        REQUIRE(room.size() >= some.size());
        std::memcpy(room.data(), some.data(), some.size());
        in.commit(some.size());
        all += some;
    };
    add(2 * input_buffer::piece);
    for (int i = 0; i < 2000; ++i) add(100);
    const bool same = in.view() == all;
    CHECK(same);
}
