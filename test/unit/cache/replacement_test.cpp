// What is collected of a new state is there whenever it is asked for, the object put last included.
#include "cache/replacement.hpp"

#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <string>

using namespace informer;

namespace {

object made(const std::string& name, int v) {
    return parse_object(R"({"metadata":{"name":")" + name + R"(","namespace":"n"},"v":)" + std::to_string(v) + "}");
}

} // namespace

TEST_CASE("replacement: of one key the object put last stays, whenever it is looked for") {
    detail::replacement all(7);
    all.put(made("a", 1));
    CHECK(all.objects().size() == 1);
    all.put(made("a", 2));
    all.put(made("a", 3));
    all.put(made("b", 4));
    REQUIRE(all.objects().size() == 2);
    CHECK(all.objects().find(made("a", 0))->value()["v"].as_int64() == 3);
    CHECK(all.objects().find(made("b", 0))->value()["v"].as_int64() == 4);
}

TEST_CASE("replacement: what is restored holds nothing that came later") {
    detail::replacement all(7);
    all.put(made("a", 1));
    detail::replacement before = all;
    all.put(made("b", 2));
    all.put(made("a", 3));
    all.quarantine(bad_object());
    CHECK(before.objects().size() == 1);
    all.restore(before);
    CHECK(all.proves_absence(object_key("", "b")));
    REQUIRE(all.objects().size() == 1);
    CHECK(all.objects().find(made("a", 0))->value()["v"].as_int64() == 1);
}
