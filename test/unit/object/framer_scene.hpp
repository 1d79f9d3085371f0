// Lists and watches, handed over to their framers in pieces of any kind, and what is cut from them.
#pragma once

#include <informer/object/framer.hpp>

#include <boost/json/parse.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace informer::testing {

struct listing {
    std::vector<std::string> items;
    std::vector<bool> oversized;
    std::string envelope;
    bool done = false;
    failure failed;
    friend bool operator==(const listing& a, const listing& b) {
        return a.items == b.items && a.oversized == b.oversized && a.envelope == b.envelope && a.done == b.done &&
               a.failed.what() == b.failed.what();
    }
};

inline bool is_json(std::string_view text) {
    boost::system::error_code no_json;
    boost::json::parse(text, no_json);
    return !no_json;
}

/// Takes all items; one that was cut by a guess and is no JSON is looked at again. Returns how many bytes those had.
inline std::size_t drain(list_framer& framer, listing& to) {
    std::size_t wrong = 0;
    while (framer.next(to.failed)) {
        if (framer.unproven() && !is_json(framer.item())) {
            wrong += framer.item().size();
            framer.look_again();
            continue;
        }
        CHECK(framer.position() == to.items.size());
        to.items.emplace_back(framer.item());
        to.oversized.push_back(framer.oversized());
    }
    return wrong;
}

/// Hands over a copy of exact size that is gone afterwards, so that ASan sees reads beyond the piece and after its
/// time.
template <class Framer, class Drain>
void hand_over(Framer& framer, std::string_view piece, bool lending, const Drain& drain) {
    const std::vector<char> exact(piece.begin(), piece.end());
    const std::string_view bytes(exact.data(), exact.size());
    if (lending)
        framer.lend(bytes);
    else
        framer.feed(bytes);
    drain();
}

enum class way { feeding, lending, guessing };

inline listing cut(const std::vector<std::string_view>& pieces, std::size_t limit, way how) {
    list_framer framer(limit);
    if (how == way::guessing) framer.guess();
    listing l;
    for (const auto& p : pieces) hand_over(framer, p, how != way::feeding, [&] { drain(framer, l); });
    l.done = framer.done();
    l.envelope = framer.envelope();
    return l;
}

inline listing cut(const std::vector<std::string_view>& pieces, std::size_t limit = default_max_object) {
    const listing l = cut(pieces, limit, way::feeding);
    const bool lent_is_same = cut(pieces, limit, way::lending) == l;
    CHECK(lent_is_same);
    listing guessed = cut(pieces, limit, way::guessing);
    // where a text breaks off, the last item may wait for more
    if (!l.done && guessed.items.size() + 1 == l.items.size()) {
        guessed.items.push_back(l.items.back());
        guessed.oversized.push_back(l.oversized.back());
    }
    const bool guessed_is_same = guessed == l;
    CHECK(guessed_is_same);
    return l;
}

inline std::vector<std::string_view> bytes_of(std::string_view s) {
    std::vector<std::string_view> pieces;
    for (std::size_t i = 0; i < s.size(); ++i) pieces.push_back(s.substr(i, 1));
    return pieces;
}

// However it is cut, the result is that of the whole.
template <class Cut>
auto cut_everywhere(std::string_view s, Cut one) {
    const auto whole = one({s});
    for (std::size_t i = 0; i <= s.size(); ++i) {
        const bool same = one({s.substr(0, i), s.substr(i)}) == whole;
        if (!same) FAIL_CHECK("cut at byte " << i << " gives something else");
    }
    const bool same = one(bytes_of(s)) == whole;
    CHECK(same);
    return whole;
}

struct event {
    std::string type, object;
    bool oversized = false;
    friend bool operator==(const event&, const event&) = default;
};

struct stream {
    std::vector<event> events;
    bool idle = false;
    failure failed;
    friend bool operator==(const stream& a, const stream& b) {
        return a.events == b.events && a.idle == b.idle && a.failed.what() == b.failed.what();
    }
};

/// `lending`: the pieces are lent, and an unproven event that is no JSON is looked at again.
inline stream cut_stream(const std::vector<std::string_view>& pieces, std::size_t limit, bool lending) {
    watch_framer framer(limit);
    stream s;
    const auto drain = [&] {
        while (framer.next(s.failed)) {
            if (framer.unproven() && !is_json(framer.object())) {
                framer.look_again();
                continue;
            }
            CHECK(framer.position() == s.events.size());
            s.events.push_back({std::string(framer.type()), std::string(framer.object()), framer.oversized()});
        }
    };
    for (const auto& p : pieces) hand_over(framer, p, lending, drain);
    s.idle = framer.idle();
    return s;
}

inline stream cut_stream(const std::vector<std::string_view>& pieces, std::size_t limit = default_max_object) {
    const stream s = cut_stream(pieces, limit, false);
    CHECK(cut_stream(pieces, limit, true) == s);
    return s;
}

/// Feeds 128 MB of white space behind `head`; returns how much the process grew by it.
template <class Framer>
std::size_t growth_by_space(Framer& framer, std::string_view head, failure& f) {
    const auto resident = [] {
        std::ifstream statm("/proc/self/statm");
        std::size_t size = 0, pages = 0;
        statm >> size >> pages;
        return pages * 4096;
    };
    const std::string spaces(std::size_t(1) << 20, ' ');
    framer.feed(head);
    CHECK_FALSE(framer.next(f));
    const std::size_t before = resident();
    for (int i = 0; i < 128; ++i) {
        framer.lend(spaces);
        CHECK_FALSE(framer.next(f));
    }
    const std::size_t after = resident();
    return after - std::min(before, after);
}

} // namespace informer::testing
