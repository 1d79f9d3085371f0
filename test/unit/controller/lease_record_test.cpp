// What a Lease says, and how it is changed.
#include "election_logic_scene.hpp"

#include <informer/object/json.hpp>

#include <boost/json.hpp>

#include <chrono>

using namespace election_logic_test;

TEST_CASE("a Lease's duration is whole seconds, rounded up") {
    CHECK(whole_seconds(15s) == 15s);
    CHECK(whole_seconds(1500ms) == 2s);
    CHECK(whole_seconds(1ms) == 1s);
}

TEST_CASE("LE9 other writers' labels, annotations and members of a Lease stay, ours are added") {
    boost::json::value theirs = {{"apiVersion", "coordination.k8s.io/v1"},
                                 {"kind", "Lease"},
                                 {"metadata",
                                  {{"name", "lock"},
                                   {"namespace", "ns"},
                                   {"resourceVersion", "12"},
                                   {"labels", {{"theirs", "1"}, {"both", "old"}}},
                                   {"annotations", {{"a", "b"}}}}},
                                 {"spec", {{"holderIdentity", "you"}, {"strategy", "OldestEmulationVersion"}}}};
    const object base = from_value(theirs);
    const auto now = change_lease(base, {{"both", "new"}, {"ours", "2"}}, held_by("me"));
    CHECK(now.at_pointer("/metadata/labels/theirs") == "1");
    CHECK(now.at_pointer("/metadata/labels/both") == "new");
    CHECK(now.at_pointer("/metadata/labels/ours") == "2");
    CHECK(now.at_pointer("/metadata/annotations/a") == "b");
    CHECK(now.at_pointer("/metadata/resourceVersion") == "12");
    CHECK(now.at_pointer("/spec/strategy") == "OldestEmulationVersion");
    CHECK(lease_record(from_value(now)) == held_by("me"));
}

TEST_CASE("a Lease with nonsense in its members is read as an empty one") {
    for (
        const char* text :
        {R"({"metadata":{"name":"x"}})", R"({"metadata":{"name":"x"},"spec":7})",
         R"({"metadata":{"name":"x"},"spec":{"holderIdentity":[],"leaseDurationSeconds":"15","leaseTransitions":-5}})"}) {
        const lease_record r(from_value(boost::json::parse(text)));
        CHECK(r == lease_record());
    }
    const lease_record big(from_value(boost::json::parse(
        R"({"metadata":{"name":"x"},"spec":{"leaseDurationSeconds":9223372036854775807,"leaseTransitions":9223372036854775807}})")));
    CHECK(big.duration == std::chrono::seconds(2147483647));
    CHECK(big.transitions == 2147483646);
}
