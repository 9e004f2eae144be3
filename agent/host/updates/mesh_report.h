#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/host/model/proc_table.h"
#include "wire/forward.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {

/// How meshes travel (schemas/supervision.fbs). Pure. One message holds at most 1 MiB; these stay
/// well below, because brokers count bytes too.
inline constexpr std::size_t kReportBytes = 768 * 1024;

/// What is known about a mesh. When the exit reports of all ended ranks are too much for one
/// message, the tails of the later ones are left out, then the exit reports themselves. With
/// `later`, only whole exit reports are there, and the procs of the others are added to it.
wire::MeshStateT make_mesh_state(const Mesh& mesh, std::size_t bytes = kReportBytes,
                                 std::vector<const Proc*>* later = nullptr,
                                 bool with_usage = false);

/// Whether it is ready and slow, frozen or stuck.
bool is_in_trouble(const Proc& proc);
/// A mesh without its ranks.
wire::MeshStateT make_mesh_head(const Mesh& mesh);
/// About how many bytes a mesh without its ranks takes.
std::size_t size_of(const wire::MeshStateT& state);

std::unique_ptr<wire::OwnershipT> make_ownership(const MeshOwnership& ownership);

/// As many of these meshes, by name from behind `after`, as there is room for; MeshList::more says
/// whether some are left. A mesh that fits in no message is listed without its ranks.
wire::MeshListT make_mesh_list(const ProcTable::Meshes& meshes, const std::string& after,
                               const std::string& host, std::size_t bytes = kReportBytes,
                               bool with_usage = false);

/// Cuts an update into messages, in order: all states before the troubles and the times, those
/// before the exit reports.
std::vector<wire::StateChangedT> make_changes(const std::string& mesh, const std::string& host,
                                              HostUpdate update, std::size_t bytes = kReportBytes);

/// The whole present state as changes: for peers that may have missed some.
std::vector<wire::StateChangedT> make_snapshot(const Mesh& mesh, const std::string& host);

}  // namespace meshbus::host
