// Versions of one object against each other, and every stored form against a pool that has seen nothing else: whatever
// the pool's memory of other documents suggests, what comes out is what went in.
#include <informer/object/document_pool.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

using namespace informer;

namespace {

/// A document as a tree, so that it can be changed and written in any order of members.
struct member;
struct tree {
    std::string scalar; ///< JSON text; empty for containers
    bool object = false;
    std::vector<member> children;
};
struct member {
    std::string first;
    tree second;
};

class maker {
public:
    explicit maker(unsigned seed) : random_(seed) {}
    unsigned below(unsigned n) { return static_cast<unsigned>(random_()) % n; }

    tree scalar() {
        static const char* const fixed[] = {"true",
                                            "null",
                                            "\"\"",
                                            "\"ab\"",
                                            "17",
                                            "-3",
                                            "{}",
                                            "[]",
                                            "\"2024-06-01T10:00:00Z\"",
                                            "1.50",
                                            "12345678901234567890123",
                                            "\"\\u00e4\\n\\\"\"",
                                            "1e400",
                                            "99999999",
                                            "268435456",
                                            "-0"};
        tree t;
        switch (below(5)) {
        case 0: t.scalar = fixed[below(16)]; break;
        case 1: t.scalar = "\"common value " + std::to_string(below(5)) + "\""; break;
        case 2: t.scalar = "\"rare value " + std::to_string(random_()) + "\""; break;
        case 3: t.scalar = std::to_string(std::uint64_t{random_()} * below(1'000'000)); break;
        case 4: {
            static const char digits[] = "0123456789abcdef";
            std::string s = "01234567-89ab-cdef-0123-456789abcdef";
            for (char& c : s)
                if (c != '-') c = digits[below(16)];
            t.scalar = '"' + s + '"';
        }
        }
        return t;
    }
    std::string key(unsigned i) {
        static const char* const keys[] = {"name",   "id", "a rather long key", "labels",
                                           "status", "x",  "conditions",        "managedFields"};
        return i < 8 && below(50) ? keys[i] : "key " + std::to_string(below(1000));
    }
    tree value(unsigned depth) {
        if (depth == 0 || below(3) == 0) return scalar();
        tree t;
        t.object = below(3) != 0;
        const unsigned n = below(60) == 0 ? 300 : 1 + below(6);
        for (unsigned i = 0; i < n; ++i) {
            std::string k = t.object ? n > 6 ? "key " + std::to_string(i) : key(i) : "";
            const bool taken = t.object && std::any_of(t.children.begin(), t.children.end(),
                                                       [&](const auto& c) { return c.first == k; });
            if (!taken) t.children.emplace_back(k, value(depth - 1));
        }
        return t;
    }
    tree document() {
        tree t = value(1);
        t.scalar.clear();
        t.object = true;
        t.children.clear();
        for (unsigned i = 0; i < 5; ++i) t.children.emplace_back("part " + std::to_string(i), value(3));
        return t;
    }
    void change(tree& t) {
        if (t.children.empty()) {
            t = below(4) ? scalar() : value(2);
            return;
        }
        const auto at = t.children.begin() + below(static_cast<unsigned>(t.children.size()));
        switch (below(8)) {
        case 0: t.children.erase(at); break;
        case 1: {
            const unsigned n = static_cast<unsigned>(t.children.size());
            t.children.insert(
                at, {t.object ? "new key " + std::to_string(n) + "/" + std::to_string(below(9999)) : "", value(2)});
            break;
        }
        case 2: std::shuffle(t.children.begin(), t.children.end(), random_); break;
        default: change(at->second);
        }
        if (t.children.empty()) t.scalar = t.object ? "{}" : "[]";
    }

private:
    std::mt19937 random_;
};

void write(const tree& t, std::string& to) {
    if (!t.scalar.empty()) {
        to += t.scalar;
        return;
    }
    to += t.object ? '{' : '[';
    for (std::size_t i = 0; i < t.children.size(); ++i) {
        if (i > 0) to += ',';
        if (t.object) to += '"' + t.children[i].first + "\":";
        write(t.children[i].second, to);
    }
    to += t.object ? '}' : ']';
}

std::string text_of(const tree& t) {
    std::string s;
    write(t, s);
    return s;
}

/// At each place two versions must share one value exactly if they read alike; returns how many places break that rule.
unsigned apart(const value& a, const value& b, bool& alike) {
    alike = a.kind() == b.kind() && a.to_json() == b.to_json();
    unsigned wrong = alike != a.same_as(b) && (alike || !(a == b)) ? 1 : 0;
    bool below = false;
    if (a.is_object() && b.is_object()) {
        for (const auto [key, v] : a.members())
            if (const value other = b[key.view()]; other.exists()) wrong += apart(v, other, below);
    } else if (a.is_array() && b.is_array()) {
        for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) wrong += apart(a[i], b[i], below);
    }
    return wrong;
}

} // namespace

TEST_CASE("whatever came before, a document is stored as it would be alone", "[pool]") {
    for (unsigned seed = 1; seed <= 2; ++seed) {
        maker make(seed);
        const auto pool = document_pool::make();
        std::vector<tree> trees(60);
        std::vector<object> objects(trees.size());
        failure f;
        unsigned made = 0, wrong = 0, moved = 0;
        for (unsigned step = 0; step < 1500; ++step) {
            const unsigned i = make.below(static_cast<unsigned>(trees.size()));
            const bool fresh = !objects[i] || make.below(20) == 0;
            if (fresh)
                trees[i] = make.document();
            else
                for (unsigned n = make.below(4); n > 0 && !trees[i].children.empty(); --n) make.change(trees[i]);
            const std::string text = text_of(trees[i]);
            const object before = fresh ? object() : objects[i];
            const object now = pool->decode(text, before, f);
            REQUIRE(now);
            const object alone = parse_object(text);
            REQUIRE(now == alone);
            if (!now.same_as(before))
                REQUIRE(now.to_json() == alone.to_json()); // else it may differ in the order of members
            bool alike = false;
            if (before) wrong += apart(before.value(), now.value(), alike);
            objects[i] = now;
            ++made;
            if (step % 500 == 499) { // compaction in between
                pool->begin_generation();
                for (object& o : objects) {
                    if (!o) continue;
                    const object there = pool->move(o, f);
                    REQUIRE(there);
                    REQUIRE(there.to_json() == o.to_json());
                    o = there;
                    ++moved;
                }
            }
        }
        CHECK(wrong == 0);
        CHECK(made == 1500);
        CHECK(moved > 100);
        objects.clear();
        while (!pool->collect()) {
        }
        CHECK(pool->statistics().nodes == 0);
        CHECK(pool->statistics().referenced_nodes == 0);
        CHECK(pool->statistics().generations == 1);
    }
}

TEST_CASE("an object knows its key even if its shape took the place of one that died", "[pool]") {
    const auto pool = document_pool::make(decode_options().text_difference(false));
    failure f;
    for (int i = 0; i < 4; ++i) {
        for (const char* text : {R"({"metadata":{"name":"the name","namespace":"the namespace"}})",
                                 R"({"metadata":{"namespace":"the namespace","name":"the name"}})"}) {
            object o = pool->decode(text, object(), f);
            CHECK(o.has_key("the namespace", "the name"));
            o = object();
            while (!pool->collect()) {
            }
        }
    }
}

TEST_CASE("an object knows its key whatever shapes the object before had", "[pool]") {
    struct one {
        const char *text, *name_space, *name;
    };
    const std::vector<one> all = {
        {R"({"metadata":{"name":"the name","namespace":"the namespace"}})", "the namespace", "the name"},
        {R"({"metadata":{"namespace":"the namespace","name":"the name"}})", "the namespace", "the name"},
        {R"({"metadata":{"uid":"u","name":"another"}})", "", "another"},
        {R"({"metadata":{"namespace":"only"}})", "only", ""},
        {R"({"spec":{"name":"spec"},"metadata":{"name":"behind","namespace":"it"}})", "it", "behind"},
        {R"({"metadata":{"name":"before","namespace":"it"},"spec":{"name":"spec"}})", "it", "before"},
        {R"({"spec":{"name":"none"}})", "", ""},
        {R"({"metadata":["the namespace","the name"]})", "", ""},
        {R"({"metadata":"the name"})", "", ""},
        {R"({"metadata":{}})", "", ""},
        {"{}", "", ""},
    };
    const auto pool = document_pool::make();
    failure f;
    for (const one& before : all) {
        for (const one& after : all) {
            CAPTURE(before.text, after.text);
            const object first = pool->decode(before.text, object(), f), second = pool->decode(after.text, object(), f);
            REQUIRE(second);
            CHECK(second.has_key(after.name_space, after.name));
            CHECK(second.has_name() == (*after.name != '\0'));
        }
    }
}
