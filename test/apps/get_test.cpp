#include "plain_server.hpp"
#include "programs.hpp"

#include "support/sanitizer.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

using namespace programs;
namespace json = boost::json;

TEST_CASE("get prints what is asked for in every form") {
    const server s;
    s.make("a", "1", R"({"app":"x","tier":"t"})");
    s.make("b", "2", R"({"app":"y"})");
    const auto k = "--kubeconfig=" + s.kubeconfig();
    const auto get = [&](std::vector<std::string> more) {
        more.insert(more.begin(), {"get", k});
        const auto r = run(more);
        INFO(r.err);
        CHECK(r.code == 0);
        return r.out;
    };
    const auto table = get({"configmaps"});
    CHECK(table.rfind("NAME", 0) == 0);
    CHECK(lines(table) == 3);
    CHECK(get({"cm", "--no-headers"}).rfind("a", 0) == 0);
    CHECK(get({"cm", "-A"}).rfind("NAMESPACE", 0) == 0);
    const auto wide = get({"cm", "-o", "wide"});
    CHECK(wide.find("AGE") != std::string::npos);
    CHECK(wide.find("app=x,tier=t") != std::string::npos);
    CHECK(get({"cm", "-o", "name"}) == "configmap/a\nconfigmap/b\n");
    CHECK(get({"cm", "-l", "app=y", "-o", "name"}) == "configmap/b\n");
    CHECK(get({"cm", "--field-selector", "metadata.name=a", "-o", "name"}) == "configmap/a\n");

    const auto list = json::parse(get({"cm", "-o", "json"}));
    CHECK(list.at("kind").as_string() == "List");
    REQUIRE(list.at("items").as_array().size() == 2);
    CHECK(list.at("items").at(0).at("kind").as_string() == "ConfigMap");
    const auto one = json::parse(get({"cm/a", "-o", "json"}));
    CHECK(one.at("metadata").at("name").as_string() == "a");
    CHECK_FALSE(one.at("metadata").as_object().contains("managedFields"));
    CHECK(json::parse(get({"cm", "a", "-o", "json", "--show-managed-fields"}))
              .at("metadata")
              .as_object()
              .contains("managedFields"));

    CHECK(get({"cm", "-o", "jsonpath={.items[*].metadata.name}"}) == "a b");
    CHECK(get({"cm", "-o", "jsonpath={.items[1].data['value']}{\"\\n\"}"}) == "2\n");
    CHECK(get({"cm", "a", "-o", "jsonpath={.metadata.labels.tier}"}) == "t");
    // As in kubectl: a backslash is an ordinary character outside of braces, and begins an escape in quotes inside
    // them.
    CHECK(get({"cm", "a", "-o", R"(jsonpath=C:\new\x\\}{.metadata.name}{"\t\\"}{'\n'}\n)"}) ==
          "C:\\new\\x\\\\}a\t\\\n\\n");
    CHECK(get({"cm", "a", "-o", "jsonpath={.no.such.path}"}).empty());
    CHECK(get({"cm", "a", "-o", "jsonpath={rangeStart}"}).empty()); // a member, not a range
    CHECK(get({"cm", "a", "-o", "jsonpath={'it\\'s'}"}) == "it's");
    CHECK(json::parse(get({"cm", "-o", "jsonpath={.items}"})).as_array().size() == 2);
    const auto whole = json::parse(get({"cm", "-o", "jsonpath={@}"}));
    CHECK(whole.at("kind").as_string() == "List");
    CHECK(whole.at("items").as_array().size() == 2);
    const auto yaml = get({"cm", "a", "-o", "yaml"});
    CHECK(yaml.find("\n  name: a\n") != std::string::npos);
    CHECK(yaml.find("value: \"1\"") != std::string::npos); // a string that looks like a number stays a string
    // NEL, LS and PS are line breaks to readers of YAML 1.1, and would end a plain scalar. DEL, U+FFFE and U+FFFF are
    // no characters of YAML.
    for (const char* breaks : {"\x7f", "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9", "\xef\xbf\xbe", "\xef\xbf\xbf"}) {
        s.change("a", std::string("x") + breaks + "y");
        const auto escaped = get({"cm", "a", "-o", "yaml"});
        CHECK(escaped.find(breaks) == std::string::npos);
        CHECK(escaped.find("value: \"x\\") != std::string::npos);
    }
    for (const std::string odd : {".Inf", "+.inf", "-.INF", ".NAN", "---", "... a"}) {
        s.change("a", odd);
        CHECK(get({"cm", "a", "-o", "yaml"}).find("value: \"" + odd + "\"\n") != std::string::npos);
    }
}

TEST_CASE("indexes and slices in jsonpath are those of kubectl; what a list does not have is an error") {
    const server s;
    for (const std::string name : {"a", "b", "c", "d", "e"}) s.make(name, name);
    const auto k = "--kubeconfig=" + s.kubeconfig();
    s.curl("POST", "/api/v1/namespaces/default/pods",
           R"({"metadata":{"name":"p"},"spec":{"containers":[{"name":"x"},{"name":"y"},{"name":"z"}],"volumes":[]}})");
    const auto list = [&](const std::string& where) {
        return run({"get", k, "cm", "-o", "jsonpath={.items" + where + ".metadata.name}"});
    };
    const auto pod = [&](const std::string& path) { return run({"get", k, "pod", "p", "-o", "jsonpath=" + path}); };
    const auto good = [](const result& r, const std::string& expected) {
        INFO(r.err);
        CHECK(r.code == 0);
        CHECK(r.out == expected);
    };
    good(list("[0]"), "a");
    good(list("[-1]"), "e");
    good(list("[0:2]"), "a b");
    good(list("[-1:]"), "e");
    good(list("[:]"), "a b c d e");
    good(list("[:-3]"), "a b");
    good(list("[-3:-1]"), "c d");
    good(list("[::2]"), "a c e");
    good(list("[1:4:9223372036854775807]"), "b");
    good(list("[2:2]"), "");
    good(list("[9:9]"), "");
    good(pod("{.spec.containers[0].name},{.spec.containers[-2:].name}"), "x,y z");
    good(pod("{.spec.volumes[:]}{.spec.volumes[0:0]}{.spec.volumes[*]}"), "");
    good(pod("{.spec.nope[0]}{.nope[1:2]}"), ""); // missing keys give nothing

    const auto bad = [](const result& r, const std::string& why) {
        CHECK(r.code == 1);
        CHECK(r.err == "informerctl: -o jsonpath: " + why + "\n");
    };
    bad(list("[5]"), "array index out of bounds: index 5, length 5");
    bad(list("[-6]"), "array index out of bounds: index -1, length 5");
    bad(list("[0:6]"), "array index out of bounds: index 5, length 5");
    bad(list("[3:1]"), "starting index 3 is greater than ending index 1");
    bad(list("[0:2:0]"), "step must be > 0");
    bad(pod("{.spec.volumes[0]}"), "array index out of bounds: index 0, length 0");
    bad(pod("{.spec.volumes[-1:].name}"), "array index out of bounds: index -1, length 0");
    bad(run({"get", k, "secrets", "-o", "jsonpath={.items[0].metadata.name}"}),
        "array index out of bounds: index 0, length 0");
    bad(run({"get", k, "pods", "-o", "jsonpath={.items[*].spec.containers[3].name}"}),
        "array index out of bounds: index 3, length 3");

    process w(ctl({"watch", "cm", k, "-o", "jsonpath={.metadata.name}{.metadata.finalizers[0]}"}));
    CHECK(w.line() == "a");
    s.curl("PATCH", "/api/v1/namespaces/default/configmaps/c", R"({"metadata":{"finalizers":["x.org/f"]}})",
           "application/merge-patch+json");
    CHECK(w.line_where([](const std::string& l) { return l == "cx.org/f"; }));
    process volumes(ctl({"watch", "pods", k, "-o", "jsonpath={.spec.volumes[0]}"}));
    CHECK(volumes.wait() == 1);
    CHECK(volumes.err() == "informerctl: -o jsonpath: default/p: array index out of bounds: index 0, length 0\n");
}

TEST_CASE("get -o json and -o yaml print a list as one document, byte for byte") {
    const server s;
    s.make("a", "1");
    s.make("b", "two\\nlines");
    const auto k = "--kubeconfig=" + s.kubeconfig();
    const auto get = [&](std::vector<std::string> more) {
        more.insert(more.begin(), {"get", k});
        return run(more).out;
    };
    const auto behind = [](const std::string& text, const std::string& first, const std::string& others) {
        std::string out = first;
        for (const char c : text.substr(0, text.size() - 1)) c == '\n' ? out += '\n' + others : out += c;
        return out;
    };
    std::string as_json = "{\n  \"apiVersion\": \"v1\",\n  \"items\": [\n", as_yaml = "apiVersion: v1\nitems:\n";
    for (const std::string name : {"a", "b"}) {
        std::string alone = get({"cm", name, "-o", "json"}); // indented by four blanks
        for (std::size_t at = 0, n = 0; at != std::string::npos; at = alone.find('\n', at + 1)) {
            const auto from = at == 0 ? 0 : at + 1;
            n = alone.find_first_not_of(' ', from);
            if (n != std::string::npos) alone.erase(from, (n - from) / 2);
        }
        as_json += behind(alone, "    ", "    ") + (name == "a" ? ",\n" : "\n");
        as_yaml += behind(get({"cm", name, "-o", "yaml"}), "  - ", "    ") + '\n';
    }
    const std::string json_end = "\"kind\": \"List\",\n  \"metadata\": {\n    \"resourceVersion\": \"\"\n  }\n}\n";
    const std::string yaml_end = "kind: List\nmetadata:\n  resourceVersion: \"\"\n";
    CHECK(get({"cm", "-o", "json"}) == as_json + "  ],\n  " + json_end);
    CHECK(get({"cm", "-o", "yaml"}) == as_yaml + yaml_end);
    CHECK(get({"secrets", "-o", "json"}) == "{\n  \"apiVersion\": \"v1\",\n  \"items\": [],\n  " + json_end);
    CHECK(get({"secrets", "-o", "yaml"}) == "apiVersion: v1\nitems: []\n" + yaml_end);
}

TEST_CASE("get prints a long list as it goes: it does not hold the text, and a signal or a closed pipe ends it") {
    const server s({"--pods", "2000"});
    const auto list = [&](const std::string& how) { return ctl({"get", "pods", "-A", "--server", s.url, "-o", how}); };
    const auto peak_of = [](pid_t pid) { // in bytes
        std::ifstream file("/proc/" + std::to_string(pid) + "/status");
        const std::string name = "VmHWM:";
        for (std::string line; std::getline(file, line);)
            if (line.starts_with(name)) return std::stoull(line.substr(name.size())) * 1024;
        return 0ULL;
    };
    for (const std::string how : {"json", "yaml", "jsonpath={'\\n'}{.items}"}) {
        INFO(how);
        process whole(list(how));
        REQUIRE(whole.line()); // the list is complete now, and most of its text waits for us to read on
        const auto peak = peak_of(whole.pid());
        REQUIRE(peak > 0);
        CHECK(whole.wait() == 0);
        const auto size = whole.out().size();
        CHECK(size > 10'000'000);
        if (!informer::testing::sanitized) CHECK(peak < 40'000'000);

        process stopped(list(how));
        REQUIRE(stopped.line());
        stopped.signal(SIGINT);
        CHECK(stopped.wait() == 128 + SIGINT); // reads what still comes
        CHECK(stopped.out().size() < size / 4);
        CHECK(stopped.err().empty());

        process left(list(how));
        REQUIRE(left.line());
        left.close_out();
        CHECK(left.wait() == 0);
        CHECK(left.err().empty());
    }
}

TEST_CASE("resources -o name prints each resource once, whatever versions it has") {
    const server s;
    s.curl("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
           R"({"metadata":{"name":"bars.example.org"},"spec":{"group":"example.org","scope":"Namespaced",
               "names":{"plural":"bars","singular":"bar","kind":"Bar","listKind":"BarList"},
               "versions":[{"name":"v1","served":true,"storage":true},{"name":"v1beta1","served":true,"storage":false}]}})");
    const auto r = run({"resources", "--server", s.url, "-o", "name"});
    CHECK(r.code == 0);
    std::istringstream names(r.out);
    std::map<std::string, int> times;
    for (std::string name; std::getline(names, name);) ++times[name];
    CHECK(times["bars.example.org"] == 1);
    CHECK(times["pods"] == 1);
    for (const auto& [name, n] : times) {
        INFO(name);
        CHECK(n == 1);
    }
}

TEST_CASE("text in objects and errors cannot control the terminal of the reader") {
    const server s;
    const auto k = "--kubeconfig=" + s.kubeconfig();
    const auto tame = [](const std::string& text) {
        INFO(text);
        CHECK(text.find_first_of("\x1b\x07\r") == std::string::npos);
        CHECK(text.find("\xc2\x9b") == std::string::npos); // the same as ESC [ in one character
    };
    s.curl("POST", "/api/v1/namespaces/default/pods", R"({"metadata":{"name":"p","annotations":{"l":"\u001b[2J"}}})");
    s.curl("PATCH", "/api/v1/namespaces/default/pods/p/status",
           R"({"status":{"phase":"\u001b]0;title\u0007\nnginx   Running\u009b1m\u00e4"}})",
           "application/merge-patch+json");
    const auto table = run({"get", k, "pods", "-o", "wide"});
    tame(table.out);
    CHECK(lines(table.out) == 2);
    CHECK(table.out.find("\\x1b]0;title\\x07\\nnginx   Running\\x9b1m\xc3\xa4") != std::string::npos);
    tame(run({"get", k, "pods", "-o", "yaml"}).out);

    s.make("x", "1");
    process w(ctl({"watch", "cm", "x", "-o", "wide", "--diff", k}));
    REQUIRE(w.line());
    s.curl("PATCH", "/api/v1/namespaces/default/configmaps/x",
           R"({"metadata":{"annotations":{"l":"\u001bc"}},"data":{"\u001b[1m":"\u009b31m"}})",
           "application/merge-patch+json");
    for (int i = 0; i < 3; ++i) {
        const auto l = w.line();
        REQUIRE(l);
        tame(*l);
    }

    plain_server::script hostile;
    hostile.list_status = "403 Forbidden";
    hostile.list =
        R"({"kind":"Status","apiVersion":"v1","status":"Failure","message":"\u001b]0;title\u0007 no","code":403})";
    const plain_server bad(hostile);
    const auto failed = run({"get", "--server", bad.url, "cm"});
    CHECK(failed.code == 1);
    CHECK(failed.err.find("title") != std::string::npos);
    tame(failed.err);
    CHECK(lines(failed.err) == 1);
}

TEST_CASE("get finds resources by plural, singular, short and qualified name, and custom ones") {
    const server s;
    const auto k = "--kubeconfig=" + s.kubeconfig();
    for (const char* name : {"nodes", "node", "no", "deployments.apps", "deploy", "deploy.apps", "ns", "Namespace"}) {
        INFO(name);
        CHECK(run({"get", k, name}).code == 0);
    }
    s.curl(
        "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        R"({"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.samplecontroller.k8s.io",
           "annotations":{"api-approved.kubernetes.io":"unapproved, a test"}},
           "spec":{"group":"samplecontroller.k8s.io","scope":"Namespaced","names":{"plural":"foos","singular":"foo","kind":"Foo"},
           "versions":[{"name":"v1alpha1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}})");
    s.curl(
        "POST", "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/default/foos",
        R"({"apiVersion":"samplecontroller.k8s.io/v1alpha1","kind":"Foo","metadata":{"name":"f"},"spec":{"replicas":1}})");
    const auto r = run({"get", k, "foos.samplecontroller.k8s.io", "-o", "name"});
    CHECK(r.code == 0);
    CHECK(r.out == "foo.samplecontroller.k8s.io/f\n");
    const auto all = run({"resources", k, "-o", "name"});
    CHECK(all.code == 0);
    CHECK(all.out.find("foos.samplecontroller.k8s.io\n") != std::string::npos);
    CHECK(all.out.find("pods\n") != std::string::npos);
}

TEST_CASE("with --shard every object is in exactly one part") {
    const server s;
    for (int i = 0; i < 12; ++i) s.make("c" + std::to_string(i), "1");
    const auto k = "--kubeconfig=" + s.kubeconfig();
    const auto all = run({"get", k, "configmaps", "-o", "name"});
    std::vector<std::string> found;
    for (const std::string part : {"0/3", "1/3", "2/3"}) {
        const auto some = run({"get", k, "configmaps", "-o", "name", "--shard", part});
        CHECK(some.code == 0);
        CHECK(some.out.size() < all.out.size());
        std::istringstream lines(some.out);
        for (std::string line; std::getline(lines, line);) found.push_back(line + "\n");
    }
    std::sort(found.begin(), found.end());
    CHECK(std::unique(found.begin(), found.end()) == found.end());
    CHECK(found.size() == lines(all.out));
    for (const auto& line : found) CHECK(all.out.find(line) != std::string::npos);
    for (const std::string bad : {"3/3", "1", "/2", "1/", "1/2x", "-1/2", "0/0"}) {
        const auto r = run({"get", k, "configmaps", "--shard=" + bad});
        CHECK(r.code == 2);
        CHECK(r.err.find("is not I/N") != std::string::npos);
    }
    CHECK(run({"get", k, "configmaps", "c1", "--shard", "0/2"}).code == 2);
}

TEST_CASE("errors are one clear line and exit code 1, wrong usage 2") {
    const server s({"--token", "good"});
    const auto k = "--kubeconfig=" + s.kubeconfig();
    const temporary_folder folder;
    const auto fails = [](const result& r, int code, const std::string& part) {
        INFO(r.err);
        CHECK(r.code == code);
        CHECK(r.out.empty());
        CHECK(lines(r.err) == 1);
        CHECK(r.err.find(part) != std::string::npos);
    };
    for (const std::string command : {"get", "watch", "sync"}) {
        INFO(command);
        fails(run({command, "--server", "http://127.0.0.1:1", "pods"}), 1, "refused");
        fails(run({command, "--server", s.url, "--token", "bad", "pods"}), 1, "nauthorized");
        fails(run({command, k, "deploymets"}), 1, "deployments");
        fails(run({command, "--kubeconfig", folder.path("absent"), "pods"}), 1, "absent");
        fails(run({command, "--kubeconfig", folder.write("broken", "apiVersion: v1\nclusters: [\n"), "pods"}), 1,
              "broken:");
        fails(run({command, k, "--context", "nowhere", "pods"}), 1, "nowhere");
        fails(run({command, k, "--cluster", "nowhere", "pods"}), 1, "there is no cluster \"nowhere\"");
        fails(run({command, k, "--user", "nobody", "pods"}), 1, "there is no user \"nobody\"");
        fails(run({command, k}), 2, "RESOURCE");
        fails(run({command, k, "pods", "-l", "a in (x"}), 2, "-l");
    }
    fails(run({"get", k, "cm", "absent"}), 1, "absent");
    fails(run({"get", k, "cm", ""}), 2, "empty");
    // as from a shell variable that was not set; the watch would wait for ever
    fails(run({"watch", k, "cm", ""}), 2, "empty");
    fails(run({"get", k, "cm", "-o", "xml"}), 2, "xml");
    fails(run({"get", k, "cm", "-o", "jsonpath={.a"}), 2, "missing }");
    fails(run({"get", k, "cm", "-o", "jsonpath={'a'x}"}), 2, "behind a text in quotes");
    fails(run({"get", k, "cm", "-o", "jsonpath={range .items}"}), 2, "range is not supported");
    for (const std::string odd : {"x", "", "-", "99999999999999999999", "1,2"})
        fails(run({"get", k, "cm", "-o", "jsonpath={.a[" + odd + "]}"}), 2, "at offset");
    fails(run({"frobnicate"}), 2, "");
    fails(run({"sync", k, "pods", "--index", "nonsense"}), 2, "--index");
    for (const std::string odd : {"-1", "1.5", "nan", "x"})
        fails(run({"sync", k, "pods", "--updates", odd}), 2,
              "--updates: " + odd + " is not a whole number from 0 on (");
    CHECK(run({"--help"}).code == 0);
}

TEST_CASE("options for server, user and namespace may stand before the command, as in kubectl") {
    const server s;
    s.make("a", "1");
    const auto k = "--kubeconfig=" + s.kubeconfig();
    CHECK(run({k, "get", "cm", "-o", "name"}).out == "configmap/a\n");
    CHECK(run({k, "-n", "default", "get", "cm", "-o", "name"}).out == "configmap/a\n");
    CHECK(run({k, "-n", "elsewhere", "get", "cm", "-o", "name"}).out.empty());
    CHECK(run({k, "get", "-n", "default", "cm", "-o", "name"}).out == "configmap/a\n");
    // the later option wins
    CHECK(run({"--kubeconfig", "absent", "get", k, "cm", "-o", "name"}).out == "configmap/a\n");
    CHECK(run({k, "get", "--etcd", "/a"}).err.find("--kubeconfig is of Kubernetes") != std::string::npos);
}

TEST_CASE("--user and --cluster choose among those of the kubeconfig, before the command and behind it") {
    const server s({"--token", "good"});
    const temporary_folder folder;
    const auto k = "--kubeconfig=" + folder.write("config", "clusters: [{name: here, cluster: {server: '" + s.url +
                                                                "'}}]\nusers: [{name: me, user: {token: good}}]\n");
    CHECK(run({"get", k, "--user", "me", "--cluster", "here", "ns", "default", "-o", "name"}).out ==
          "namespace/default\n");
    CHECK(run({k, "--user=me", "--cluster=here", "get", "ns", "default", "-o", "name"}).out == "namespace/default\n");
    CHECK(run({k, "--user=me", "--cluster=here", "resources"}).code == 0);
    CHECK(run({"get", k, "--cluster", "here", "ns"}).err.find("nauthorized") != std::string::npos);
}

TEST_CASE("the value of an option may stand behind a '='; behind none, the next word is not taken for it") {
    const server s;
    s.make("a", "1");
    const auto k = "--kubeconfig=" + s.kubeconfig();
    CHECK(run({"get", k, "-n=default", "-o=name", "cm"}).out == "configmap/a\n");
    CHECK(run({"get", k, "-n=elsewhere", "-o=name", "cm"}).out.empty());
    CHECK(run({"get", k, "cm", "a", "-o=jsonpath={.metadata.name}"}).out == "a");
    for (const std::string empty : {"--namespace=", "--token=", "-n=", "--endpoints="}) {
        const auto r = run({"get", k, empty, "cm", "a"});
        CHECK(r.code == 2);
        CHECK(r.err == "informerctl: " + empty + " has no value (see informerctl --help)\n");
    }
    for (const std::string command : {"get", "watch"}) {
        const auto r = run({command, k, "cm", "-o", "jsonpath"});
        CHECK(r.code == 2);
        CHECK(r.err.find("expected jsonpath=TEMPLATE") != std::string::npos);
    }
    // the namespace of the context
    CHECK(run({"get", k, "--namespace", "", "cm", "-o", "name"}).out == "configmap/a\n");
    CHECK(run({"get", k, "-o", "name", "--", "cm", "--x="}).err.find("has no value") == std::string::npos);
}

TEST_CASE("a user whose token was not sent is told so") {
    const auto r = run({"get", "--server", "http://kube.invalid:1", "--token", "mine", "pods"});
    CHECK(r.code == 1);
    CHECK(r.err.find("warning: http://kube.invalid:1 is not TLS: credentials are not sent") != std::string::npos);
    CHECK(r.err.find("mine") == std::string::npos);
}

TEST_CASE("a stdout that cannot be written is one clear line and exit code 1") {
    const server s;
    const auto shell = [&](const std::string& arguments) { // "$1": the kubeconfig
        process p({"/bin/sh", "-c", "\"$0\" " + arguments, bin("informerctl"), s.kubeconfig()});
        const int code = p.wait();
        return result{code, p.out(), p.err()};
    };
    const std::string commands[] = {"get ns",   "watch ns", "watch ns -o json", "sync ns", "sync ns --updates 1",
                                    "resources"};
    for (const auto& c : commands) {
        INFO(c);
        const auto full = shell(c + " --kubeconfig \"$1\" > /dev/full");
        CHECK(full.code == 1);
        CHECK(full.err == "informerctl: stdout: No space left on device\n");
        // stdout is closed by the caller: no connection may get its descriptor number.
        const auto closed = shell(c + " --kubeconfig \"$1\" >&-");
        CHECK(closed.code == 1);
        CHECK(closed.err == "informerctl: stdout: Bad file descriptor\n");
    }
    CHECK(shell("--help > /dev/full").code == 1);
    const auto others = shell("get ns -o name --kubeconfig \"$1\" <&- 2>&-");
    CHECK(others.code == 0);
    CHECK(others.out.find("namespace/default\n") != std::string::npos);
}

TEST_CASE("a user without rights is told which verb on which resource is forbidden") {
    const server s({"--token", "good", "--forbidden-token", "weak"});
    for (const std::string command : {"get", "watch", "sync"}) {
        const auto r = run({command, "--server", s.url, "--token", "weak", "pods"});
        INFO(r.err);
        CHECK(r.code == 1);
        CHECK(lines(r.err) == 1);
        CHECK(r.err.find("cannot list resource \"pods\"") + r.err.find("cannot watch resource \"pods\"") !=
              2 * std::string::npos);
        CHECK(r.err.find("weak") == std::string::npos); // the token is not shown
    }
}

TEST_CASE("TLS: verified by the kubeconfig's CA, refused without, and the failed check is named") {
    const server s({"--tls", "--token", "good"});
    CHECK(s.url.rfind("https://", 0) == 0);
    CHECK(run({"get", "--kubeconfig", s.kubeconfig(), "ns"}).code == 0);
    const auto refused = run({"get", "--server", s.url, "ns"});
    CHECK(refused.code == 1);
    CHECK(lines(refused.err) == 1);
    CHECK((refused.err.find("certificate") != std::string::npos || refused.err.find("issuer") != std::string::npos));
    const auto insecure = run({"get", "--server", s.url, "--insecure-skip-tls-verify", "ns"});
    CHECK(insecure.code == 1); // past TLS, but not authorized without a token
    CHECK(insecure.err.find("nauthorized") != std::string::npos);
    auto plain = s.url;
    plain.erase(4, 1); // http://
    CHECK(run({"get", "--server", plain, "ns"}).code == 1);
}
