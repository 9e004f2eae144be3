#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/chaos/chaos_book.h"
#include "meshbus/site.h"

namespace meshbus::cli {

/// Reads out of the views of a site what supervision says: ends, troubles, restarts, roles, hosts
/// and links. Pure.
class ChaosNotices {
 public:
  using Time = ChaosNotice::Time;

  /// The first view says how everything is at the start, and gives no notices; each later one is
  /// what has changed since.
  std::vector<ChaosNotice> take(const SiteView& view, Time now);

 private:
  struct RankSeen {
    Trouble trouble = Trouble::none;
    std::uint64_t incarnation = 0;
    ProcState state = ProcState::unknown;
  };

  void take_rank(const std::string& mesh, const RankReport& rank, Time now);
  void take_host(const SiteHost& host, Time now);
  void take_event(const HostEvent& event, Time now);

  bool is_first_ = true;
  std::map<std::pair<std::string, std::uint64_t>, RankSeen> ranks_;
  std::map<HostAddr, SiteHostState> hosts_;
  std::map<std::pair<HostAddr, std::string>, bool> links_;
  std::vector<ChaosNotice> found_;
};

}  // namespace meshbus::cli
