// Lists and watches, good and damaged, in pieces of any size: neither the cuts nor the errors depend on the pieces.
#include "framer_scene.hpp"

#include "support/fuzz.hpp"

#include <algorithm>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

using namespace informer;
using namespace informer::testing;

namespace {

class generator {
public:
    explicit generator(unsigned seed) : random_(seed) {}
    std::size_t pick(std::size_t n) { return n == 0 ? 0 : random_() % n; }
    bool one_in(std::size_t n) { return pick(n) == 0; }

    std::string list() {
        std::vector<std::string> members{"\"kind\":\"PodList\"", "\"metadata\":" + object(), "\"items\":["};
        for (std::size_t n = pick(6); n > 0; --n) members.back() += object() + (n > 1 ? "," : "");
        members.back() += "]";
        std::shuffle(members.begin(), members.end(), random_);
        std::string s;
        for (const std::string& m : members) s += (s.empty() ? "{" : ",") + space() + m + space();
        return maybe_damaged(s + "}", 2);
    }
    std::string watch() {
        static constexpr std::string_view types[] = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"};
        std::string s;
        for (std::size_t n = pick(6); n > 0; --n) {
            const std::string type = "\"type\":\"" + std::string(types[pick(4)]) + "\"", of = "\"object\":" + object();
            s += maybe_damaged(
                one_in(4) ? "{" + space() + of + "," + space() + type + "}" : "{" + type + "," + of + "}", 4);
            s += one_in(9) ? space() : "\n";
        }
        return maybe_damaged(s, 8);
    }
    std::size_t limit() { return one_in(2) ? default_max_object : 1 + pick(one_in(2) ? 20 : 200); }
    std::vector<std::string_view> pieces_of(std::string_view s) {
        const std::size_t most = one_in(3) ? 1 : one_in(2) ? 10 : 200;
        std::vector<std::string_view> pieces;
        for (; !s.empty(); s.remove_prefix(pieces.back().size())) pieces.push_back(s.substr(0, pick(most) + 1));
        return pieces;
    }

private:
    std::string space() { return one_in(5) ? std::string(1 + pick(3), " \n\t\r"[pick(4)]) : std::string(); }
    std::string object() {
        static constexpr std::string_view values[] = {
            "1",  "-2.5e7",    "null", "\"text\"", "\"\\\"\\\\\"", "\"},{\\\"metadata\\\":\"",
            "{}", "[1,[2,3]]", "true", "\"\"",     "{\"a\":[{}]}", "[{\"b\":{\"c\":0}}]"};
        std::string s = "{\"metadata\":{\"name\":\"n" + std::to_string(pick(100)) + "\"}";
        for (std::size_t n = pick(4); n > 0; --n)
            s += "," + space() + "\"k" + std::to_string(n) + "\":" + space() +
                 std::string(values[pick(std::size(values))]);
        return s + "}";
    }
    std::string maybe_damaged(std::string s, std::size_t one_of) {
        static constexpr std::string_view likely = "\"\\{}[],:x1 \n";
        for (std::size_t n = one_in(one_of) ? 1 + pick(2) : 0; n > 0 && !s.empty(); --n) {
            const std::size_t at = pick(s.size());
            switch (pick(4)) {
            case 0: s[at] = likely[pick(likely.size())]; break;
            case 1: s.insert(at, 1, likely[pick(likely.size())]); break;
            case 2: s.erase(at, 1 + pick(4)); break;
            default:
                if (one_in(4)) s.resize(at);
            }
        }
        return s;
    }
    std::mt19937 random_;
};

bool begins_with(const auto& all, const auto& some) {
    return some.size() <= all.size() && std::equal(some.begin(), some.end(), all.begin());
}

} // namespace

TEST_CASE("damaged lists come out the same in pieces of any size", "[framer]") {
    generator g(fuzz_seed(21));
    for (std::size_t i = 0; i < fuzz_rounds(6'000); ++i) {
        const std::string text = g.list();
        const std::size_t limit = g.limit();
        const listing whole = cut({text}, limit, way::feeding);
        for (const way how : {way::feeding, way::lending, way::guessing}) {
            const listing l = cut(g.pieces_of(text), limit, how);
            // In a list without an end, the last items may still wait for one that begins like them.
            const bool waits = how == way::guessing && !whole.done && !l.done && begins_with(whole.items, l.items) &&
                               (!l.failed || l.failed.what() == whole.failed.what());
            if (l == whole || waits) continue;
            CAPTURE(text, limit, whole.failed.what(), l.failed.what(), whole.items, l.items);
            FAIL("the pieces decide");
        }
    }
}

TEST_CASE("damaged watches come out the same in pieces of any size", "[framer]") {
    generator g(fuzz_seed(22));
    for (std::size_t i = 0; i < fuzz_rounds(6'000); ++i) {
        const std::string text = g.watch();
        const std::size_t limit = g.limit();
        const stream whole = cut_stream({text}, limit, false);
        for (const bool lending : {false, true}) {
            const stream s = cut_stream(g.pieces_of(text), limit, lending);
            const bool is_less = s.events.size() < whole.events.size();
            const stream &less = is_less ? s : whole, &more = is_less ? whole : s;
            // If the stream breaks off behind an event without a line feed, the event may still wait for its line.
            const bool waits = !s.idle && !whole.idle && !less.failed && begins_with(more.events, less.events);
            if (s == whole || waits) continue;
            CAPTURE(text, limit, whole.failed.what(), s.failed.what(), whole.events.size(), s.events.size());
            FAIL("the pieces decide");
        }
    }
}
