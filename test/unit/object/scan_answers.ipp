// The body of both functions, in the namespace of the forms that it asks.

namespace informer::detail {

namespace {

std::string all_answers(std::string_view text, std::size_t cut) {
    const char* const begin = text.data();
    const char* const end = begin + text.size();
    std::string all;
    const auto say = [&all](std::string_view what, std::string_view answer) {
        all.append(what).append(": ").append(answer).append("\n");
    };
    const auto place = [begin](const char* p) { return p ? std::to_string(p - begin) : std::string("none"); };
    const auto said = [](const auto& text_or_none) {
        return text_or_none ? "<" + std::string(*text_or_none) + ">" : std::string("none");
    };

    say("between objects", place(find_between_objects(begin + cut, end)));
    bool plain = true;
    const char* const behind = string_end(begin + cut, end, plain);
    say("string end", place(behind) + (plain ? ", plain" : ""));
    say("quote or backslash", place(next_mark(begin + cut, end)));
    const std::size_t both = std::min(cut, text.size() - cut);
    say("common prefix", std::to_string(common_prefix(begin, begin + cut, both)));
    if (!text.empty()) {
        value_scanner scanner;
        const char* stop = begin;
        if (scanner.begin(text[0])) {
            stop = scanner.scan(begin, begin + cut);
            if (!scanner.complete() && !scanner.bad()) stop = scanner.scan(stop, end);
        }
        say("value end", place(stop) + (scanner.complete() ? ", complete" : "") + (scanner.bad() ? ", bad" : "") +
                             (scanner.in_string() ? ", in a string" : ""));
    }
    std::string room;
    say("unescaped", said(unescape(text)));
    say("plain string end", place(plain_string_end(begin + cut, end)));
    std::string_view content;
    const char* const string_behind = read_string(begin + cut, end, room, content);
    say("string", place(string_behind) + (string_behind ? " <" + std::string(content) + ">" : ""));
    say("says", says(text, text.substr(cut)) ? "yes" : "no");
    const number_form form = classify_number(text);
    say("number", std::to_string(static_cast<int>(form.type)) + " " +
                      std::to_string(form.type == number_form::type::text ? 0 : form.u));
    std::uint32_t seconds = 0;
    if (pack_timestamp(text, seconds)) say("timestamp", std::to_string(seconds));
    unsigned char uuid[16] = {};
    if (pack_uuid(text, uuid)) say("UUID", std::string(reinterpret_cast<const char*>(uuid), sizeof uuid));

    // Keys, whatever they are, and behind them the text as their fingerprints.
    const auto n = static_cast<std::uint32_t>(text.size());
    std::vector<handle> keys(n + n / sizeof(handle) + 1);
    if (n != 0) std::memcpy(keys.data() + n, begin, n);
    const auto wanted = static_cast<unsigned char>(n == 0 ? '"' : text[cut % n]);
    for (const std::uint32_t most : {1u, ~0u}) {
        std::string alike;
        std::uint32_t found = 0;
        for_each_alike(keys.data(), n, wanted, [&](std::uint32_t i) {
            alike.append(std::to_string(i)).append(" ");
            return ++found == most;
        });
        say("alike", alike);
    }
    return all;
}

} // namespace

} // namespace informer::detail
