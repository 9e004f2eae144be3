#include "cli/mesh/stop_report.h"

#include <algorithm>

namespace meshbus::cli {

std::string StopReport::text() const {
  std::string text = std::to_string(ended) + (ended == 1 ? " rank ended" : " ranks ended");
  if (ended_before > 0) text += "; " + std::to_string(ended_before) + " had ended before";
  return text;
}

StopReport report_stop(const MeshReport& before, const std::vector<RankReport>& after) {
  StopReport report;
  std::vector<std::uint64_t> unkillable;
  for (const auto& rank : after) {
    if (!rank.is_terminal()) continue;
    const bool had_ended = std::any_of(
        before.ranks.begin(), before.ranks.end(),
        [&](const RankReport& one) { return one.rank == rank.rank && one.is_terminal(); });
    if (rank.cause == Cause::unkillable) {
      unkillable.push_back(rank.rank);
    } else if (had_ended) {
      ++report.ended_before;
    } else {
      ++report.ended;
    }
  }
  std::sort(unkillable.begin(), unkillable.end());
  report.unkillable = to_rank_set(unkillable);
  return report;
}

std::string named(const RankSet& ranks) {
  const bool is_one = ranks.size() == 1 && ranks.front().size() == 1;
  return (is_one ? "rank " : "ranks ") + to_string(ranks);
}

}  // namespace meshbus::cli
