// path: libinformer/include/informer/testing/sample.hpp
#include <informer/cache/lister.hpp>
#include <informer/http/server/server.hpp>
#include <informer/serving/metrics.hpp> // expect: layers
#include <boost/beast/http.hpp> // expect: headers
