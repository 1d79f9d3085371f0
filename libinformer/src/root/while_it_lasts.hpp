// A flag that is set while something goes on, however that ends.
#pragma once

namespace informer::detail {

class while_it_lasts {
public:
    explicit while_it_lasts(bool& flag) noexcept : flag_(flag) { flag_ = true; }
    while_it_lasts(const while_it_lasts&) = delete;
    while_it_lasts& operator=(const while_it_lasts&) = delete;
    ~while_it_lasts() { flag_ = false; }

private:
    bool& flag_;
};

} // namespace informer::detail
