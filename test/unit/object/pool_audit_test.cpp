// Random lives of a pool, in which everything is counted anew now and then.
#include "pool_audit.hpp"

#include "support/fuzz.hpp"

#include <catch2/catch_test_macros.hpp>

#include <boost/json/serialize.hpp>

#include <random>

using namespace pool_audit;
namespace json = boost::json;

namespace {

class documents {
public:
    explicit documents(unsigned seed) : random_(seed) {}
    std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }
    bool one_in(std::size_t n) { return below(n) == 0; }

    json::value document() {
        json::object o;
        o["metadata"] = json::object{{"name", json::string("n" + std::to_string(below(5)))}, {"labels", value(2)}};
        o["spec"] = value(4);
        o["status"] = value(4);
        return o;
    }
    /// Changes mostly scalars; now and then a container, which changes the structure that texts are compared by.
    void change(json::value& v) {
        for (std::size_t n = below(5); n > 0; --n) {
            std::vector<json::value*> all;
            collect(v, all);
            json::value& one = *all[below(all.size())];
            if (!one.is_structured())
                one = scalar();
            else if (one_in(4))
                change_container(one);
        }
    }
    /// Writes the value, in one of many spellings.
    std::string text(const json::value& v) {
        std::string out;
        const std::size_t escapes = one_in(2) ? 3 : 0;
        const std::string plain = json::serialize(v);
        bool in_string = false; // no key and no text of ours has an escape
        for (const char c : plain) {
            if (c == '"') in_string = !in_string;
            if (in_string && escapes != 0 && c >= 'a' && c <= 'e' && one_in(escapes))
                out += std::string("\\u006") + static_cast<char>('1' + (c - 'a'));
            else
                out += c;
        }
        return out;
    }

private:
    json::value scalar() {
        switch (below(8)) {
        case 0: return static_cast<std::int64_t>(below(20));
        case 1: return json::value(nullptr);
        case 2: return one_in(2);
        case 3: return json::string("unique text " + std::to_string(++made_));
        case 4: return json::string(below(one_in(30) ? 40'000 : 30), 'x');
        default: return json::string("text number " + std::to_string(below(30)));
        }
    }
    std::string key() {
        return one_in(8) ? "own key " + std::to_string(++made_) : "key number " + std::to_string(below(9));
    }
    json::value value(int depth) {
        if (depth == 0 || one_in(3)) return scalar();
        const std::size_t n = one_in(40) ? 250 + below(60) : below(5); // over 256 keys a shape has another form
        const int below_it = n > 20 ? 0 : depth - 1;
        if (one_in(2)) {
            json::array a;
            for (std::size_t i = 0; i < n; ++i) a.push_back(value(below_it));
            return a;
        }
        json::object o;
        for (std::size_t i = 0; i < n; ++i) o[n > 20 ? "wide key " + std::to_string(i) : key()] = value(below_it);
        return o;
    }
    void change_container(json::value& v) {
        if (auto* const o = v.if_object()) {
            if (one_in(3) && !o->empty())
                o->erase((o->begin() + static_cast<std::ptrdiff_t>(below(o->size())))->key());
            else
                (*o)[key()] = value(2);
        } else {
            json::array& a = v.as_array();
            if (one_in(3) && !a.empty())
                a.erase(a.begin() + static_cast<std::ptrdiff_t>(below(a.size())));
            else
                a.insert(a.begin() + static_cast<std::ptrdiff_t>(below(a.size() + 1)), value(2));
        }
    }
    static void collect(json::value& v, std::vector<json::value*>& all) {
        all.push_back(&v);
        if (auto* const o = v.if_object())
            for (auto& member : *o) collect(member.value(), all);
        else if (auto* const a = v.if_array())
            for (json::value& element : *a) collect(element, all);
    }

    std::mt19937 random_;
    std::size_t made_ = 0;
};

/// A pool and everything that is held of it.
class life {
public:
    explicit life(unsigned seed) : random_(seed), now_(12), held_(12) {
        text_difference::tireless = random_.one_in(2);
        pool_limits limits;
        limits.template_documents = 1;
        limits.first_chunk = 1024;
        if (random_.one_in(3)) limits.max_bytes = 200'000 + random_.below(1'000'000);
        made_ = make_pool(decode_options(), limits);
        for (json::value& v : now_) v = random_.document();
    }
    ~life() { text_difference::tireless = false; }
    life(const life&) = delete;
    life& operator=(const life&) = delete;

    void step() {
        const std::size_t at = random_.below(held_.size()), what = random_.below(100);
        failure f;
        if (what < 55) {
            if (random_.one_in(6)) now_[at] = now_[random_.below(now_.size())];
            random_.change(now_[at]);
            const object previous = random_.one_in(5) ? object() : held_[at];
            keep(at, made_->decode(random_.text(now_[at]), previous, f));
        } else if (what < 62) {
            if (work_.size() < 3) begin(at, false);
        } else if (what < 66) {
            if (work_.size() < 3) begin(at, true);
        } else if (what < 82) {
            if (!work_.empty()) go_on(work_.begin() + static_cast<std::ptrdiff_t>(random_.below(work_.size())));
        } else if (what < 85) {
            keep(at, made_->move(held_[at], f));
        } else if (what < 87) {
            keep(at, made_->encode(now_[at], held_[at], f));
        } else if (what < 92) {
            held_[at] = object();
        } else if (what == 92) {
            if (random_.one_in(5)) made_->begin_generation();
        } else {
            made_->collect(random_.one_in(2) ? random_.below(50) : 100'000);
        }
    }
    /// The fault found; empty if there is none, or if this is not the moment for an audit.
    std::string fault() {
        std::size_t budget = 100'000;
        while (!inside().core_->collect(budget)) {
        }
        std::vector<object> held = held_;
        std::vector<decoding*> under_way;
        for (const work& w : work_) {
            held.push_back(w.previous);
            under_way.push_back(w.steps.get());
        }
        const audit a(inside(), held, under_way);
        audits_ += a.done();
        return a.fault();
    }
    /// The same after everything was let go.
    std::string fault_at_the_end() {
        work_.clear();
        held_.assign(held_.size(), object());
        inside().difference_.forget(inside().core_->current());
        while (!made_->collect(1000)) {
        }
        const pool_statistics s = made_->statistics();
        if (s.nodes != 0 || s.referenced_nodes != 0 || s.objects != 0 || s.generations != 1) return "something is left";
        return audit(inside(), {}, {}).fault();
    }
    std::size_t audits() const noexcept { return audits_; }

private:
    struct work {
        std::unique_ptr<std::string> text;
        object previous;
        std::size_t at;
        std::unique_ptr<decoding> steps;
    };
    pool& inside() { return static_cast<pool&>(*made_); }
    void keep(std::size_t at, object o) {
        if (o) held_[at] = std::move(o); // else the pool was full
    }
    void begin(std::size_t at, bool moves) {
        work w{std::make_unique<std::string>(random_.text(now_[at])), held_[at], at, nullptr};
        w.steps = moves ? made_->begin_move(w.previous) : made_->begin_decode(*w.text, w.previous);
        work_.push_back(std::move(w));
    }
    void go_on(std::vector<work>::iterator w) {
        if (!random_.one_in(12)) {
            if (!w->steps->step(1 + random_.below(500))) return;
            failure f;
            keep(w->at, w->steps->finish(f));
        }
        work_.erase(w); // done, or given up
    }

    documents random_;
    std::shared_ptr<document_pool> made_;
    std::vector<json::value> now_;
    std::vector<object> held_;
    std::vector<work> work_;
    std::size_t audits_ = 0;
};

} // namespace

TEST_CASE("pool: whatever happens to documents, each node has as many counts as there are references to it") {
    for (unsigned seed = 1; seed <= 12; ++seed) {
        life l(informer::testing::fuzz_seed(seed));
        const std::size_t steps = informer::testing::fuzz_rounds(400);
        for (std::size_t i = 0; i < steps; ++i) {
            l.step();
            CAPTURE(seed, i);
            if (i % 3 != 0) continue;
            REQUIRE(l.fault() == "");
        }
        CHECK(l.audits() > steps / 6);
        REQUIRE(l.fault_at_the_end() == "");
    }
}
