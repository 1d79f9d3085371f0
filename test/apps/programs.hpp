// devserver and informerctl as their users start them.
#pragma once

#include "support/process.hpp"
#include "support/temporary_folder.hpp"

#include <boost/json.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace programs {

using informer::testing::process;
using informer::testing::temporary_folder;

inline std::string bin(const std::string& name) {
    return INFORMER_BIN_DIR "/" + name;
}

/// A running devserver.
class server {
public:
    explicit server(std::vector<std::string> options = {}) {
        std::vector<std::string> command{bin("devserver"), "--kubeconfig", kubeconfig()};
        if (std::find(options.begin(), options.end(), "--port") == options.end())
            command.insert(command.end(), {"--port", "0"});
        command.insert(command.end(), options.begin(), options.end());
        process_ = std::make_unique<process>(command);
        const auto first = process_->line();
        REQUIRE(first);
        url = *first;
        REQUIRE(std::filesystem::exists(kubeconfig())); // written before the URL is printed
    }
    std::string kubeconfig() const { return folder_.path("kubeconfig"); }
    process& child() { return *process_; }
    const temporary_folder& folder() const { return folder_; }

    /// Another client: curl.
    std::string curl(const std::string& method, const std::string& path, const std::string& body = {},
                     const std::string& type = "application/json") const {
        std::vector<std::string> command{"curl", "-sS", "-k", "--max-time", "20", "-X", method, url + path};
        if (!body.empty()) // by file: an argument is limited to 128 KiB
            command.insert(command.end(),
                           {"-H", "Content-Type: " + type, "--data-binary", "@" + folder_.write("body", body)});
        process p(command);
        const int code = p.wait();
        INFO(p.err());
        REQUIRE(code == 0);
        return p.out();
    }
    void make(const std::string& name, const std::string& value, const std::string& labels = "{}",
              const std::string& ns = "default") const {
        const auto answer = curl("POST", "/api/v1/namespaces/" + ns + "/configmaps",
                                 R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":")" + name +
                                     R"(","labels":)" + labels + R"(},"data":{"value":")" + value + R"("}})");
        REQUIRE(boost::json::parse(answer).at("kind").as_string() == "ConfigMap");
    }
    void change(const std::string& name, const std::string& value) const {
        curl("PATCH", "/api/v1/namespaces/default/configmaps/" + name, R"({"data":{"value":")" + value + R"("}})",
             "application/merge-patch+json");
    }
    void remove(const std::string& name) const { curl("DELETE", "/api/v1/namespaces/default/configmaps/" + name); }

    std::string url;

private:
    temporary_folder folder_;
    std::unique_ptr<process> process_;
};

inline std::vector<std::string> ctl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), bin("informerctl"));
    return arguments;
}

struct result {
    int code;
    std::string out, err;
};
/// Runs informerctl to its end.
inline result run(std::vector<std::string> arguments, std::vector<std::string> environment = {}) {
    process p(ctl(std::move(arguments)), std::move(environment));
    const int code = p.wait();
    return {code, p.out(), p.err()};
}
inline std::size_t lines(const std::string& s) {
    return static_cast<std::size_t>(std::count(s.begin(), s.end(), '\n'));
}

} // namespace programs
