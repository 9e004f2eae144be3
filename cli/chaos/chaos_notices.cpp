#include "cli/chaos/chaos_notices.h"

#include <string_view>

namespace meshbus::cli {
namespace {

/// "the broker (pid 12) was killed": which role the warden speaks of.
std::string role_of(std::string_view text) {
  for (const std::string_view role : {"agent", "broker", "keeper"}) {
    if (text.starts_with("the " + std::string(role))) return std::string(role);
  }
  return {};
}

}  // namespace

std::vector<ChaosNotice> ChaosNotices::take(const SiteView& view, Time now) {
  for (const auto& host : view.hosts) take_host(host, now);
  for (const auto& mesh : view.meshes) {
    for (const auto& rank : mesh.ranks) take_rank(mesh.name, rank->report, now);
  }
  for (const auto& event : view.events) take_event(event.event, now);
  auto found = std::exchange(found_, {});
  if (std::exchange(is_first_, false)) found.clear();
  return found;
}

void ChaosNotices::take_rank(const std::string& mesh, const RankReport& rank, Time now) {
  RankSeen& seen = ranks_[{mesh, rank.rank}];
  ChaosNotice notice{.host = rank.host, .mesh = mesh, .rank = rank.rank, .what = {}, .seen = now};
  if (rank.trouble != seen.trouble) {
    notice.what = rank.trouble == Trouble::none
                      ? "answers in time again"
                      : std::string(to_string(rank.trouble)) + ": " + rank.trouble_reason;
    if (rank.trouble != Trouble::none) notice.time = rank.trouble_since;
    // An end says more than that its trouble is over.
    if (!rank.is_terminal()) found_.push_back(notice);
  }
  const bool is_again = seen.incarnation != 0 && rank.incarnation != seen.incarnation;
  if (rank.state == ProcState::ready && (is_again || seen.state != ProcState::ready)) {
    notice.what = "ready again (restart " + std::to_string(rank.restarts) + ")";
    notice.time = rank.launch.ready;
    if (seen.incarnation != 0) found_.push_back(notice);
  }
  seen = {rank.trouble, rank.incarnation, rank.state};
}

void ChaosNotices::take_host(const SiteHost& host, Time now) {
  const auto known = hosts_.find(host.host);
  if (known != hosts_.end() && known->second != host.state) {
    ChaosNotice notice{.host = host.host, .what = {}, .seen = now};
    notice.what = host.state == SiteHostState::up ? "the host answers again"
                                                  : "the host does not answer: " + host.problem;
    found_.push_back(std::move(notice));
  }
  hosts_[host.host] = host.state;
  if (!host.broker) return;
  for (const auto& link : host.broker->links) {
    const auto peer = HostAddr::parse(link.host);
    if (!peer) continue;
    const auto before = links_.find({host.host, link.host});
    if (before != links_.end() && before->second != link.is_up)
      found_.push_back({.host = host.host,
                        .peer = *peer,
                        .what = link.is_up ? "the link is up again" : "the link is down",
                        .seen = now});
    links_[{host.host, link.host}] = link.is_up;
  }
}

void ChaosNotices::take_event(const HostEvent& event, Time now) {
  ChaosNotice notice{.host = event.host, .what = event.text, .seen = now, .time = event.time};
  switch (event.kind) {
    case EventKind::proc_ended:
      if (!event.end) return;
      notice.mesh = event.mesh;
      notice.rank = event.end->rank;
      notice.what = event.end->words();
      if (event.end->ended) notice.time = event.end->ended;
      break;
    case EventKind::role_ended: notice.role = role_of(event.text); break;
    case EventKind::agent_started:
      notice.role = "agent";
      if (notice.what.empty()) notice.what = "another agent has started";
      break;
    case EventKind::spawn_refused:
    case EventKind::owner_gone:
    case EventKind::owner_away:
    case EventKind::lease_lapsed:
    case EventKind::host_stopping:
    case EventKind::controller_lost:
    case EventKind::host_unreachable:
    case EventKind::host_back: break;
    // What was asked for, by us for instance.
    default: return;
  }
  found_.push_back(std::move(notice));
}

}  // namespace meshbus::cli
