#pragma once

/// Everything that a launcher needs.
///
///     auto context = must(meshbus::Context::create());
///     const auto two = must(meshbus::Extent::parse("host=2"));
///     const auto four = must(meshbus::Extent::parse("gpu=4"));
///     auto hosts = must(meshbus::HostMesh::process(context, two));
///     auto mesh = must(hosts.spawn("hello", four, {.command = {"hostname"}}));
///     auto outcome = must(mesh.wait(std::chrono::seconds(10)));  // .ranks[3].exit_code == 0
///     must(hosts.shutdown());
///
/// `must` (meshbus/must.h) throws what went wrong. Without it look at each Result before its value:
/// `*result` of an error is undefined behaviour.
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
#include "meshbus/resize_order.h"    // IWYU pragma: export
#include "meshbus/restart_policy.h"  // IWYU pragma: export
#include "meshbus/result.h"          // IWYU pragma: export
