// Measured figures compared with their goals.
#pragma once

#include <cstdio>
#include <string>

namespace informer::bench {

/// Collects them, and prints them as one line.
class goals {
public:
    void at_least(const char* what, double measured, double least) {
        judge(what, measured, ">=", least, measured >= least);
    }
    void at_most(const char* what, double measured, double most) {
        judge(what, measured, "<=", most, measured <= most);
    }
    /// Returns true when all goals are met.
    bool print() const {
        std::printf("goals: %s\n", text_.c_str());
        return all_;
    }

private:
    void judge(const char* what, double measured, const char* relation, double goal, bool met) {
        char one[160];
        std::snprintf(one, sizeof one, "%s %.2f (%s %.2f) %s", what, measured, relation, goal, met ? "met" : "MISSED");
        text_.append(text_.empty() ? "" : ", ").append(one);
        all_ = all_ && met;
    }
    std::string text_;
    bool all_ = true;
};

} // namespace informer::bench
