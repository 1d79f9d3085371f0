// path: libinformer/src/object/sample.cpp
#include <informer/error.hpp>
#include <informer/detail/async.hpp>
#include <informer/object/value.hpp>
#include "hash.hpp"
#include "detail/node.hpp"
#include <informer/cache/lister.hpp> // expect: layers
#include "http/pool.hpp" // expect: layers
#include "../kubernetes/client.hpp" // expect: layers
#include <informer/http/client.hpp> // lint: layers a reason
// #include <informer/cache/lister.hpp>
