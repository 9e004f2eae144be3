#include "client/src/site/site_table.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "common/address/mesh_layout.h"

namespace meshbus {
namespace {

/// Changes of a machine's load and memory below this share are not worth a message each second.
constexpr double kSmallChange = 0.02;

bool is_near(double a, double b) {
  return std::abs(a - b) <= kSmallChange * std::max({std::abs(a), std::abs(b), 1.0});
}

bool is_same(const std::vector<DrainReport>& a, const std::vector<DrainReport>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.owner == y.owner && x.mesh == y.mesh && x.reason == y.reason &&
           x.requester == y.requester && x.hold == y.hold && x.left == y.left;
  });
}

bool is_same(const SiteHost& a, const SiteHost& b) {
  const auto& x = a.report;
  const auto& y = b.report;
  return x.version == y.version && x.incarnation == y.incarnation && x.pid == y.pid &&
         x.containment == y.containment && x.live == y.live && x.node == y.node &&
         x.refused == y.refused && is_same(x.drains, y.drains) && a.started == b.started &&
         a.cgroup == b.cgroup && a.cpus == b.cpus && a.memory == b.memory &&
         is_near(a.load, b.load) &&
         is_near(static_cast<double>(a.memory_available), static_cast<double>(b.memory_available));
}

bool is_same(const SiteQueue& a, const SiteQueue& b) {
  return a.peer == b.peer && a.bytes == b.bytes && a.messages == b.messages && a.waits == b.waits;
}

bool is_same(const SiteLink& a, const SiteLink& b) {
  return a.host == b.host && a.is_up == b.is_up && a.messages == b.messages && a.bytes == b.bytes;
}

template <typename One>
bool are_same(const std::vector<One>& a, const std::vector<One>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const One& x, const One& y) { return is_same(x, y); });
}

/// But for what our own questions move.
bool is_same(const SiteBroker& a, const SiteBroker& b) {
  return a.incarnation == b.incarnation && a.delivered == b.delivered && a.returned == b.returned &&
         a.dropped == b.dropped && a.held == b.held && a.peers == b.peers &&
         a.refused == b.refused && are_same(a.queues, b.queues) && are_same(a.links, b.links);
}

bool is_same(const std::optional<ProcUsage>& a, const std::optional<ProcUsage>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->user_time == b->user_time && a->system_time == b->system_time &&
         a->rss_bytes == b->rss_bytes && a->peak_rss_bytes == b->peak_rss_bytes &&
         a->threads == b->threads && a->descriptors == b->descriptors &&
         (a->load < 0.0005) == (b->load < 0.0005);
}

bool is_same(const SiteRank& a, const SiteRank& b) {
  const auto& x = a.report;
  const auto& y = b.report;
  return x.generation == y.generation && x.incarnation == y.incarnation && x.state == y.state &&
         x.pid == y.pid && x.trouble == y.trouble && x.trouble_reason == y.trouble_reason &&
         x.reason == y.reason && x.is_restarting == y.is_restarting && is_same(x.usage, y.usage) &&
         a.last_line == b.last_line && a.queued_messages == b.queued_messages &&
         a.queued_bytes == b.queued_bytes && a.queue_waits == b.queue_waits;
}

bool is_same_head(const SiteMesh& a, const MeshReport& b) {
  return a.owner == b.owner && a.hosts == b.hosts && a.region == b.region && a.kind == b.kind &&
         a.command == b.command;
}

/// The mesh and the rank of a proc; nothing for other peers.
std::optional<std::pair<std::string, std::uint64_t>> rank_of(std::string_view peer) {
  const auto comma = peer.rfind(',');
  if (comma == std::string_view::npos) return std::nullopt;
  const auto name = peer.substr(comma + 1);
  const auto dash = name.rfind('-');
  const auto line = name.substr(0, dash).rfind('_');
  if (dash == std::string_view::npos || line == std::string_view::npos) return std::nullopt;
  std::uint64_t rank = 0;
  const auto* const end = name.data() + dash;
  if (std::from_chars(name.data() + line + 1, end, rank).ptr != end) return std::nullopt;
  return std::pair(std::string(name.substr(0, line)) + std::string(name.substr(dash)), rank);
}

}  // namespace

SiteTable::SiteTable(const std::vector<HostAddr>& hosts, const SiteOptions& options, Time now)
    : options_(options) {
  // No two lives of a reader share numbers: what one has heard of another is told anew.
  sequence_ = std::max<std::uint64_t>(
      1,
      static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count()));
  known_since_ = sequence_;
  for (const auto& host : hosts) {
    if (!index_.emplace(host, hosts_.size()).second) continue;
    auto& made = hosts_.emplace_back().shown;
    made.host = host;
    made.report.host = host;
    made.since = now;
    made.changed = sequence_;
  }
}

SiteTable::Host* SiteTable::find(const HostAddr& host) {
  const auto found = index_.find(host);
  return found == index_.end() ? nullptr : &hosts_[found->second];
}

void SiteTable::on_up(const HostAddr& host, Time now) {
  auto* const found = find(host);
  if (found == nullptr || found->shown.state == SiteHostState::up) return;
  found->shown.state = SiteHostState::up;
  found->shown.since = now;
  found->shown.code = ErrorCode::none;
  found->shown.problem.clear();
  touch(*found);
}

void SiteTable::on_lost(const HostAddr& host, const Error& error, Time now) {
  auto* const found = find(host);
  if (found == nullptr) return;
  auto& shown = found->shown;
  if (shown.state == SiteHostState::lost && shown.code == error.code() &&
      shown.problem == error.detail())
    return;
  if (shown.state != SiteHostState::lost) shown.since = now;
  shown.state = SiteHostState::lost;
  shown.code = error.code();
  shown.problem = error.detail();
  shown.messages_per_second = 0;
  touch(*found);
  set_controller(host, std::nullopt, now);
}

void SiteTable::set_facts(const HostAddr& host, const SiteHost& told) {
  auto* const found = find(host);
  if (found == nullptr || is_same(found->shown, told)) return;
  auto& shown = found->shown;
  shown.report = told.report;
  shown.report.host = host;
  shown.started = told.started;
  shown.cgroup = told.cgroup;
  shown.cpus = told.cpus;
  shown.load = told.load;
  shown.memory = told.memory;
  shown.memory_available = told.memory_available;
  touch(*found);
}

void SiteTable::set_broker(const HostAddr& host, std::optional<SiteBroker> broker, Time now) {
  auto* const found = find(host);
  if (found == nullptr) return;
  auto& shown = found->shown;
  double rate = 0;
  const auto seconds = std::chrono::duration<double>(now - found->counted_at).count();
  if (broker && shown.broker && shown.broker->incarnation == broker->incarnation &&
      broker->received >= shown.broker->received && seconds > 0)
    rate = static_cast<double>(broker->received - shown.broker->received) / seconds;
  found->counted_at = now;
  const auto before = std::exchange(found->queues, {});
  if (broker) {
    for (const auto& queue : broker->queues) {
      set_queue(queue.peer, queue);
      found->queues.emplace(queue.peer, queue);
    }
  }
  for (const auto& [peer, queue] : before) {
    if (!found->queues.contains(peer)) set_queue(peer, SiteQueue());
  }
  const bool is_quiet = broker && shown.broker ? is_same(*broker, *shown.broker)
                                               : broker.has_value() == shown.broker.has_value();
  const bool is_rate_same = is_near(rate, shown.messages_per_second);
  shown.broker = std::move(broker);
  if (is_quiet && is_rate_same) return;
  shown.messages_per_second = rate;
  touch(*found);
}

void SiteTable::set_queue(const std::string& peer, const SiteQueue& queue) {
  const auto place = rank_of(peer);
  if (!place) return;
  const auto mesh = meshes_.find(place->first);
  if (mesh == meshes_.end()) return;
  const auto rank = mesh->second.ranks.find(place->second);
  if (rank == mesh->second.ranks.end()) return;
  auto made = std::make_shared<SiteRank>(*rank->second);
  made->queued_messages = queue.messages;
  made->queued_bytes = queue.bytes;
  made->queue_waits = queue.waits;
  if (!is_same(*made, *rank->second)) put(mesh->second, place->second, std::move(made));
}

void SiteTable::set_controller(const HostAddr& host, const std::optional<SiteController>& told,
                               Time now) {
  auto* const found = find(host);
  if (found == nullptr) return;
  auto& known = found->controller;
  if (!told) {
    if (!known || known->state == SiteHostState::lost) return;
    known->state = SiteHostState::lost;
    known->since = now;
    known->changed = ++sequence_;
    return note(EventKind::controller_lost, *known, "it does not answer any more", now);
  }
  const bool is_back = known && known->controller == told->controller;
  if (is_back && known->state == told->state && known->subscribers == told->subscribers &&
      known->late_polls == told->late_polls && known->unreachable == told->unreachable)
    return;
  const SiteController before = is_back ? *known : SiteController();
  const bool is_new = before.state != SiteHostState::up;
  known = *told;
  known->host = host;
  known->since = is_new ? now : before.since;
  known->changed = ++sequence_;
  if (is_new) note(EventKind::controller_up, *known, "it answers", now);
  if (!is_new && known->late_polls > before.late_polls)
    note(EventKind::controller_late, *known,
         std::to_string(known->late_polls - before.late_polls) + " polls were late", now);
  const auto has = [](const auto& list, const std::string& one) {
    return std::find(list.begin(), list.end(), one) != list.end();
  };
  for (const auto& one : known->unreachable) {
    if (!has(before.unreachable, one)) note(EventKind::host_unreachable, *known, one, now);
  }
  for (const auto& one : before.unreachable) {
    if (!has(known->unreachable, one)) note(EventKind::host_back, *known, one, now);
  }
}

bool SiteTable::has_controller(const HostAddr& host) const {
  const auto at = index_.find(host);
  if (at == index_.end()) return false;
  const auto& known = hosts_[at->second].controller;
  return known && known->state == SiteHostState::up;
}

void SiteTable::note(EventKind kind, const SiteController& controller, std::string text, Time now) {
  HostEvent event;
  event.kind = kind;
  event.host = controller.host;
  event.time = now;
  event.by = controller.controller;
  event.text = std::move(text);
  add_events({std::move(event)});
}

void SiteTable::put(Mesh& mesh, std::uint64_t rank, std::shared_ptr<SiteRank> made) {
  made->changed = mesh.head.changed = ++sequence_;
  mesh.ranks.insert_or_assign(rank, std::move(made));
}

void SiteTable::set_rank(Mesh& mesh, const Host& host, RankReport report, std::string line) {
  const auto rank = report.rank;
  const auto known = mesh.ranks.find(rank);
  auto made = std::make_shared<SiteRank>();
  if (known == mesh.ranks.end()) {
    if (num_ranks_ >= options_.ranks) {
      mesh.left_out.insert(rank);
      return;
    }
    ++num_ranks_;
    mesh.left_out.erase(rank);
  } else {
    *made = *known->second;
    // A host tells of an end once more without its exit report when that is forgotten.
    if (report.generation == made->report.generation && report.reason.empty() &&
        report.incarnation == made->report.incarnation && report.is_terminal()) {
      const auto usage = report.usage ? report.usage : made->report.usage;
      report = made->report;
      report.usage = usage;
    }
  }
  report.host = host.shown.host;
  made->report = std::move(report);
  made->last_line = std::move(line);
  if (made->last_line.size() > kMostLine) made->last_line.resize(kMostLine);
  if (known != mesh.ranks.end() && is_same(*made, *known->second)) return;
  put(mesh, rank, std::move(made));
}

void SiteTable::set_part(const HostAddr& host, SitePart part) {
  const auto* const from = find(host);
  if (from == nullptr) return;
  auto& told = part.mesh;
  auto [at, is_new] = meshes_.try_emplace(told.name);
  auto& mesh = at->second;
  mesh.told_by.insert(host);
  const bool is_late = !is_new && told.revision < mesh.revision;
  if (!is_late && (is_new || !is_same_head(mesh.head, told))) {
    mesh.revision = told.revision;
    if (told.revision != 0) drop_ranks(mesh, told.region.num_ranks());
    mesh.head.name = told.name;
    mesh.head.region = told.region;
    mesh.head.hosts = told.hosts;
    mesh.head.owner = told.owner;
    mesh.head.kind = told.kind;
    mesh.head.command = told.command;
    mesh.head.changed = ++sequence_;
  }
  const MeshLayout layout = is_late ? MeshLayout{.region = mesh.head.region,
                                                 .hosts = mesh.head.hosts,
                                                 .revision = mesh.revision}
                                    : MeshLayout();
  for (auto& rank : told.ranks) {
    // The rank was taken out of the mesh, or has moved to another host.
    const bool is_gone = is_late && rank.rank >= layout.region.num_ranks();
    if (is_gone || (!layout.hosts.empty() && host_of(layout, rank.rank) != host)) continue;
    const auto line = part.lines.find(rank.rank);
    set_rank(mesh, *from, std::move(rank),
             line == part.lines.end() ? std::string() : std::move(line->second));
  }
}

void SiteTable::drop_ranks(Mesh& mesh, std::uint64_t from) {
  const auto before = mesh.ranks.size();
  std::erase_if(mesh.ranks, [from](const auto& entry) { return entry.first >= from; });
  num_ranks_ -= before - mesh.ranks.size();
  mesh.left_out.erase(mesh.left_out.lower_bound(from), mesh.left_out.end());
}

void SiteTable::drop_part(Mesh& mesh, const HostAddr& host) {
  mesh.told_by.erase(host);
  for (const auto& [number, rank] : Ranks(mesh.ranks)) {
    if (rank->report.host != host || rank->report.is_terminal() ||
        rank->report.state == ProcState::unknown)
      continue;
    auto made = std::make_shared<SiteRank>(*rank);
    made->report.state = ProcState::unknown;
    made->report.reason = "its host does not know it any more";
    made->report.usage.reset();
    put(mesh, number, std::move(made));
  }
}

void SiteTable::note_gone(const std::string& mesh) {
  gone_.emplace_back(++sequence_, mesh);
  if (gone_.size() <= kMostGone) return;
  known_since_ = gone_.front().first;
  gone_.pop_front();
}

void SiteTable::forget(const HostAddr& host, const std::string& name) {
  const auto at = meshes_.find(name);
  if (at == meshes_.end() || !at->second.told_by.contains(host)) return;
  if (at->second.told_by.size() > 1) return drop_part(at->second, host);
  num_ranks_ -= at->second.ranks.size();
  note_gone(name);
  meshes_.erase(at);
}

void SiteTable::keep_only(const HostAddr& host, const std::set<std::string, std::less<>>& names) {
  std::vector<std::string> over;
  for (const auto& [name, mesh] : meshes_) {
    if (mesh.told_by.contains(host) && !names.contains(name)) over.push_back(name);
  }
  for (const auto& name : over) forget(host, name);
}

void SiteTable::add_events(std::vector<HostEvent> events) {
  for (auto& event : events) events_.push_back({++sequence_, std::move(event)});
  while (events_.size() > options_.events) events_.pop_front();
}

bool SiteTable::is_settled() const noexcept {
  return std::none_of(hosts_.begin(), hosts_.end(), [](const Host& host) {
    return host.shown.state == SiteHostState::connecting;
  });
}

SiteView SiteTable::view(std::uint64_t since, Time now) const {
  SiteView view;
  view.sequence = sequence_;
  view.since = since < known_since_ || since > sequence_ ? 0 : since;
  view.time = now;
  for (const auto& host : hosts_) {
    if (host.shown.changed > view.since) view.hosts.push_back(host.shown);
    if (host.controller && host.controller->changed > view.since)
      view.controllers.push_back(*host.controller);
  }
  for (const auto& [name, mesh] : meshes_) {
    view.cut += mesh.left_out.size();
    if (mesh.head.changed <= view.since) continue;
    auto& made = view.meshes.emplace_back(mesh.head);
    for (const auto& [number, rank] : mesh.ranks) {
      if (rank->changed > view.since) made.ranks.push_back(rank);
    }
  }
  for (const auto& [sequence, name] : gone_) {
    if (view.since != 0 && sequence > view.since && !meshes_.contains(name))
      view.gone.push_back(name);
  }
  for (const auto& event : events_) {
    if (event.sequence > view.since) view.events.push_back(event);
  }
  return view;
}

}  // namespace meshbus
