// A folder for a test, gone with it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace informer::testing {

class folder {
public:
    folder() {
        std::string name = (std::filesystem::temp_directory_path() / "informer-test-XXXXXX").string();
        path_ = mkdtemp(name.data());
    }
    ~folder() {
        std::error_code ec;
        std::filesystem::remove_all(path_, ec);
    }
    folder(const folder&) = delete;
    folder& operator=(const folder&) = delete;
    std::string write(const std::string& name, const std::string& text) const {
        const auto file = path_ / name;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file) << text;
        return file.string();
    }
    std::string path(const std::string& name) const { return (path_ / name).string(); }

private:
    std::filesystem::path path_;
};

} // namespace informer::testing
