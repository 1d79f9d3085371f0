// Keeps the waiter of a parked coroutine, for tests that wake it.
#pragma once

#include "root/parking.hpp"

namespace informer::testing {

/// The argument of wait_parked().
class place {
public:
    explicit place(detail::waiter_ptr* where) : where_(where) {}
    void operator()(const detail::waiter_ptr& w) const { *where_ = w; }

private:
    detail::waiter_ptr* where_;
};

} // namespace informer::testing
