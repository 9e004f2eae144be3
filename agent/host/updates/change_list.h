#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "agent/host/model/proc_table.h"
#include "agent/host/updates/change_book.h"
#include "agent/host/updates/mesh_report.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {

/// Where a list of changes begins and goes on.
struct ChangeQuery {
  std::uint64_t since = 0;      ///< 0: everything.
  std::string from = {};        ///< The mesh to go on with; empty: the first.
  std::uint64_t from_rank = 0;  ///< The rank of it to go on with.
};

/// What has changed after `query.since`, as the book knows since its last look, by mesh and rank;
/// as much as there is room for (MeshList.changes). Pure.
wire::MeshListT make_change_list(const ProcTable::Meshes& meshes, const ChangeBook& book,
                                 const ChangeQuery& query, std::size_t bytes = kReportBytes);

/// The last line of a proc that is not empty, at most so many bytes of it.
std::string last_line_of(const Proc& proc, std::size_t bytes);

}  // namespace meshbus::host
