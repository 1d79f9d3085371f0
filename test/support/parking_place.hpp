// Where a coroutine that is parked is put, for tests that wake it.
#pragma once

#include "root/parking.hpp"

namespace informer::testing {

/// For wait_parked().
class place {
public:
    explicit place(detail::waiter_ptr* where) : where_(where) {}
    void operator()(const detail::waiter_ptr& w) const { *where_ = w; }

private:
    detail::waiter_ptr* where_;
};

} // namespace informer::testing
