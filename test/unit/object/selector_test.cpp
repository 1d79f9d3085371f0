#include <informer/object/document_pool.hpp>
#include <informer/object/selector.hpp>

#include <catch2/catch_test_macros.hpp>

#include <map>
#include <string>
#include <vector>

using namespace informer;

namespace {

using labels = std::map<std::string, std::string, std::less<>>;

selector_lookup in(const labels& l) {
    return [&l](std::string_view key) -> std::optional<std::string> {
        const auto at = l.find(key);
        if (at == l.end()) return std::nullopt;
        return at->second;
    };
}

bool matches(std::string_view selector, const labels& l) {
    return label_selector::parse(selector).matches(in(l));
}

std::string wrong_label(std::string_view s) {
    failure f;
    const auto selector = label_selector::parse(s, f);
    CHECK(selector.everything());
    CHECK(f == errc::bad_selector);
    return f.message();
}

std::string wrong_field(std::string_view s) {
    failure f;
    const auto selector = field_selector::parse(s, f);
    CHECK(selector.everything());
    CHECK(f == errc::bad_selector);
    return f.message();
}

bool ends_with(const std::string& s, std::string_view end) {
    return s.ends_with(end);
}

} // namespace

TEST_CASE("label selectors parse what apimachinery parses", "[selector]") {
    for (const char* good : {"",
                             "x=a,y=b,z=c",
                             "x!=a,y=b",
                             "x=",
                             "x= ",
                             "x=,z= ",
                             "x= ,z= ",
                             "x!=",
                             "x==a",
                             "x>1",
                             "x<1",
                             "x>1,z<5",
                             "x in (a,b)",
                             "x notin (a,b)",
                             "x in (a,)",
                             "x in (,a)",
                             "x in (,)",
                             "x in (a,,b)",
                             "x in ()",
                             "x notin ()",
                             "!x",
                             "x",
                             "x,!y,z",
                             "in in (in,notin)",
                             "notin notin (notin)",
                             "in=notin",
                             "example.com/x=1",
                             "  x   =   a  , y ",
                             "x\tin\n(a)",
                             "x=a,x=b"}) {
        CAPTURE(good);
        failure f;
        label_selector::parse(good, f);
        CHECK_FALSE(f);
    }
    for (const char* bad : {"x=a||y=b",
                            "x==a==b",
                            "!x=a",
                            "x<a",
                            "x>",
                            "x in",
                            "x in a",
                            "x in (a",
                            "x in a)",
                            "x notin",
                            ",",
                            "x,",
                            ",x",
                            "x,,y",
                            "=a",
                            "!",
                            "!!x",
                            "x y",
                            "x=a b",
                            "(a)",
                            "x in ((a))",
                            "x=(a)",
                            "-x=a",
                            "x/=a",
                            "/x=a",
                            "a/b/c=d",
                            "UPPER.com/x=a",
                            "x=-a",
                            "x in (a b)",
                            "x=$",
                            "x>1.5",
                            "x>9223372036854775808"}) {
        CAPTURE(bad);
        failure f;
        label_selector::parse(bad, f);
        CHECK(f == errc::bad_selector);
    }
    const std::string longest(63, 'v');
    failure f;
    label_selector::parse(longest + "=" + longest, f);
    CHECK_FALSE(f);
    label_selector::parse("x=" + longest + "v", f);
    CHECK(f);
}

TEST_CASE("a failure from before is gone when a selector is good", "[selector]") {
    failure f(errc::bad_selector, "from before");
    label_selector::parse("a=b", f);
    CHECK_FALSE(f);
    f = failure(errc::bad_selector, "from before");
    field_selector::parse("a=b", f);
    CHECK_FALSE(f);
}

TEST_CASE("label selector errors name the position", "[selector]") {
    CHECK(ends_with(wrong_label("a=b,,c"), "\"a=b,,c\", position 4: found ',', expected a key after ','"));
    CHECK(ends_with(wrong_label("a in (b"), "position 7: found the end, expected ',' or ')'"));
    CHECK(ends_with(wrong_label("a in ((b)"), "position 6: found '(', expected a value, ',' or ')'"));
    CHECK(ends_with(wrong_label("a > x"), "position 4: 'x' is no integer"));
    CHECK(ends_with(wrong_label("a=b, _c"), "position 5: '_c' is no label key"));
    CHECK_THROWS_AS(label_selector::parse("a b"), error);
}

TEST_CASE("label selectors match as apimachinery's", "[selector]") {
    const labels l{{"x", "a"}, {"y", "b"}, {"n", "10"}, {"empty", ""}};
    for (const char* yes :
         {"", "x=a", "x==a", "x=a,y=b", "x!=b", "z!=a", "x in (a,b)", "x notin (b)", "z notin (b)", "x", "!z", "n>9",
          "n<11", "empty=", "empty in (,a)", "empty in ()", "x notin ()", "empty", "n=10"}) {
        CAPTURE(yes);
        CHECK(matches(yes, l));
    }
    for (const char* no : {"x=b", "x=a,y=c", "x!=a", "z=a", "z=", "x in (b)", "z in (a)", "x notin (a,b)", "z", "!x",
                           "n>10", "n<10", "x>1", "z>1", "z<1", "empty!=", "empty>0"}) {
        CAPTURE(no);
        CHECK_FALSE(matches(no, l));
    }
}

TEST_CASE("label selectors have one canonical text", "[selector]") {
    const auto canonical = [](std::string_view s) { return label_selector::parse(s).str(); };
    CHECK(canonical(" z in (c, a,b,a) ,!y , x == 1,w!=2,v>3,u<4,t,s notin (b,)") ==
          "s notin (,b),t,u<4,v>3,w!=2,x=1,!y,z in (a,b,c)");
    CHECK(canonical("") == "");
    CHECK(canonical("a in (,)") == "a in ()"); // as apimachinery
    CHECK(label_selector::parse("a in ()").requirements()[0].values == std::vector<std::string>{""});
    for (const char* s : {"a=b", "!a", "a in (x,y)", "a notin (,x)", "a>1", "a=", "a in (,)", "a notin (,)", "a in ()"})
        CHECK(label_selector::parse(canonical(s)) == label_selector::parse(s));
    CHECK(label_selector::parse("a=1,b=2") == label_selector::parse("b==2, a=1"));
}

TEST_CASE("field selectors parse, match and print with escapes", "[selector]") {
    const auto s = field_selector::parse(R"(metadata.name=a\,b\=c\\d,spec.nodeName!=n,status.phase==Running)");
    REQUIRE(s.requirements().size() == 3);
    CHECK(s.requirements()[0].path == "metadata.name");
    CHECK(s.requirements()[0].value == R"(a,b=c\d)");
    CHECK_FALSE(s.requirements()[1].equal);
    CHECK(s.str() == R"(metadata.name=a\,b\=c\\d,spec.nodeName!=n,status.phase=Running)");
    CHECK(field_selector::parse(s.str()) == s);
    const labels fields{{"metadata.name", R"(a,b=c\d)"}, {"status.phase", "Running"}};
    CHECK(s.matches(in(fields)));
    CHECK_FALSE(s.matches(in(labels{})));
    // An absent field counts as "".
    CHECK(field_selector::parse("spec.nodeName=").matches(in(labels{})));
    CHECK_FALSE(field_selector::parse("spec.nodeName!=").matches(in(labels{})));
    CHECK(field_selector::parse("").everything());
    CHECK(field_selector::parse(",,a=b,").str() == "a=b");
}

TEST_CASE("field selector errors name the position", "[selector]") {
    CHECK(ends_with(wrong_field("a=b,c"), "\"a=b,c\", position 4: 'c' has no =, == or !="));
    CHECK(ends_with(wrong_field("a=b=c"), "position 3: '=' in a value needs a backslash"));
    CHECK(ends_with(wrong_field(R"(a=b\x)"), R"(position 3: '\x' is no escape; there are \\, \, and \=)"));
    CHECK(ends_with(wrong_field("a=b\\"), "position 3: a backslash ends the value"));
    CHECK_THROWS_AS(field_selector::parse("a"), error);
}

TEST_CASE("selectors match objects", "[selector]") {
    const auto o = parse_object(R"({"metadata":{"name":"p","labels":{"app":"web","tier":"1","odd":7}},
        "spec":{"nodeName":"n1","hostNetwork":true,"replicas":3},"status":{"phase":"Running"}})");
    CHECK(label_selector::parse("app=web,tier>0,!gone").matches(o));
    CHECK_FALSE(label_selector::parse("app in (db)").matches(o));
    CHECK_FALSE(label_selector::parse("odd").matches(o)); // no string, no label
    CHECK(field_selector::parse("spec.nodeName=n1,status.phase!=Failed,metadata.name=p").matches(o));
    CHECK(field_selector::parse("spec.hostNetwork=true,spec.replicas=3,spec.none=").matches(o));
    CHECK_FALSE(field_selector::parse("spec.nodeName=n2").matches(o));
    const auto bare = parse_object("{}");
    CHECK(label_selector::parse("!app").matches(bare));
    CHECK(field_selector::parse("metadata.name=").matches(bare));
}
