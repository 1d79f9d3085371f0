#include <informer/etcd/list_watch.hpp>

#include "etcd/document.hpp"
#include "etcd/requests.hpp"
#include "root/one_line.hpp"
#include "root/quietly.hpp"
#include "root/utf8.hpp"

#include <charconv>
#include <limits>
#include <utility>

namespace informer::etcd {

namespace detail {

std::string source::describe() const {
    return rules.resource_.group_resource() + " below " + informer::detail::one_line(asked_prefix(rules));
}

void source::count_key(const failure& why) {
    ++keys_;
    if (why && unusable_++ == 0) first_unusable_ = why;
}

/// Each unusable key is reported by itself, too. But if there are no others, it is the mapping that is wrong.
void source::list_ends() {
    const bool none = keys_ != 0 && unusable_ == keys_;
    if (none && !none_usable_)
        members->rt.log(log_level::warning, first_unusable_.what() + "; so it is with all keys of the list, " +
                                                std::to_string(keys_) + " in number");
    none_usable_ = none;
}

std::optional<std::int64_t> revision_of(std::string_view text) noexcept {
    std::int64_t n = 0;
    if (text.empty()) return n;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), n);
    const bool all = ec == std::errc() && end == text.data() + text.size();
    if (!all || n < 0 || n == std::numeric_limits<std::int64_t>::max()) return std::nullopt;
    return n;
}

failure another_cluster(std::string_view answers, std::string_view instead_of, std::string doing) {
    api_status s;
    s.code = 410;
    s.reason = "Expired";
    s.message = "another cluster answers (" + std::string(answers.substr(0, 32)) + " instead of " +
                std::string(instead_of.substr(0, 32)) + ")";
    return failure(std::move(s), std::move(doing));
}

failure not_there_yet(std::int64_t asked, std::int64_t newest, std::string doing) {
    api_status s;
    s.code = 504;
    s.message = "revision " + std::to_string(asked) + " is asked for, and etcd is at " + std::to_string(newest);
    s.causes.push_back({"ResourceVersionTooLarge", s.message, ""});
    return failure(std::move(s), std::move(doing));
}

namespace {

asio::awaitable<list_result> list_quietly(std::shared_ptr<source> s, list_options options, object_sink& sink,
                                          failure& f) {
    return informer::detail::quietly(list_into(std::move(s), std::move(options), sink, f));
}

asio::awaitable<void> watch_quietly(std::shared_ptr<source> s, watch_options options, object_sink& sink, failure& f) {
    return informer::detail::quietly(watch_into(std::move(s), std::move(options), sink, f));
}

class etcd_list_watch final : public list_watch {
public:
    explicit etcd_list_watch(std::shared_ptr<source> s) : source_(std::move(s)) {}

    const api_resource& resource() const override { return source_->rules.resource_; }
    std::string describe() const override { return source_->describe(); }
    std::string name_space() const override { return source_->rules.name_space_; }
    asio::awaitable<list_result> list(list_options options, object_sink& sink, failure& f) override {
        return list_quietly(source_, std::move(options), sink, f);
    }
    asio::awaitable<void> watch(watch_options options, object_sink& sink, failure& f) override {
        return watch_quietly(source_, std::move(options), sink, f);
    }
    watch_list_support watch_list() const noexcept override { return watch_list_support::no; }
    // a watch reports every revision after its own, or that this was compacted
    bool tells_all() const noexcept override { return true; }

private:
    std::shared_ptr<source> source_;
};

} // namespace

} // namespace detail

std::shared_ptr<list_watch> make_list_watch(runtime rt, config c, mapping m, failure& f) {
    f = failure();
    const std::string prefix = detail::asked_prefix(m);
    if (informer::detail::utf8_end(prefix) != prefix.size())
        f = failure(errc::bad_configuration, "etcd: the prefix is not UTF-8");
    if (!m.name_space_.empty() && !m.resource_.namespaced)
        f = failure(errc::bad_configuration,
                    "etcd: in() asks for a namespace, and without namespaced() there are none");
    else if (m.name_space_.find('/') != std::string::npos)
        f = failure(errc::bad_configuration, "etcd: a namespace has no '/' in its name, and " +
                                                 informer::detail::one_line(m.name_space_) + " has");
    if (m.resource_.kind.empty() || m.resource_.version.empty())
        f = failure(errc::bad_configuration, "etcd: the resource has no kind or no version");
    if (f) return nullptr;
    auto members = std::make_shared<detail::gateway>(std::move(rt), std::move(c), f);
    if (f) return nullptr;
    return std::make_shared<detail::etcd_list_watch>(
        std::make_shared<detail::source>(std::move(members), std::move(m)));
}

std::shared_ptr<list_watch> make_list_watch(runtime rt, config c, mapping m) {
    failure f;
    auto made = make_list_watch(std::move(rt), std::move(c), std::move(m), f);
    throw_on(f);
    return made;
}

} // namespace informer::etcd
