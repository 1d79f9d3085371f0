// Figures in Prometheus' text format.
#include <informer/cache/shared_informer.hpp>
#include <informer/serving/prometheus_metrics.hpp>
#include <informer/testing/scripted_list_watch.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>

#include <fcntl.h>

#include <exception>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using informer::serving::prometheus_metrics;
using informer::serving::prometheus_options;

namespace {

/// Used before main() begins, by a static that may be constructed before those of the library.
struct early {
    early() {
        prometheus_metrics m;
        m.add("early_total", 1, {{"by", "a static"}});
        m.observe("workqueue_queue_duration_seconds", 1, {});
        text = m.text();
    }
    std::string text;
};
const early before_main;

bool has_line(const std::string& text, const std::string& wanted) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        if (line == wanted) return true;
    return false;
}

std::size_t lines_with(const std::string& text, const std::string& start) {
    std::istringstream lines(text);
    std::size_t n = 0;
    for (std::string line; std::getline(lines, line);) n += line.starts_with(start) ? 1 : 0;
    return n;
}

} // namespace

TEST_CASE("counters add up, gauges are replaced, and each has a type") {
    prometheus_metrics m;
    m.add("informer_events_total", 2, {{"resource", "pods"}, {"type", "added"}});
    m.add("informer_events_total", 3, {{"resource", "pods"}, {"type", "added"}});
    m.add("informer_events_total", 1, {{"resource", "pods"}, {"type", "deleted"}});
    m.set("informer_objects", 10, {{"resource", "pods"}});
    m.set("informer_objects", 4, {{"resource", "pods"}});
    const std::string text = m.text();
    INFO(text);
    CHECK(has_line(text, "# TYPE informer_events_total counter"));
    CHECK(has_line(text, "informer_events_total{resource=\"pods\",type=\"added\"} 5"));
    CHECK(has_line(text, "informer_events_total{resource=\"pods\",type=\"deleted\"} 1"));
    CHECK(has_line(text, "# TYPE informer_objects gauge"));
    CHECK(has_line(text, "informer_objects{resource=\"pods\"} 4"));
    CHECK(m.series() == 3);
}

TEST_CASE(
    "a histogram known from client-go has the buckets of client-go, a described one its own, any other the default") {
    prometheus_metrics m;
    m.observe("workqueue_queue_duration_seconds", 0.002, {{"name", "q"}});
    m.observe("rest_client_request_duration_seconds", 3, {{"verb", "GET"}, {"host", "h"}});
    m.observe("controller_runtime_reconcile_time_seconds", 0.12, {{"controller", "c"}});
    m.describe("my_seconds", "Mine.", {1, 2});
    m.observe("my_seconds", 1.5, {});
    m.observe("other_seconds", 0.03, {});
    const std::string text = m.text();
    INFO(text);
    CHECK(lines_with(text, "workqueue_queue_duration_seconds_bucket") == 13);
    CHECK(lines_with(text, "rest_client_request_duration_seconds_bucket") == 13);
    CHECK(lines_with(text, "controller_runtime_reconcile_time_seconds_bucket") == 41);
    CHECK(has_line(text, "controller_runtime_reconcile_time_seconds_bucket{controller=\"c\",le=\"0.1\"} 0"));
    CHECK(has_line(text, "controller_runtime_reconcile_time_seconds_bucket{controller=\"c\",le=\"0.15\"} 1"));
    CHECK(has_line(text, "# HELP my_seconds Mine."));
    CHECK(has_line(text, "my_seconds_bucket{le=\"1\"} 0"));
    CHECK(has_line(text, "my_seconds_bucket{le=\"2\"} 1"));
    CHECK(has_line(text, "my_seconds_bucket{le=\"+Inf\"} 1"));
    CHECK(has_line(text, "my_seconds_count 1"));
    CHECK(has_line(text, "my_seconds_sum 1.5"));
    CHECK(lines_with(text, "other_seconds_bucket") == 12);
}

TEST_CASE("describing a metric after its first series has no effect") {
    prometheus_metrics m;
    m.observe("early_seconds", 1, {{"of", "a"}});
    m.describe("early_seconds", "Too late.", {1, 2});
    m.observe("early_seconds", 1, {{"of", "b"}});
    m.describe("my_seconds", "First.", {1, 2});
    m.describe("my_seconds", "Mine.", {1, 2, 3});
    m.observe("my_seconds", 1, {{"of", "a"}});
    m.describe("my_seconds", "Too late.", {7});
    m.forget("my_seconds", {{"of", "a"}});
    m.observe("my_seconds", 1, {{"of", "b"}});
    const std::string text = m.text();
    INFO(text);
    CHECK(lines_with(text, "early_seconds_bucket{of=\"a\"") == 12);
    CHECK(lines_with(text, "early_seconds_bucket{of=\"b\"") == 12);
    CHECK(lines_with(text, "my_seconds_bucket{of=\"b\"") == 4);
    CHECK(has_line(text, "# HELP my_seconds Mine."));
    CHECK(text.find("Too late.") == std::string::npos);
}

TEST_CASE("a well-known histogram that only gets another help text keeps its buckets") {
    prometheus_metrics m;
    m.describe("rest_client_request_duration_seconds", "Ours.");
    m.observe("rest_client_request_duration_seconds", 3, {});
    const std::string text = m.text();
    INFO(text);
    CHECK(has_line(text, "# HELP rest_client_request_duration_seconds Ours."));
    CHECK(lines_with(text, "rest_client_request_duration_seconds_bucket") == 13);
}

TEST_CASE("label values are escaped") {
    prometheus_metrics m;
    m.set("g", 1, {{"text", "a\"b\\c\nd"}});
    CHECK(has_line(m.text(), "g{text=\"a\\\"b\\\\c\\nd\"} 1"));
}

TEST_CASE("a figure that cannot be kept is dropped and counted, and nothing is thrown") {
    prometheus_metrics m;
    m.add("no spaces", 1, {});
    m.add("ok_total", 1, {{"no-dash", "x"}});
    m.add("ok_total", 1, {});
    m.set("ok_total", 1, {});                     // a counter already
    m.observe("ok_total", 1, {{"other", "too"}}); // also under other labels
    m.add("ok_total", -1, {});
    m.add("ok_total", std::numeric_limits<double>::quiet_NaN(), {});
    m.observe("h_seconds", 1, {{"le", "x"}}); // the label of the buckets themselves
    CHECK(m.dropped() == 7);
    CHECK(has_line(m.text(), "ok_total 1"));
    CHECK(has_line(m.text(), "informer_metrics_dropped_total 7"));
    CHECK(m.text().find("h_seconds") == std::string::npos);
}

TEST_CASE("a label's value is never taken for another label") {
    prometheus_metrics m;
    m.add("c_total", 1,
          {{"a", "1\x1e"
                 "b\x1f"
                 "2"}});
    m.add("c_total", 1, {{"a", "1"}, {"b", "2"}});
    CHECK(has_line(m.text(), R"(c_total{a="1",b="2"} 1)"));
    CHECK(m.dropped() == 0);
}

TEST_CASE("a help text of several lines is still one comment") {
    prometheus_metrics m;
    m.describe("g", "Two\nlines and a \\.");
    m.set("g", 1, {});
    INFO(m.text());
    CHECK(has_line(m.text(), "# HELP g Two\\nlines and a \\\\."));
}

TEST_CASE("a label that is not UTF-8 does not spoil the scrape for all others") {
    prometheus_metrics m;
    m.set("g", 1, {{"text", "\xff"}});
    CHECK(m.dropped() == 1);
    CHECK(m.text().find('\xff') == std::string::npos);
    m.set("g", 1, {{"text", "\xc3\xa4"}});
    CHECK(has_line(m.text(), "g{text=\"\xc3\xa4\"} 1"));
}

TEST_CASE("an observation that is no number does not spoil a histogram's sum") {
    prometheus_metrics m;
    m.observe("my_seconds", 1, {});
    m.observe("my_seconds", std::numeric_limits<double>::quiet_NaN(), {});
    CHECK(m.dropped() == 1);
    CHECK(has_line(m.text(), "my_seconds_sum 1"));
    CHECK(has_line(m.text(), "my_seconds_count 1"));
}

TEST_CASE("a label with ever new values does not take more series than the limit") {
    prometheus_metrics m(prometheus_options().max_series(100));
    for (int i = 0; i < 1000; ++i) m.add("seen_total", 1, {{"pod", std::to_string(i)}});
    CHECK(m.series() == 100);
    CHECK(m.dropped() == 900);
    m.add("seen_total", 1, {{"pod", "7"}}); // a known series goes on
    CHECK(has_line(m.text(), "seen_total{pod=\"7\"} 2"));
}

TEST_CASE("a series that is forgotten is no longer shown, makes room, and begins anew") {
    prometheus_metrics m(prometheus_options().max_series(3));
    m.add("seen_total", 5, {{"pod", "a"}});
    m.set("g", 1, {{"pod", "a"}});
    m.observe("h_seconds", 1, {{"pod", "a"}});
    m.add("seen_total", 1, {{"pod", "b"}});
    CHECK(m.dropped() == 1);
    m.forget("seen_total", {{"pod", "a"}});
    m.forget("g", {{"pod", "a"}});
    m.forget("h_seconds", {{"pod", "a"}});
    m.forget("h_seconds", {{"pod", "a"}});
    m.forget("seen_total", {{"pod", "never told of"}});
    CHECK(m.series() == 0);
    CHECK(m.text().find("pod=") == std::string::npos);
    CHECK(m.text().find("seen_total") == std::string::npos); // nor its help
    m.add("seen_total", 1, {{"pod", "b"}});
    m.add("seen_total", 2, {{"pod", "a"}});
    m.observe("h_seconds", 1, {{"pod", "a"}});
    CHECK(m.dropped() == 1);
    const std::string text = m.text();
    CHECK(has_line(text, "seen_total{pod=\"a\"} 2"));
    CHECK(has_line(text, "seen_total{pod=\"b\"} 1"));
    CHECK(has_line(text, "h_seconds_count{pod=\"a\"} 1"));
}

TEST_CASE("a series whose labels came in two orders stays until it is forgotten in both") {
    prometheus_metrics m;
    m.add("seen_total", 1, {{"a", "1"}, {"b", "2"}});
    m.add("seen_total", 1, {{"b", "2"}, {"a", "1"}});
    CHECK(has_line(m.text(), "seen_total{a=\"1\",b=\"2\"} 2"));
    m.forget("seen_total", {{"a", "1"}, {"b", "2"}});
    m.add("seen_total", 1, {{"b", "2"}, {"a", "1"}});
    CHECK(has_line(m.text(), "seen_total{a=\"1\",b=\"2\"} 3"));
    m.forget("seen_total", {{"b", "2"}, {"a", "1"}});
    CHECK(m.text().find("seen_total") == std::string::npos);
}

TEST_CASE("any number of informers may come and go: the last one is still measured") {
    boost::asio::io_context context;
    const auto told = std::make_shared<prometheus_metrics>();
    informer::runtime rt(context.get_executor());
    rt.with_metrics(told);
    const auto settle = [&context] {
        context.restart();
        while (context.poll() != 0) context.restart();
    };
    for (int i = 1; i <= 1000; ++i) {
        const auto source = std::make_shared<informer::testing::scripted_list_watch>(context.get_executor());
        source->on_watch()->bookmark("1", true);
        const std::string node = "spec.nodeName=n" + std::to_string(i);
        informer::shared_informer pods(rt, source, informer::informer_options().fields(node));
        boost::asio::co_spawn(context, pods.run(), [](std::exception_ptr) {});
        settle();
        if (i == 1000) CHECK(has_line(told->text(), "informer_objects{resource=\"pods, fields " + node + "\"} 0"));
        pods.stop();
        settle();
    }
    CHECK(told->dropped() == 0);
    CHECK(told->series() == 0);
}

TEST_CASE("constant labels keep two clusters' informers of one name apart") {
    const auto m = std::make_shared<prometheus_metrics>();
    const auto east = informer::serving::with_labels(m, {{"cluster", "east"}});
    const auto west = informer::serving::with_labels(m, {{"cluster", "west"}});
    east->add("informer_events_total", 2, {{"resource", "pods"}});
    west->add("informer_events_total", 3, {{"resource", "pods"}});
    east->set("informer_objects", 7, {{"resource", "pods"}});
    east->observe("workqueue_queue_duration_seconds", 0.002, {{"name", "q"}});
    INFO(m->text());
    CHECK(has_line(m->text(), "informer_events_total{cluster=\"east\",resource=\"pods\"} 2"));
    CHECK(has_line(m->text(), "informer_events_total{cluster=\"west\",resource=\"pods\"} 3"));
    CHECK(has_line(m->text(), "informer_objects{cluster=\"east\",resource=\"pods\"} 7"));
    CHECK(has_line(m->text(), "workqueue_queue_duration_seconds_count{cluster=\"east\",name=\"q\"} 1"));
    east->forget("informer_events_total", {{"resource", "pods"}});
    CHECK(lines_with(m->text(), "informer_events_total{") == 1);
    CHECK(has_line(m->text(), "informer_events_total{cluster=\"west\",resource=\"pods\"} 3"));
}

TEST_CASE("a figure's own label wins over a constant one") {
    const auto m = std::make_shared<prometheus_metrics>();
    const auto east = informer::serving::with_labels(m, {{"cluster", "east"}});
    east->add("mine_total", 1, {{"cluster", "told"}});
    m->add("mine_total", 1, {{"cluster", "told"}});
    CHECK(has_line(m->text(), "mine_total{cluster=\"told\"} 2"));
    east->forget("mine_total", {{"cluster", "told"}});
    CHECK(has_line(m->text(), "mine_total{cluster=\"told\"} 2")); // the other sink still has it
    m->forget("mine_total", {{"cluster", "told"}});
    CHECK(lines_with(m->text(), "mine_total{") == 0);
}

TEST_CASE("constant labels that Prometheus would not accept are refused at once") {
    const auto m = std::make_shared<prometheus_metrics>();
    for (const char* name : {"", "1st", "a-b", "le", "__name__", "a\nb"}) {
        INFO(name);
        CHECK_THROWS_AS(informer::serving::with_labels(m, {{name, "x"}}), informer::error);
    }
    CHECK_THROWS_AS(informer::serving::with_labels(m, {{"cluster", "\xff"}}), informer::error);
    CHECK_THROWS_AS(informer::serving::with_labels(nullptr, {}), informer::error);
}

TEST_CASE("process_open_fds counts the descriptors of the process, without the one that is open for counting") {
    const auto told = [] {
        const std::string text = prometheus_metrics().text();
        const auto at = text.find("\nprocess_open_fds ");
        REQUIRE(at != std::string::npos);
        return std::stoul(text.substr(at + 18));
    };
    std::size_t open = 0;
    for (int fd = 0; fd < 4096; ++fd) open += ::fcntl(fd, F_GETFD) != -1;
    CHECK(told() == open);
}

TEST_CASE("the process's own figures are shown unless they are switched off") {
    const std::string with = prometheus_metrics().text();
    INFO(with);
    for (const char* name :
         {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_virtual_memory_bytes",
          "process_open_fds", "process_max_fds", "process_start_time_seconds"})
        CHECK(lines_with(with, std::string(name) + " ") == 1);
    CHECK_FALSE(has_line(with, "process_resident_memory_bytes 0"));
    CHECK_FALSE(has_line(with, "process_open_fds 0"));
    const std::string without = prometheus_metrics(prometheus_options().process_figures(false)).text();
    CHECK(lines_with(without, "process_") == 0);
}

TEST_CASE("figures may come from many threads while others read") {
    prometheus_metrics m;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&m, t] {
            for (int i = 0; i < 1000; ++i) {
                m.add("all_total", 1, {});
                m.add("brief_total", 1, {{"i", std::to_string(i)}});
                m.forget("brief_total", {{"i", std::to_string(i)}});
                m.observe("h_seconds", 0.1, {{"t", std::to_string(t)}});
                if (i % 100 == 0) (void)m.text();
            }
        });
    for (auto& t : threads) t.join();
    CHECK(has_line(m.text(), "all_total 4000"));
    CHECK(has_line(m.text(), "h_seconds_count{t=\"3\"} 1000"));
}

TEST_CASE("figures may come from the constructors of a program's statics") {
    CHECK(has_line(before_main.text, "early_total{by=\"a static\"} 1"));
}
