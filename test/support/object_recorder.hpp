// An object sink that records its calls as lines: "item default/web 4", "bookmark 9 end".
#pragma once

#include <informer/source/list_watch.hpp>

#include <boost/asio/awaitable.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace informer::testing {

class object_recorder : public object_sink {
public:
    explicit object_recorder(std::shared_ptr<document_pool> pool) : pool_(std::move(pool)) {}

    document_pool& pool() override { return *pool_; }
    bool has_previous() const override { return !objects.empty() || asks_always; }
    object previous(const object_key& key, std::size_t) override {
        ++asked;
        const auto found = objects.find(key);
        return found == objects.end() ? object() : found->second;
    }
    void opened() override { lines.push_back("opened"); }
    void received(std::size_t n) override { bytes += n; }
    void item(object o) override { note("item", std::move(o)); }
    void event(watch_event_type t, object o) override {
        note(t == watch_event_type::added      ? "added"
             : t == watch_event_type::modified ? "modified"
                                               : "deleted",
             std::move(o));
    }
    void bookmark(resource_version v, bool end) override {
        lines.push_back("bookmark " + v.str() + (end ? " end" : ""));
    }
    void quarantine(bad_object b) override {
        lines.push_back("bad " + name(b));
        bad.push_back(std::move(b));
    }
    void begin_change() override { lines.push_back("change {"); }
    void end_change() override { lines.push_back("}"); }
    boost::asio::awaitable<bool> ready() override { return answer(lines.size() < enough); }

    std::vector<std::string> lines;
    std::vector<bad_object> bad;
    std::map<object_key, object> objects;
    std::size_t bytes = 0, enough = std::size_t(-1), asked = 0;
    bool asks_always = true;

protected:
    /// The name of a bad object in `lines`.
    virtual std::string name(const bad_object& b) const {
        return b.key.empty() ? std::to_string(b.position) : b.key.str();
    }

private:
    static boost::asio::awaitable<bool> answer(bool wanted) { co_return wanted; }
    void note(const std::string& what, object o) {
        lines.push_back(what + " " + o.key().str() + " " + o.resource_version().str());
        const object_key key = o.key();
        objects[key] = std::move(o);
    }
    std::shared_ptr<document_pool> pool_;
};

} // namespace informer::testing
