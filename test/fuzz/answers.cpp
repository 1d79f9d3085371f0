// Small answers that are read as a whole: Status, Warning headers, credentials of plugins, and the answers of proxies
// before the tunnel is open; also JSON written as YAML.
//
// The input is a byte that selects the kind, and the text. For a proxy, two bytes before the text determine its pieces.
#include "input.hpp"
#include "targets.hpp"

#include "http/proxy_dialogue.hpp"
#include "kubernetes/exec_credential.hpp"
#include "kubernetes/json_as_yaml.hpp"
#include "kubernetes/json_tools.hpp"
#include "kubernetes/status.hpp"
#include "kubernetes/warning.hpp"
#include "root/one_line.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/parse_options.hpp>
#include <boost/json/serialize.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace informer::fuzz {
namespace {

using namespace kubernetes::detail;

bool printable(std::string_view s) {
    return !informer::detail::has_controls(s);
}

void refusals(input in) {
    const int status = 300 + in.byte();
    const std::string_view after = in.part(), location = in.part(), body = in.rest();
    const failure f = refused(status, body, after, location, "list pods");
    expect(bool(f), "a refusal that is none");
    expect(printable(f.message()), "words that cannot be shown");
    const failure g = refused_in_stream(body, "watch pods");
    expect(bool(g), "an ERROR event that is none");
    expect(printable(g.message()), "words that cannot be shown");
}

void warnings(std::string_view line) {
    for (const auto& w : parse_warnings(line)) {
        expect(printable(w.text) && printable(w.agent), "a warning that cannot be shown");
        expect(w.text.size() <= 2048 + 4, "a warning without end");
    }
}

void credentials(std::string_view text) {
    std::string why;
    const exec_credential c = read_exec_credential(text, exec_v1, why);
    expect(!why.empty() || !c.token.empty() || !c.certificate_pem.empty(), "a credential that is none");
    expect(printable(why), "words that cannot be shown");
    kubernetes::exec_plugin p;
    p.command = "plugin";
    p.environment = {{"TOKEN", "secret-value"}};
    expect(unsaid(std::string(text), p).find("secret-value") == std::string::npos, "a secret is said");
    expect(printable(last_words(text, p)), "last words that cannot be shown");
}

void proxies(input in, bool socks) {
    const std::uint32_t seed = in.number();
    http::proxy p;
    if (seed & 1) p.user = "me", p.password = "pass";
    http::endpoint to;
    to.host = seed & 2 ? "192.0.2.1" : "server.example";
    to.port = 6443;
    const auto dialogue = socks ? http::detail::socks_dialogue(p, to)
                                : http::detail::http_dialogue("CONNECT server.example:6443 HTTP/1.1\r\n\r\n");
    std::string kept;
    for (const std::string_view piece : pieces(in.rest(), seed)) {
        dialogue->take_words();
        kept += piece;
        while (!kept.empty() && !dialogue->open() && !dialogue->failed()) {
            const exact bytes(kept);
            const std::size_t used = dialogue->hear(bytes.view());
            expect(used >= 1 && used <= kept.size(), "not at least one byte was a proxy's");
            kept.erase(0, used);
            dialogue->take_words();
        }
        expect(!(dialogue->open() && dialogue->failed()), "a tunnel that failed");
        expect(printable(dialogue->why()), "words that cannot be shown");
    }
}

void as_yaml(std::string_view text) {
    failure f;
    const boost::json::value v = parse_small(text, f);
    if (f) return;
    const std::string yaml = json_as_yaml(boost::json::serialize(v));
    boost::json::parse_options exactly; // by default the last digit of a number may become another
    exactly.numbers = boost::json::number_precision::precise;
    expect(boost::json::parse(yaml, {}, exactly) == v, "other JSON for YAML");
}

} // namespace

void answers(std::string_view bytes) {
    input in(bytes);
    switch (in.byte() % 6) {
    case 0: return refusals(in);
    case 1: return warnings(in.rest());
    case 2: return credentials(in.rest());
    case 3: return proxies(in, false);
    case 4: return proxies(in, true);
    default: return as_yaml(in.rest());
    }
}

} // namespace informer::fuzz
