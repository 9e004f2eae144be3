#include "client/src/host_mesh/status_places.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "common/wire/control.h"
#include "common/wire/frame.h"
#include "common/wire/wire_values.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {
namespace {

/// Whether the ordinals of a view are the create ranks: then nothing need be done rank by rank.
bool is_whole(const ProcMeshRef& mesh) {
  return mesh.region() == Region(mesh.region().extent());
}

/// What was said of these ranks; unknown where nothing was.
StatusOverlay cut(const StatusOverlay& said, const RankSet& ranks) {
  std::vector<StatusOverlay::Run> runs;
  auto from = said.runs().begin();
  for (const RankBlock& block : ranks) {
    auto next = block.begin;
    while (from != said.runs().end() && from->end <= block.begin) ++from;
    for (auto run = from; run != said.runs().end() && run->begin < block.end; ++run) {
      append_run(runs, next, run->begin, Status());
      next = std::min(run->end, block.end);
      append_run(runs, std::max(run->begin, block.begin), next, run->value);
    }
    append_run(runs, next, block.end, Status());
  }
  return StatusOverlay::of(std::move(runs));
}

}  // namespace

std::vector<StatusPlace> places_of(const ProcMeshRef& mesh) {
  std::vector<StatusPlace> list;
  if (is_whole(mesh)) {
    for (std::uint64_t host = 0; host < mesh.hosts().size(); ++host) {
      const auto block = mesh.block_of(host);
      if (!block || block->begin >= std::min(block->end, mesh.num_ranks())) continue;
      list.push_back(StatusPlace{mesh.hosts()[host],
                                 {{block->begin, std::min(block->end, mesh.num_ranks())}}});
    }
    return list;
  }
  std::map<std::uint64_t, std::vector<std::uint64_t>> places;
  for (std::uint64_t ordinal = 0; ordinal < mesh.num_ranks(); ++ordinal) {
    const auto rank = mesh.create_rank(ordinal);
    const auto host = rank ? mesh.host_index_of(*rank) : rank;
    if (host) places[*host].push_back(*rank);
  }
  for (auto& [host, ranks] : places) {
    std::sort(ranks.begin(), ranks.end());
    list.push_back(StatusPlace{mesh.hosts()[host], to_rank_set(ranks)});
  }
  return list;
}

void take_answer(StatusWait& wait, const ProcMeshRef& mesh, StatusPlace& place,
                 const Result<ControlMessage>& answer, Status::Kind minimum) {
  const auto* const body = answer ? answer->body_as<wire::RankStatuses>() : nullptr;
  StatusOverlay statuses;
  place.problem.reset();
  if (body == nullptr) {
    place.problem = answer
                        ? Error(ErrorCode::malformed_message, "it answered " + answer->body_name())
                        : answer.error();
  } else if (auto read = from_wire(*body->statuses(), kBodyLimit)) {
    statuses = std::move(*read);
  } else {
    place.problem = read.error();
  }
  const auto now = std::chrono::steady_clock::now();
  statuses = cut(statuses, place.ranks);
  const auto has_settled = [minimum](const StatusOverlay::Run& run) {
    return run.value.has_reached(minimum) || run.value.is_terminated();
  };
  place.is_settled =
      !place.problem && std::all_of(statuses.runs().begin(), statuses.runs().end(), has_settled);
  if (is_whole(mesh)) {
    (void)wait.merge(statuses, now);
    return;
  }
  for (const auto& run : statuses.runs()) {
    for (auto rank = run.begin; rank < run.end; ++rank) {
      if (const auto ordinal = mesh.ordinal_of(rank)) (void)wait.set(*ordinal, run.value, now);
    }
  }
}

}  // namespace meshbus
