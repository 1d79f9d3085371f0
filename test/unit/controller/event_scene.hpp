// Events to record.
#pragma once

#include "server_bench.hpp"

#include <informer/controller/event_recorder.hpp>
#include <informer/object/document_pool.hpp>

#include <string>

namespace server_test {

inline event_record about(const std::string& name, const std::string& reason = "Synced",
                          const std::string& note = "all is well") {
    event_record e;
    e.reason = reason;
    e.action = "Sync";
    e.note = note;
    e.regarding = event_subject(
        parse_object(R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":")" + name +
                     R"(","uid":"u-)" + name + "\"}}"));
    return e;
}

} // namespace server_test
