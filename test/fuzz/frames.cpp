// Lists and watches, whole and in pieces: what is cut out of them, and the error that is reported, must be the same.
//
// The input is a byte of options, two bytes that determine the pieces, and the text.
#include "input.hpp"
#include "targets.hpp"

#include <informer/object/framer.hpp>

#include <boost/json/parse.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace informer::fuzz {
namespace {

bool is_json(std::string_view text) {
    boost::system::error_code no_json;
    boost::json::parse(text, no_json);
    return !no_json;
}

struct outcome {
    std::vector<std::string> cut; ///< "type object", or an item
    std::string end;              ///< what the framer says about itself at the end
    failure failed;
    bool complete = false;

    bool operator==(const outcome& o) const { return cut == o.cut && end == o.end && failed.what() == o.failed.what(); }
    /// Whether `cut` is equal to that of the other one, or a beginning of it.
    bool begins(const outcome& o) const {
        return cut.size() <= o.cut.size() && std::equal(cut.begin(), cut.end(), o.cut.begin());
    }
};

void take(const list_framer& f, outcome& o) {
    o.cut.push_back((f.oversized() ? "large " : "") + std::string(f.item()));
}
void take(const watch_framer& f, outcome& o) {
    o.cut.push_back((f.oversized() ? "large " : "") + std::string(f.type()) + " " + std::string(f.object()));
}
std::string_view guessed(const list_framer& f) {
    return f.item();
}
std::string_view guessed(const watch_framer& f) {
    return f.object();
}
void finish(const list_framer& f, outcome& o) {
    o.complete = f.done();
    o.end = (f.done() ? "done " : "") + f.envelope();
}
void finish(const watch_framer& f, outcome& o) {
    o.complete = f.idle();
    o.end = f.idle() ? "idle" : "";
}

template <class Framer>
outcome cut(Framer framer, const std::vector<std::string_view>& pieces, bool lending) {
    outcome o;
    for (const std::string_view piece : pieces) {
        const exact bytes(piece); // freed after this piece
        if (lending)
            framer.lend(bytes.view());
        else
            framer.feed(bytes.view());
        while (framer.next(o.failed)) {
            if (framer.unproven() && !is_json(guessed(framer)))
                framer.look_again();
            else
                take(framer, o);
        }
    }
    finish(framer, o);
    return o;
}

list_framer guessing(std::size_t limit) {
    list_framer f(limit);
    f.guess();
    return f;
}

} // namespace

void frames(std::string_view bytes) {
    input in(bytes);
    const std::uint8_t choice = in.byte();
    const std::size_t limit = choice & 2 ? 1 + (choice >> 2) * 4U : default_max_object;
    const std::uint32_t seed = in.number();
    const std::string_view text = in.rest();
    const std::vector<std::string_view> whole{text}, cut_up = pieces(text, seed);
    if (choice & 1) {
        const outcome at_once = cut(list_framer(limit), whole, false);
        expect(cut(list_framer(limit), cut_up, false) == at_once, "a list in pieces is another one");
        expect(cut(list_framer(limit), cut_up, true) == at_once, "a lent list is another one");
        const outcome guess = cut(guessing(limit), cut_up, true);
        // If a list is not complete, a guess may still wait for the item after the last ones.
        expect(guess == at_once || (!at_once.complete && !guess.complete && guess.begins(at_once)),
               "a list that is guessed at is another one");
    } else {
        const outcome at_once = cut(watch_framer(limit), whole, false);
        for (const bool lending : {false, true}) {
            const outcome other = cut(watch_framer(limit), cut_up, lending);
            // Behind an event without a line feed the stream breaks off: one of the two may wait for its line.
            const bool waits = !other.complete && !at_once.complete &&
                               ((other.begins(at_once) && !other.failed) || (at_once.begins(other) && !at_once.failed));
            expect(other == at_once || waits, "a watch in pieces is another one");
        }
    }
    // A key can be read from the beginning of a text alone, and in steps.
    key_peek peek(text);
    while (!peek.step(5)) {
    }
    expect(peek.key() == peek_key(text), "a key in steps is another one");
    const std::string uid = peek_uid(text.substr(0, text.size() / 2));
    expect(uid.empty() || uid == peek_uid(text), "the uid of a text that breaks off is another one");
}

} // namespace informer::fuzz
