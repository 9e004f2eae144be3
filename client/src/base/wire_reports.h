#pragma once

#include <memory>
#include <string>
#include <vector>

#include <flatbuffers/vector.h>

#include "meshbus/host_mesh.h"
#include "meshbus/rank_report.h"
#include "wire/codes_generated.h"
#include "wire/forward.h"

/// Between what travels and what the public headers show. Bytes from peers: unknown enum values
/// become `unknown`, never undefined behaviour.
namespace meshbus {

std::vector<wire::RankInterval> to_wire(const RankSet& ranks);

/// Writes what the state says into the report; place and exit report stay.
void copy_state(const wire::RankState& from, RankReport& to);
/// Nothing for one that this release does not know, or of another life than the report's; and while
/// the rank is not ready. `stuck`: the handler, with Trouble::stuck; may be null.
void copy_trouble(const wire::RankTrouble& from, RankReport& to,
                  const wire::StuckHandlerT* stuck = nullptr);
/// The entry of that rank, of a message. Null: it has none.
std::shared_ptr<const wire::StuckHandlerT> find_stuck(
    const flatbuffers::Vector<flatbuffers::Offset<wire::StuckHandler>>* stuck, std::uint64_t rank);
ProcUsage to_report(const wire::RankUsage& usage);
void copy_exit_report(const wire::ExitReport& from, RankReport& to);
LaunchTimes to_report(const wire::LaunchTimes& times);
HostReport to_report(const HostAddr& host, const wire::HostState& state);
HostEvent to_report(const HostAddr& host, const wire::Event& event);
/// Errors: malformed_message.
Result<MeshReport> to_report(const wire::MeshState& state);
/// Adds the ranks of another host to those of the same mesh.
void merge_into(MeshReport& report, const wire::MeshState& state);

}  // namespace meshbus
