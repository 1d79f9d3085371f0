#include "kubernetes/kubeconfig.hpp"

#include "kubernetes/merge_keys.hpp"
#include "kubernetes/yaml_json.hpp"
#include "root/ascii.hpp"
#include "root/file.hpp"
#include "root/one_line.hpp"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstddef>
#include <sstream>

namespace informer::kubernetes::detail {

using informer::detail::one_line;

failure place::refuse(std::string_view what) const {
    std::string text = file;
    if (line > 0) text += ":" + std::to_string(line);
    return failure(errc::bad_kubeconfig,
                   text.append(": ").append(one_line(std::string(what)))); // the parser quotes bytes
}

std::string shown(std::string_view text) {
    return one_line(std::string(text.substr(0, std::min<std::size_t>(text.find(": "), 256))));
}

std::string in_quotes(std::string_view text) {
    return "\"" + shown(text) + "\"";
}

namespace {

std::string_view name_of(YAML::NodeType::value type) {
    switch (type) {
    case YAML::NodeType::Map: return "a map";
    case YAML::NodeType::Sequence: return "a list";
    case YAML::NodeType::Scalar: return "a single value";
    default: return "nothing";
    }
}

/// Counts the values of a document without keeping any of them. yaml-cpp keeps some 400 bytes for each value, which may
/// be two bytes of the file: 16 MiB can take 3 GB.
class value_counter final : public YAML::EventHandler {
public:
    static constexpr std::size_t most = 500'000; // a thousand clusters and their users take 40,000
    struct too_many {
        YAML::Mark at;
    };

    void OnDocumentStart(const YAML::Mark&) override {}
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark& at, YAML::anchor_t) override { count(at); }
    void OnAlias(const YAML::Mark& at, YAML::anchor_t) override { count(at); }
    void OnScalar(const YAML::Mark& at, const std::string&, YAML::anchor_t, const std::string&) override { count(at); }
    void OnSequenceStart(const YAML::Mark& at, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
        count(at);
    }
    void OnSequenceEnd() override {}
    void OnMapStart(const YAML::Mark& at, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
        count(at);
    }
    void OnMapEnd() override {}

private:
    void count(const YAML::Mark& at) {
        if (++values_ > most) throw too_many{at};
    }
    std::size_t values_ = 0;
};

/// Throws `too_many` before memory is taken for that many values.
void check_size(const std::string& yaml) {
    std::istringstream in(yaml);
    YAML::Parser parser(in);
    value_counter counter;
    parser.HandleNextDocument(counter);
}

/// The line of the first thing behind the first document; 0: there is none. "---" or "..." at the beginning of a line
/// is a marker wherever it stands. Of UTF-16, nothing is found.
int line_behind_first_document(std::string_view yaml) {
    bool begun = false, over = false;
    for (int line = 1; !yaml.empty(); ++line) {
        const auto end = std::min(yaml.find('\n'), yaml.size());
        std::string_view text = yaml.substr(0, end);
        yaml.remove_prefix(std::min(end + 1, yaml.size()));
        if (line == 1 && text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
        const bool ends = text.starts_with("..."), begins = text.starts_with("---");
        if ((ends || begins) && (text.size() == 3 || text[3] == ' ' || text[3] == '\t' || text[3] == '\r')) {
            over = over || ends || begun;
            begun = true;
            text.remove_prefix(3);
        }
        text = informer::detail::trimmed(text);
        if (text.empty() || text.starts_with('#') || (!begun && text.starts_with('%'))) continue;
        if (over) return line;
        begun = true;
    }
    return 0;
}

/// Walks the few known paths of one file. The first thing wrong stays in `wrong`; reading goes on harmlessly.
class file_reader {
public:
    explicit file_reader(std::string file) : file_(std::move(file)) {}

    failure wrong;

    place at(const YAML::Node& n) const { return place{file_, n.Mark().line + 1}; }

    void refuse(const YAML::Node& n, const std::string& what) {
        if (!wrong) wrong = at(n).refuse(what);
    }

    /// To be called before a map's members are read.
    void resolve(const YAML::Node& map) {
        merges_.resolve(map);
        if (!merges_.why().empty() && !wrong) wrong = place{file_, merges_.line()}.refuse(merges_.why());
    }

    /// A member of a map, its own or a merged one; not defined where it is absent or null.
    YAML::Node member(const YAML::Node& map, const char* key) {
        if (!map.IsMap()) return YAML::Node(YAML::NodeType::Undefined);
        resolve(map);
        const YAML::Node found = map[key];
        if (!found.IsDefined() || found.IsNull()) return YAML::Node(YAML::NodeType::Undefined);
        return found;
    }

    located_text text(const YAML::Node& map, const char* key) {
        const YAML::Node n = member(map, key);
        if (!n.IsDefined()) return {};
        if (!n.IsScalar()) {
            refuse(n, std::string(key) + " must be a string, not " + std::string(name_of(n.Type())));
            return {};
        }
        return taken(n) ? located_text{n.Scalar(), at(n)} : located_text();
    }

    /// Counts the bytes of a text that is copied. Only aliases can make more text than the file holds: a few aliases of
    /// a large value would take all memory.
    bool taken(const YAML::Node& n) { return counted(n, n.Scalar().size() + 1); }
    bool counted(const YAML::Node& n, std::size_t bytes) {
        taken_ += bytes;
        if (taken_ > informer::detail::largest_file) refuse(n, "aliases make more than 16 MiB of the file");
        return taken_ <= informer::detail::largest_file;
    }

    bool flag(const YAML::Node& map, const char* key) {
        const YAML::Node n = member(map, key);
        bool on = false;
        if (n.IsDefined() && (!n.IsScalar() || !YAML::convert<bool>::decode(n, on)))
            refuse(n, std::string(key) + " must be true or false");
        return on;
    }

    /// The value of a member that must be a map; not defined where it is absent, null or no map.
    YAML::Node map(const YAML::Node& parent, const char* key) {
        YAML::Node n = member(parent, key);
        if (n.IsDefined() && !n.IsMap()) {
            refuse(n, std::string(key) + " must be a map, not " + std::string(name_of(n.Type())));
            return YAML::Node(YAML::NodeType::Undefined);
        }
        resolve(n);
        return n;
    }

    /// [{name: N, <inside>: {…}}, …] into `to`.
    template <class Entry, class Read>
    void named(const YAML::Node& root, const char* list, const char* inside,
               std::map<std::string, Entry, std::less<>>& to, Read read) {
        const YAML::Node all = member(root, list);
        if (!all.IsDefined()) return;
        if (!all.IsSequence())
            return refuse(all, std::string(list) + " must be a list, not " + std::string(name_of(all.Type())));
        for (const YAML::Node& n : all) {
            if (wrong) return;
            if (!n.IsMap())
                return refuse(n, "an entry of " + std::string(list) + " must be a map, not " +
                                     std::string(name_of(n.Type())));
            const located_text name = text(n, "name"); // may be empty: such an entry is used where no name is given
            const YAML::Node body = map(n, inside);
            Entry e = read(body);
            e.at = at(n);
            if (!to.emplace(name.text, std::move(e)).second)
                return refuse(n, std::string(inside) + " " + in_quotes(name.text) + " stands in this file twice");
        }
    }

    cluster_entry cluster(const YAML::Node& n) {
        cluster_entry c;
        c.server = text(n, "server");
        c.ca_file = text(n, "certificate-authority");
        c.ca_data = text(n, "certificate-authority-data");
        c.tls_server_name = text(n, "tls-server-name");
        c.proxy_url = text(n, "proxy-url");
        c.insecure = flag(n, "insecure-skip-tls-verify");
        const YAML::Node extensions = member(n, "extensions");
        if (extensions.IsDefined() && extensions.IsSequence())
            for (const YAML::Node& e : extensions) {
                if (wrong || !counted(e, 1)) break;
                const YAML::Node name = member(e, "name"), body = member(e, "extension");
                if (!name.IsDefined() || !name.IsScalar() || name.Scalar() != "client.authentication.k8s.io/exec")
                    continue;
                if (body.IsDefined()) c.exec_config = located_text{yaml_to_json(body), at(body)};
            }
        return c;
    }

    /// As JSON, because a plugin receives this in its environment.
    std::string yaml_to_json(const YAML::Node& n) {
        std::string why;
        std::string text = detail::yaml_to_json(n, merges_, why);
        resolve(n); // a bad merge key is refused with its own line
        if (!why.empty()) refuse(n, "extension client.authentication.k8s.io/exec: " + why);
        if (!counted(n, text.size() + 1)) return {};
        return text;
    }

    /// Empty if the member is absent.
    std::vector<YAML::Node> list(const YAML::Node& parent, const char* key) { return items(member(parent, key), key); }

    std::vector<YAML::Node> items(const YAML::Node& all, const char* what) {
        if (!all.IsDefined() || all.IsNull()) return {};
        if (!all.IsSequence())
            refuse(all, std::string(what) + " must be a list, not " + std::string(name_of(all.Type())));
        return all.IsSequence() ? std::vector<YAML::Node>(all.begin(), all.end()) : std::vector<YAML::Node>();
    }

    std::vector<std::string> texts(const std::vector<YAML::Node>& from, const char* what) {
        std::vector<std::string> all;
        for (const YAML::Node& n : from) {
            if (wrong) break;
            if (!n.IsScalar())
                refuse(n, std::string(what) + " must be a list of strings");
            else if (taken(n))
                all.push_back(n.Scalar());
        }
        return all;
    }

    exec_entry exec(const YAML::Node& n) {
        exec_entry x;
        x.at = at(n);
        x.api_version = text(n, "apiVersion");
        x.command = text(n, "command");
        x.install_hint = text(n, "installHint");
        x.interactive_mode = text(n, "interactiveMode");
        x.provide_cluster_info = flag(n, "provideClusterInfo");
        x.args = texts(list(n, "args"), "args");
        for (const YAML::Node& e : list(n, "env")) {
            if (wrong) break;
            const located_text name = text(e, "name"), value = text(e, "value");
            if (!name.given() || name.text.find('=') != std::string::npos)
                refuse(e, "an entry of env has no name, or one with '='");
            else
                x.env.emplace_back(name.text, value.text);
        }
        return x;
    }

    user_entry user(const YAML::Node& n) {
        user_entry u;
        u.token = text(n, "token");
        u.token_file = text(n, "tokenFile");
        u.username = text(n, "username");
        u.password = text(n, "password");
        u.certificate_file = text(n, "client-certificate");
        u.certificate_data = text(n, "client-certificate-data");
        u.key_file = text(n, "client-key");
        u.key_data = text(n, "client-key-data");
        u.impersonate = text(n, "as");
        u.impersonate_uid = text(n, "as-uid");
        u.impersonate_groups = texts(list(n, "as-groups"), "as-groups");
        if (const YAML::Node extra = map(n, "as-user-extra"); extra.IsDefined())
            for (const auto& entry : extra) {
                if (wrong) break;
                if (!entry.first.IsScalar() || entry.first.Scalar().empty())
                    refuse(entry.first, "a key of as-user-extra must be a string that is not empty");
                else if (taken(entry.first))
                    u.impersonate_extra[entry.first.Scalar()] =
                        texts(items(entry.second, "a value of as-user-extra"), "a value of as-user-extra");
            }
        if (const YAML::Node plugin = map(n, "exec"); plugin.IsDefined()) u.exec = exec(plugin);
        unsupported(n, u);
        return u;
    }

    void unsupported(const YAML::Node& n, user_entry& u) {
        if (const YAML::Node provider = map(n, "auth-provider"); provider.IsDefined())
            u.unsupported = located_text{"the auth-provider " + in_quotes(text(provider, "name").text), at(provider)};
    }

    context_entry context(const YAML::Node& n) {
        context_entry c;
        c.cluster = text(n, "cluster");
        c.user = text(n, "user");
        c.name_space = text(n, "namespace");
        return c;
    }

private:
    std::string file_;
    merge_keys merges_;
    std::size_t taken_ = 0;
};

} // namespace

void kubeconfig::merge(kubeconfig later) {
    clusters.merge(later.clusters);
    users.merge(later.users);
    contexts.merge(later.contexts);
    if (!current_context.given()) current_context = std::move(later.current_context);
    std::move(later.empty_files.begin(), later.empty_files.end(), std::back_inserter(empty_files));
    std::move(later.unread.begin(), later.unread.end(), std::back_inserter(unread));
}

kubeconfig read_kubeconfig(std::string_view yaml, const std::string& file, failure& f) {
    f = failure();
    kubeconfig k;
    const place whole{file, 0};
    if (yaml.size() > informer::detail::largest_file) {
        f = whole.refuse("larger than 16 MiB");
        return k;
    }
    std::string text(yaml);
    // JSON may be indented by tabs, YAML not.
    if (const auto first = informer::detail::trimmed(yaml); !first.empty() && first.front() == '{')
        std::replace(text.begin(), text.end(), '\t', ' ');
    drop_version(text);
    try {
        if (text.size() > 2 * value_counter::most) check_size(text); // fewer bytes hold fewer values
        if (const int line = line_behind_first_document(text))
            k.unread.push_back(file + ":" + std::to_string(line) +
                               ": not read, because only the first YAML document of a kubeconfig counts");
        const std::string elsewhere = k.unread.empty() ? std::string() : "; " + k.unread.front();
        const YAML::Node root = YAML::Load(text);
        if (!root.IsDefined() || root.IsNull()) {
            k.empty_files.push_back(file);
            return k;
        }
        file_reader r(file);
        if (!root.IsMap()) {
            f = r.at(root).refuse("not a kubeconfig: " + std::string(name_of(root.Type())) + " instead of a map" +
                                  elsewhere);
            return k;
        }
        const located_text kind = r.text(root, "kind");
        if (kind.given() && kind.text != "Config")
            r.refuse(root, "not a kubeconfig: its kind is " + in_quotes(kind.text) + elsewhere);
        k.current_context = r.text(root, "current-context");
        r.named(root, "clusters", "cluster", k.clusters, [&r](const YAML::Node& n) { return r.cluster(n); });
        r.named(root, "users", "user", k.users, [&r](const YAML::Node& n) { return r.user(n); });
        r.named(root, "contexts", "context", k.contexts, [&r](const YAML::Node& n) { return r.context(n); });
        f = r.wrong;
    } catch (const value_counter::too_many& e) {
        f = place{file, e.at.line + 1}.refuse("more than " + std::to_string(value_counter::most) + " values");
    } catch (const YAML::DeepRecursion& e) {
        f = place{file, e.mark.line + 1}.refuse("nested too deeply");
    } catch (const YAML::Exception& e) {
        // e.msg names keys and rules, never values.
        f = place{file, e.mark.is_null() ? 0 : e.mark.line + 1}.refuse(e.msg);
    }
    return k;
}

} // namespace informer::kubernetes::detail
