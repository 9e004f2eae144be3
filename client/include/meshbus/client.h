#pragma once

/// Everything that a launcher needs.
///
///     auto context = *meshbus::Context::create();
///     auto hosts = *meshbus::HostMesh::process(context, *meshbus::Extent::parse("host=2"));
///     auto mesh =
///         *hosts.spawn("hello", *meshbus::Extent::parse("gpu=4"), {.command = {"hostname"}});
///     auto outcome = *mesh.wait(std::chrono::seconds(10));   // outcome.ranks[3].exit_code == 0
///     hosts.shutdown();
#include "meshbus/accumulation.h"    // IWYU pragma: export
#include "meshbus/actor_mesh.h"      // IWYU pragma: export
#include "meshbus/address.h"         // IWYU pragma: export
#include "meshbus/allocator.h"       // IWYU pragma: export
#include "meshbus/context.h"         // IWYU pragma: export
#include "meshbus/controller.h"      // IWYU pragma: export
#include "meshbus/events.h"          // IWYU pragma: export
#include "meshbus/host_mesh.h"       // IWYU pragma: export
#include "meshbus/logs.h"            // IWYU pragma: export
#include "meshbus/mesh_statuses.h"   // IWYU pragma: export
#include "meshbus/name.h"            // IWYU pragma: export
#include "meshbus/proc_mesh.h"       // IWYU pragma: export
#include "meshbus/proc_ref.h"        // IWYU pragma: export
#include "meshbus/rank_report.h"     // IWYU pragma: export
#include "meshbus/remote_actor.h"    // IWYU pragma: export
#include "meshbus/remote_hosts.h"    // IWYU pragma: export
#include "meshbus/restart_policy.h"  // IWYU pragma: export
#include "meshbus/result.h"          // IWYU pragma: export
