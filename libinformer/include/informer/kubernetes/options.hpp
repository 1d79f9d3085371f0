// Options of the client's verbs.
#pragma once

#include <informer/error.hpp>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace informer::kubernetes {

/// How a patch is written. `apply` is server-side apply: the fields that this field manager wants to own.
enum class patch_type { merge, json, strategic_merge, apply };

class get_options {
public:
    get_options() {}
    // clang-format off
    get_options& subresource(std::string s) { subresource_ = std::move(s); return *this; } ///< "status", "scale"
    /// "0" lets the server answer from its cache; empty is the newest state.
    get_options& resource_version(std::string v) { resource_version_ = std::move(v); return *this; }
    /// For all attempts together, with the waits between them. 0: client_config::time_limit.
    get_options& time_limit(std::chrono::milliseconds d) { time_limit_ = d; return *this; }
    // clang-format on

    std::string subresource_, resource_version_;
    std::chrono::milliseconds time_limit_{0};
};

/// Options of create, update, patch and apply.
class write_options {
public:
    write_options() {}
    /// Does everything except storing: admission, validation, conflicts. The answer is what would have been stored.
    // clang-format off
    write_options& dry_run(bool on = true) { dry_run_ = on; return *this; }
    /// The writer's name in metadata.managedFields. Apply needs one ("libinformer" if none is given): give each
    /// controller its own, and never change it. Without one the server takes the first word of the user agent.
    write_options& field_manager(std::string m) { field_manager_ = std::move(m); return *this; }
    /// Apply only: takes fields over from other managers instead of failing with a conflict.
    write_options& force(bool on = true) { force_ = on; return *this; }
    /// "status", "scale", "eviction", "token", "binding", …
    write_options& subresource(std::string s) { subresource_ = std::move(s); return *this; }
    /// "Strict" refuses unknown and duplicate fields, "Warn" (the server's default) warns of them, "Ignore".
    write_options& field_validation(std::string how) { field_validation_ = std::move(how); return *this; }
    /// For all attempts together, with the waits between them. 0: client_config::time_limit.
    write_options& time_limit(std::chrono::milliseconds d) { time_limit_ = d; return *this; }
    // clang-format on

    bool dry_run_ = false, force_ = false;
    std::string field_manager_, subresource_, field_validation_;
    std::chrono::milliseconds time_limit_{0};
};

class delete_options {
public:
    delete_options() {}
    /// Fails with a conflict if the object has another uid (it is not the one that was meant) or another resource
    /// version.
    // clang-format off
    delete_options& precondition_uid(std::string uid) { uid_ = std::move(uid); return *this; }
    delete_options& precondition_resource_version(std::string v) { resource_version_ = std::move(v); return *this; }
    /// 0 deletes at once; if not set, the resource's own default applies.
    delete_options& grace_period(std::chrono::seconds s) { grace_seconds_ = s.count(); return *this; }
    /// What happens to the objects it owns: "Background", "Foreground", "Orphan".
    delete_options& propagation(std::string p) { propagation_ = std::move(p); return *this; }
    delete_options& dry_run(bool on = true) { dry_run_ = on; return *this; }
    /// For all attempts together, with the waits between them. 0: client_config::time_limit.
    delete_options& time_limit(std::chrono::milliseconds d) { time_limit_ = d; return *this; }
    // clang-format on

    std::string uid_, resource_version_, propagation_;
    long long grace_seconds_ = -1;
    bool dry_run_ = false;
    std::chrono::milliseconds time_limit_{0};
};

/// One field that an apply could not take, because another manager owns it with another value.
struct field_conflict {
    std::string field;   ///< ".spec.replicas", ".spec.template.spec.containers[name=\"web\"].image"
    std::string manager; ///< "kubectl-client-side-apply"; empty if the server's sentence cannot be read
    std::string message; ///< the server's sentence
};

/// Returns the conflicts of a refused apply (errc::conflict); empty for any other failure, other conflicts included.
/// Returns all of them, but none if the server's answer is longer than 256 KiB (some thousand conflicts), because then
/// it is not read.
std::vector<field_conflict> field_conflicts(const failure& f);

} // namespace informer::kubernetes
