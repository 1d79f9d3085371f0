#include <informer/controller/event_correlator.hpp>
#include <informer/detail/async.hpp>

#include <algorithm>
#include <list>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

namespace informer {

namespace {

constexpr std::string_view combined = "(combined from similar events): ";
constexpr std::size_t longest_subject = 230; ///< of the 253 characters of a name; the rest is for the time

/// A map that forgets the least recently used entry.
template <class T>
class recent {
public:
    explicit recent(std::size_t limit) : limit_(std::max<std::size_t>(limit, 1)) {}

    T* find(const std::string& key) {
        const auto found = where_.find(key);
        if (found == where_.end()) return nullptr;
        order_.splice(order_.begin(), order_, found->second);
        return &found->second->second;
    }
    T& add(const std::string& key, T value) {
        order_.emplace_front(key, std::move(value));
        where_[key] = order_.begin();
        if (order_.size() > limit_) {
            where_.erase(order_.back().first);
            order_.pop_back();
        }
        return order_.front().second;
    }
    void erase(const std::string& key) {
        const auto found = where_.find(key);
        if (found == where_.end()) return;
        order_.erase(found->second);
        where_.erase(found);
    }
    /// The entry that `add` would forget; null: none.
    const T* last() const noexcept { return order_.size() < limit_ ? nullptr : &order_.back().second; }
    std::size_t size() const noexcept { return order_.size(); }
    auto begin() { return order_.begin(); }
    auto end() { return order_.end(); }

private:
    std::size_t limit_;
    std::list<std::pair<std::string, T>> order_;
    std::unordered_map<std::string, typename std::list<std::pair<std::string, T>>::iterator> where_;
};

void append(std::string& to, std::string_view part) {
    to += part;
    to += '\x1f';
}

void append(std::string& to, const event_subject& s) {
    for (const auto& part : {s.api_version, s.kind, s.name_space, s.name, s.uid}) append(to, part);
}

/// The same for events that are alike except for the note.
std::string similar_key(const event_record& e) {
    std::string key;
    append(key, e.type);
    append(key, e.reason);
    append(key, e.action);
    append(key, e.regarding);
    append(key, e.related);
    return key;
}

std::string event_name(const event_subject& about, std::chrono::system_clock::time_point wall, std::uint64_t number) {
    static constexpr char digits[] = "0123456789abcdef";
    auto ticks = static_cast<std::uint64_t>(
                     std::chrono::duration_cast<std::chrono::nanoseconds>(wall.time_since_epoch()).count()) +
                 number;
    std::string hex;
    for (; ticks != 0; ticks >>= 4) hex.insert(hex.begin(), digits[ticks & 15]);
    // Some kinds allow names that an Event must not have ("system:node"). An Event's name consists of labels that begin
    // and end with a letter or digit.
    std::string name;
    for (char c : about.name.substr(0, longest_subject)) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
        const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        const bool begins = name.empty() || name.back() == '.';
        if (plain) {
            name += c;
        } else if (c != '.') {
            if (!begins) name += '-';
        } else if (!begins) {
            while (name.back() == '-') name.pop_back();
            name += '.';
        }
    }
    while (!name.empty() && (name.back() == '-' || name.back() == '.')) name.pop_back();
    return (name.empty() ? "event" : name) + "." + hex;
}

struct series {
    event_correlator::write last;
    clock::time_point seen, written;
    bool unwritten = false; ///< it grew since the last write
};

struct subject {
    double tokens = 0;
    clock::time_point filled;
};

struct group {
    std::set<std::string> notes;
    clock::time_point seen;
};

} // namespace

event_subject::event_subject(const object& o)
    : api_version(o.api_version().str()), kind(o.kind().str()), name_space(o.meta().name_space().str()),
      name(o.meta().name().str()), uid(o.meta().uid().str()),
      resource_version(o.meta().value()["resourceVersion"].string_or_empty().str()) {}

struct event_correlator::impl {
    explicit impl(event_limits l) : limits(l), all(l.memory_), subjects(l.memory_), groups(l.memory_) {}

    event_limits limits;
    recent<series> all;
    recent<subject> subjects;
    recent<group> groups;
    std::unordered_map<std::string, std::string> keys; ///< the keys in `all`, by the event's name
    std::uint64_t dropped = 0, number = 0;

    bool allowed(const event_record& e, clock::time_point now);
    std::string key_of(event_record& e, clock::time_point now);
};

bool event_correlator::impl::allowed(const event_record& e, clock::time_point now) {
    std::string key;
    append(key, e.type);
    append(key, e.regarding);
    subject* s = subjects.find(key);
    if (s == nullptr) {
        subject fresh;
        fresh.tokens = limits.burst_;
        fresh.filled = now;
        s = &subjects.add(key, fresh);
    }
    const std::chrono::duration<double> passed = now - s->filled;
    const std::chrono::duration<double> each = limits.refill_;
    s->tokens = each.count() > 0 ? std::min<double>(limits.burst_, s->tokens + passed / each) : limits.burst_;
    s->filled = now;
    if (s->tokens < 1) return false;
    s->tokens -= 1;
    return true;
}

std::string event_correlator::impl::key_of(event_record& e, clock::time_point now) {
    std::string key = similar_key(e);
    group* g = groups.find(key);
    if (g == nullptr) g = &groups.add(key, group());
    if (now - g->seen > limits.similar_within_) g->notes.clear();
    g->seen = now;
    if (g->notes.contains(e.note) || g->notes.size() + 1 < limits.similar_) {
        g->notes.insert(e.note);
        append(key, e.note);
        append(key, e.regarding.field_path); // not for combined events
        append(key, e.related.field_path);
    } else {
        e.note.insert(0, combined);
        append(key, combined);
    }
    return key;
}

event_correlator::event_correlator(event_limits limits) : impl_(std::make_unique<impl>(limits)) {}
event_correlator::~event_correlator() = default;

std::vector<event_correlator::write> event_correlator::record(event_record e, clock::time_point now,
                                                              std::chrono::system_clock::time_point wall) {
    impl& s = *impl_;
    const std::string key = s.key_of(e, now);
    std::vector<write> out;
    if (series* known = s.all.find(key)) {
        if (now - known->seen <= s.limits.series_over_) {
            ++known->last.count;
            known->last.last = wall;
            known->seen = now;
            known->unwritten = true;
            if (known->last.count == 2 || now - known->written >= s.limits.refresh_) {
                known->written = now;
                known->unwritten = false;
                out.push_back(known->last);
            }
            return out;
        }
        if (known->unwritten) out.push_back(known->last); // nobody called tick() in time
        s.keys.erase(known->last.name);
        s.all.erase(key);
    }
    if (!s.allowed(e, now)) {
        ++s.dropped;
        return out;
    }
    series fresh;
    fresh.last.create = true;
    fresh.last.name = event_name(e.regarding, wall, s.number++);
    fresh.last.event = std::move(e);
    fresh.last.first = fresh.last.last = wall;
    fresh.seen = fresh.written = now;
    out.push_back(fresh.last);
    s.keys[fresh.last.name] = key;
    fresh.last.create = false;
    if (const series* forgotten = s.all.last()) {
        if (forgotten->unwritten) out.push_back(forgotten->last);
        s.keys.erase(forgotten->last.name);
    }
    s.all.add(key, std::move(fresh));
    return out;
}

std::vector<event_correlator::write> event_correlator::tick(clock::time_point now) {
    impl& s = *impl_;
    std::vector<write> out;
    std::vector<std::string> over;
    for (auto& [key, one] : s.all) {
        const bool ended = now - one.seen >= s.limits.series_over_;
        if (one.unwritten && (ended || now - one.written >= s.limits.refresh_)) {
            one.unwritten = false;
            one.written = now;
            out.push_back(one.last);
        }
        if (ended) over.push_back(key);
    }
    for (const auto& key : over) {
        if (series* one = s.all.find(key)) s.keys.erase(one->last.name);
        s.all.erase(key);
    }
    return out;
}

clock::time_point event_correlator::next_due() const {
    auto due = clock::time_point::max();
    for (auto& [key, one] : impl_->all) {
        due = std::min(due, detail::later(one.seen, impl_->limits.series_over_));
        if (one.unwritten) due = std::min(due, detail::later(one.written, impl_->limits.refresh_));
    }
    return due;
}

void event_correlator::forget(const std::string& name) {
    const auto found = impl_->keys.find(name);
    if (found == impl_->keys.end()) return;
    impl_->all.erase(found->second);
    impl_->keys.erase(found);
}

std::uint64_t event_correlator::dropped() const noexcept {
    return impl_->dropped;
}
std::size_t event_correlator::remembered() const noexcept {
    return impl_->all.size();
}

} // namespace informer
