// path: libinformer/include/informer/http/server/sample.hpp
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ssl.hpp> // expect: headers
#include <boost/beast/core.hpp> // expect: headers
#include <boost/json/fwd.hpp>
#include <boost/json/value.hpp> // expect: headers
#include <boost/json.hpp> // expect: headers
#include <openssl/ssl.h> // expect: headers
#include <zlib.h> // expect: headers
