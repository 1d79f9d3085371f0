// Answers of etcd's gateway, whole and in pieces, and the objects that are made of its keys.
//
// The input is a byte of options, two bytes that determine the pieces, and the answer.
#include "input.hpp"
#include "targets.hpp"

#include "etcd/document.hpp"
#include "etcd/wire.hpp"

#include <informer/object/document_pool.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace informer::fuzz {
namespace {

using namespace etcd::detail;

std::string told(const key_value& kv) {
    return kv.key + "=" + kv.value + (kv.oversized ? " large " : " ") + std::to_string(kv.create_revision) + " " +
           std::to_string(kv.mod_revision) + " " + std::to_string(kv.version);
}
std::string told(const message& m) {
    return std::to_string(m.revision) + " " + m.cluster + " " + std::to_string(m.entries) + (m.more ? " more " : " ") +
           std::to_string(m.count) + (m.created ? " created" : "") + (m.canceled ? " canceled" : "") +
           (m.fragment ? " fragment " : " ") + std::to_string(m.compact_revision) + " " + m.cancel_reason +
           (m.failed ? " failed " : " ") + std::to_string(m.code) + " " + std::to_string(m.http_code) + " " + m.error;
}

struct reading {
    std::vector<std::string> found;
    bool failed = false, idle = false;
    bool operator==(const reading&) const = default;
};

void make_objects(const etcd::mapping& m, const key_value& kv) {
    const named_key name = name_of(m, kv.key);
    if (!name.fits) return expect(!why_unfit(m, kv.key).empty(), "unfit for no reason");
    document d;
    failure f;
    if (!d.make(m, name, kv, kv.mod_revision, f)) return;
    object o = parse_object(d.text(), f);
    if (f && d.try_as_text(m, name, kv, kv.mod_revision)) {
        o = parse_object(d.text(), f);
        expect(f != errc::syntax_error, "a value as a text is no JSON");
    }
    if (!o) return;
    // Unless it is wrapped, an object may name itself in another way; it is quarantined then.
    expect(m.wrap_ != etcd::wrap::all || is_the_one(o, name, kv.mod_revision), "an object of another key");
    d.make_bare(m, name, kv);
    o = parse_object(d.text(), f);
    expect(!f && o.name() == name.key.name, "a bare object is none");
}

reading read(message_reader::kind kind, const etcd::mapping& m, std::size_t limit,
             const std::vector<std::string_view>& pieces) {
    message_reader reader(kind, limit);
    reading r;
    failure f;
    for (const std::string_view piece : pieces) {
        const exact bytes(piece);
        if (!f) reader.feed(bytes.view(), f);
        for (;;) {
            const auto found = reader.next();
            if (found == message_reader::found::nothing) break;
            if (found == message_reader::found::message) {
                r.found.push_back(told(reader.message()));
                continue;
            }
            const entry& e = reader.current();
            r.found.push_back((e.deleted ? "deleted " : "") + told(e.kv) + (e.previous ? " " + told(*e.previous) : ""));
            if (!e.kv.oversized) make_objects(m, e.kv);
        }
    }
    r.failed = bool(f); // if several things are wrong, the pieces decide which one is reported
    r.idle = !f && reader.idle();
    return r;
}

} // namespace

void gateway(std::string_view bytes) {
    input in(bytes);
    const std::uint8_t choice = in.byte();
    const std::uint32_t seed = in.number();
    const std::string_view text = in.rest();
    const auto kind = choice & 1 ? message_reader::kind::watch : message_reader::kind::range;
    etcd::mapping m("/k/");
    m.namespaced(choice & 2);
    if (choice & 4) m.wrap_values(choice & 8 ? etcd::wrap::all : etcd::wrap::others);
    const std::size_t limit = choice & 16 ? 8 : std::size_t(1) << 20;
    const reading at_once = read(kind, m, limit, {text}), in_pieces = read(kind, m, limit, pieces(text, seed));
    // A value that is too large is not read to its end; how far depends on where the pieces end.
    expect(limit == 8 || at_once == in_pieces, "in pieces it is another answer");
    read_refusal(text);
    read_text_member(text, "token");
}

} // namespace informer::fuzz
