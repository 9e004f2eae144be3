#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "meshbus/proc_mesh_ref.h"
#include "meshbus/result.h"

/// The programs of one job (`meshbus run` with several roles), as one of their ranks sees
/// them. Plain values, read from the environment of this process; any thread may ask, as long as no
/// other one changes the environment.
///
///     // In a rank of the trainer. The error not_exist: this job has no such role.
///     const auto store = meshbus::role("store");
///     if (!store) return store.error();
///     proc.call(*store->proc_at(0), 1, "hello", 10s);
namespace [[gnu::visibility("default")]] meshbus {

/// The role of this process in its job: "trainer". Empty when its job has no roles.
std::string own_role();

/// The roles of the job, in its order, this one included. Empty when it has none.
std::vector<std::string> roles();

/// The ranks of a role of this job, by its name as it was given, in the same letters; also of one
/// that is not started yet. Errors: not_exist when the
/// job has no such role; parse_error when the variable that names it was changed.
[[nodiscard]] Result<ProcMeshRef> role(std::string_view name);

/// The variable that has the reference of a role: "MESHBUS_ROLE_TRAINER" of "trainer".
std::string role_variable(std::string_view name);

}  // namespace meshbus
