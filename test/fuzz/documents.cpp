// Versions of objects in two pools that read them in different ways: by differences and token by token, or by our
// reader and by the parser of Boost.JSON. Both must make the same documents from the same texts, or refuse them with
// the same words.
//
// The input is a byte of options, and then parts that are one step each: a new text, an edit of the last one, or
// another operation on a pool.
#include "input.hpp"
#include "targets.hpp"

#include "object/detail/text_difference.hpp"

#include <informer/object/diff.hpp>
#include <informer/object/document_pool.hpp>

#include <boost/json/parse.hpp>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace informer::fuzz {
namespace {

class two_pools {
public:
    explicit two_pools(std::uint8_t choice) {
        decode_options options;
        const bool parser = choice & 1;
        // managedFields that are skipped are checked less strictly than the parser checks them.
        if (parser || choice & 2) options.keep_managed_fields();
        if (choice & 4) options.type("v1", "Pod");
        if (choice & 8) options.max_depth(6);
        if (choice & 16) options.project(projection::drop({"/spec/a", "/status", "/metadata/labels/k"}));
        if (choice & 32) options.project(projection::keep({"/spec/a/name", "/metadata/labels", "/spec/*/n"}));
        whole_ = parser && !(choice & (4 | 8 | 16 | 32));
        in_slices_ = choice & 64;
        detail::pool_limits at_once, by_parser;
        at_once.template_documents = 1;
        by_parser.parser_only = parser;
        detail::text_difference::tireless = true;
        a_.pool = detail::make_pool(decode_options(options).text_difference(!parser), at_once);
        b_.pool = detail::make_pool(decode_options(options).text_difference(false), by_parser);
    }

    void decode(std::size_t slot, const std::string& text, bool with_previous) {
        const exact same(text);
        const failure f = a_.decode(slot, same.view(), with_previous, in_slices_);
        const failure g = b_.decode(slot, same.view(), with_previous, false);
        expect(f.code() == g.code(), "refused in another way");
        // If there are several errors, decoding in slices may find another one first.
        expect(in_slices_ || f.message() == g.message(), "refused with other words");
        if (f) return;
        const object &x = a_.last[slot], &y = b_.last[slot];
        expect(x.to_json() == y.to_json(), "other documents");
        expect(x == y, "equal texts of unequal documents");
        expect(diff(x, y).empty(), "a difference of equal documents");
        expect(!with_previous || a_.unchanged == b_.unchanged, "unchanged in one way only");
        if (whole_) expect(boost::json::parse(x.to_json()) == boost::json::parse(text), "not what the text says");
    }
    template <class Do>
    void both(const Do& what) {
        what(a_);
        what(b_);
    }

    struct one {
        failure decode(std::size_t slot, std::string_view text, bool with_previous, bool in_slices) {
            failure f;
            const object previous = with_previous ? last[slot] : object();
            object o;
            if (in_slices) {
                const auto d = pool->begin_decode(text, previous);
                while (!d->step(7)) {
                }
                o = d->finish(f);
            } else {
                o = pool->decode(text, previous, f);
            }
            expect(bool(o) != bool(f), "neither a document nor an error, or both");
            unchanged = o && o.same_as(previous);
            if (o) last[slot] = std::move(o);
            return f;
        }
        void move_all() {
            pool->begin_generation();
            for (object& o : last) {
                failure f;
                if (!o) continue;
                const object before = std::exchange(o, pool->move(o, f));
                expect(!f && o == before && o.to_json() == before.to_json(), "a move changes a document");
            }
        }
        void finish() {
            last = {};
            while (!pool->collect(1000)) {
            }
            const pool_statistics s = pool->statistics();
            expect(s.nodes == 0 && s.referenced_nodes == 0 && s.objects == 0, "something is left in the pool");
        }
        std::shared_ptr<document_pool> pool;
        std::array<object, 4> last;
        bool unchanged = false;
    };

private:
    one a_, b_;
    bool whole_ = false, in_slices_ = false;
};

/// Replaces some bytes of a text by others.
void edit(std::string& text, input& in) {
    const std::size_t at = text.empty() ? 0 : in.number() % text.size();
    const std::size_t gone = in.byte() % 16;
    text.replace(at, gone, in.rest());
}

} // namespace

void documents(std::string_view bytes) {
    input in(bytes);
    two_pools pools(in.byte());
    std::string text;
    for (int steps = 0; !in.empty() && steps < 60; ++steps) {
        const std::uint8_t what = in.byte();
        input rest(in.part());
        const std::size_t slot = what & 3;
        switch (what >> 2 & 7) {
        case 0: pools.both([&](two_pools::one& p) { p.last[slot] = object(); }); break;
        case 1: pools.both([&](two_pools::one& p) { p.pool->collect(3); }); break;
        case 2: pools.both([](two_pools::one& p) { p.move_all(); }); break;
        case 3: pools.both([](two_pools::one& p) { p.pool->begin_generation(); }); break;
        case 4: text = rest.rest(); [[fallthrough]];
        default: edit(text, rest); pools.decode(slot, text, !(what & 32));
        }
        if (text.size() > 20'000) text.clear();
    }
    pools.both([](two_pools::one& p) { p.finish(); });
}

} // namespace informer::fuzz
