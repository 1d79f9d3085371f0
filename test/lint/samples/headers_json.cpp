// path: libinformer/include/informer/object/json.hpp
#include <boost/json/value.hpp>
#include <boost/json/parser.hpp> // expect: headers
