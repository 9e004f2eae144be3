#include "client/src/base/wire_reports.h"

#include <algorithm>
#include <map>

#include "common/wire/control.h"
#include "common/wire/wire_region.h"
#include "meshbus/point.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

std::optional<std::chrono::system_clock::time_point> time_of(std::int64_t nanoseconds) {
  if (nanoseconds <= 0) return std::nullopt;
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::nanoseconds(nanoseconds)));
}

/// What the kernel says of a process that does not answer.
std::string_view words_of_process(std::uint8_t letter) {
  switch (letter) {
    case 'T': return "stopped by a signal, ";
    case 't': return "stopped by a debugger, ";
    case 'D': return "waiting for a device, ";
    case 'R': return "running, or waiting for a CPU, ";
    default: return "";
  }
}

std::string in_seconds(std::uint64_t ms) {
  return std::to_string(ms / 1000) + "." + std::to_string(ms % 1000 / 100) + " s";
}

std::string words_of(const wire::StuckHandlerT* stuck) {
  if (stuck == nullptr) return "one of its handlers does not return";
  return "its handler " + stuck->handler + " has run for " + in_seconds(stuck->busy_ms) + ", and " +
         std::to_string(stuck->waiting) +
         (stuck->waiting == 1 ? " message waits behind it" : " messages wait behind it");
}

}  // namespace

std::shared_ptr<const wire::StuckHandlerT> find_stuck(
    const flatbuffers::Vector<flatbuffers::Offset<wire::StuckHandler>>* stuck, std::uint64_t rank) {
  for (flatbuffers::uoffset_t i = 0; stuck != nullptr && i < stuck->size(); ++i) {
    if (stuck->Get(i)->rank() == rank)
      return std::shared_ptr<const wire::StuckHandlerT>(stuck->Get(i)->UnPack());
  }
  return nullptr;
}

std::vector<wire::RankInterval> to_wire(const RankSet& ranks) {
  std::vector<wire::RankInterval> out;
  out.reserve(ranks.size());
  for (const auto& block : ranks) out.emplace_back(block.begin, block.end);
  return out;
}

void copy_state(const wire::RankState& from, RankReport& to) {
  to.generation = from.generation();
  to.incarnation = from.incarnation();
  to.restarts = from.restarts();
  to.started = time_of(from.started_ns());
  to.ended = time_of(from.ended_ns());
  to.pid = from.pid();
  to.exit_code = from.exit_code();
  to.state = from.state() > wire::ProcState::MAX ? ProcState::unknown
                                                 : static_cast<ProcState>(from.state());
  to.signal = from.signal();
  to.core_dumped = from.core_dumped();
  to.step = from.step() > wire::StopStep::MAX ? StopStep::none : static_cast<StopStep>(from.step());
  if (to.state == ProcState::ready) return;
  to.trouble = Trouble::none;
  to.trouble_reason.clear();
  to.trouble_since.reset();
}

void copy_trouble(const wire::RankTrouble& from, RankReport& to, const wire::StuckHandlerT* stuck) {
  if (from.trouble() > wire::Trouble::MAX || from.incarnation() != to.incarnation ||
      to.state != ProcState::ready)
    return;
  to.trouble = static_cast<Trouble>(from.trouble());
  to.trouble_since = to.trouble == Trouble::none ? std::nullopt : time_of(from.since_ns());
  to.trouble_reason.clear();
  if (to.trouble == Trouble::none) return;
  if (to.trouble == Trouble::stuck) {
    to.trouble_reason = words_of(stuck);
    return;
  }
  to.trouble_reason =
      to.trouble == Trouble::slow
          ? "it answers, but its last sign of life took " + in_seconds(from.silent_ms())
          : std::string(words_of_process(from.process())) + "nothing from it for " +
                in_seconds(from.silent_ms());
}

ProcUsage to_report(const wire::RankUsage& usage) {
  return {.sampled = time_of(usage.sampled_ns()).value_or(std::chrono::system_clock::time_point()),
          .user_time = std::chrono::microseconds(usage.user_us()),
          .system_time = std::chrono::microseconds(usage.system_us()),
          .rss_bytes = usage.rss_bytes(),
          .peak_rss_bytes = usage.peak_rss_bytes(),
          .threads = usage.threads(),
          .descriptors = usage.descriptors(),
          .load = usage.load() / 1000.0,
          .progress = time_of(std::int64_t{usage.progress_s()} * 1'000'000'000)};
}

void copy_exit_report(const wire::ExitReport& from, RankReport& to) {
  to.reason = text_of(from.reason());
  to.code = from_wire(from.code());
  to.os_error = from.os_error();
  if (const auto* tail = from.stderr_tail()) to.stderr_tail.assign(tail->begin(), tail->end());
  to.stopped_by = text_of(from.stopped_by());
  to.stop_reason = text_of(from.stop_reason());
  to.max_rss_bytes = from.max_rss_bytes();
  to.user_time = std::chrono::microseconds(from.user_us());
  to.system_time = std::chrono::microseconds(from.system_us());
  to.cause = from.cause() > wire::Cause::MAX ? Cause::unknown : static_cast<Cause>(from.cause());
  to.consequence = from.consequence();
  to.because = from.because();
  if (from.usage() != nullptr) to.usage = to_report(*from.usage());
}

LaunchTimes to_report(const wire::LaunchTimes& times) {
  return {.asked = time_of(times.asked_ns()),
          .spawned = time_of(times.spawned_ns()),
          .exec = time_of(times.exec_ns()),
          .connected = time_of(times.connected_ns()),
          .hello = time_of(times.hello_ns()),
          .ready = time_of(times.ready_ns())};
}

namespace {

HostUpgradeReport to_report(const wire::HostUpgrade& upgrade) {
  using Outcome = HostUpgradeReport::Outcome;
  HostUpgradeReport report;
  report.number = upgrade.number();
  switch (upgrade.outcome()) {
    case wire::UpgradeOutcome::running: report.outcome = Outcome::running; break;
    case wire::UpgradeOutcome::done: report.outcome = Outcome::done; break;
    case wire::UpgradeOutcome::rolled_back: report.outcome = Outcome::rolled_back; break;
    case wire::UpgradeOutcome::failed: report.outcome = Outcome::failed; break;
    default: break;
  }
  report.programs = text_of(upgrade.programs());
  report.requester = text_of(upgrade.by());
  report.detail = text_of(upgrade.detail());
  return report;
}

}  // namespace

HostReport to_report(const HostAddr& host, const wire::HostState& state) {
  HostReport report;
  report.host = host;
  report.version = text_of(state.version());
  report.incarnation = state.incarnation();
  report.pid = state.pid();
  report.containment = text_of(state.containment());
  report.live = state.live();
  report.node = text_of(state.node());
  report.refused = state.refused();
  report.broker_restarts = state.broker_restarts();
  report.broker_restarted = std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::nanoseconds(state.broker_restarted_ns())));
  for (flatbuffers::uoffset_t i = 0; state.drains() != nullptr && i < state.drains()->size(); ++i) {
    const auto* drain = state.drains()->Get(i);
    report.drains.push_back({text_of(drain->owner()), text_of(drain->mesh()),
                             text_of(drain->reason()), text_of(drain->requester()), drain->hold(),
                             drain->left()});
  }
  // Without a lease it is the hosts' launcher by name, and nothing follows from it.
  const auto* const owner = state.owner();
  if (owner != nullptr && !owner->gone() && owner->lease_ms() != 0)
    report.owner = owner->owner()->str();
  for (flatbuffers::uoffset_t i = 0; state.roles() != nullptr && i < state.roles()->size(); ++i) {
    const auto* const role = state.roles()->Get(i);
    report.roles.push_back(
        {role->role()->str(), role->pid(), text_of(role->release()), text_of(role->program())});
  }
  if (state.upgrade() != nullptr) report.upgrade = to_report(*state.upgrade());
  return report;
}

HostEvent to_report(const HostAddr& host, const wire::Event& from) {
  HostEvent event;
  event.kind =
      from.kind() > wire::EventKind::MAX ? EventKind::unknown : static_cast<EventKind>(from.kind());
  event.host = host;
  event.time = std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::nanoseconds(from.time_ns())));
  event.mesh = text_of(from.mesh());
  for (flatbuffers::uoffset_t i = 0; from.ranks() != nullptr && i < from.ranks()->size(); ++i)
    event.ranks.push_back({from.ranks()->Get(i)->begin(), from.ranks()->Get(i)->end()});
  event.by = text_of(from.by());
  event.text = text_of(from.text());
  event.because = from.because();
  if (from.state() == nullptr || from.exit_report() == nullptr) return event;
  RankReport end;
  end.rank = from.state()->rank();
  end.host = host;
  end.point = text_of(from.point());
  copy_state(*from.state(), end);
  copy_exit_report(*from.exit_report(), end);
  event.end = std::move(end);
  return event;
}

Result<MeshReport> to_report(const wire::MeshState& state) {
  auto region = from_wire(state.region());
  if (!region)
    return fail(ErrorCode::malformed_message,
                "mesh " + state.mesh()->str() + ": " + region.error().detail());
  MeshReport report;
  report.name = state.mesh()->str();
  report.region = std::move(*region);
  report.revision = state.revision();
  for (const auto* text : *state.hosts()) {
    auto host = HostAddr::parse(text->string_view());
    if (!host)
      return fail(ErrorCode::malformed_message,
                  "mesh " + report.name + ": " + host.error().detail());
    report.hosts.push_back(std::move(*host));
  }
  report.owner = text_of(state.owner());
  report.kind = state.kind() == wire::ProcKind::mesh ? ProcKind::mesh : ProcKind::plain;
  report.command = text_of(state.command());
  merge_into(report, state);
  return report;
}

Result<ProcMeshRef> MeshReport::ref() const {
  auto parsed = Name::parse(name);
  if (!parsed) return fail(parsed.error());
  return ProcMeshRef::make(std::move(*parsed), hosts, region.num_ranks(), region);
}

namespace {

/// Takes the layout of a host that knows of a later resize than the others.
void take_layout(MeshReport& report, const wire::MeshState& state) {
  auto region = from_wire(state.region());
  std::vector<HostAddr> hosts;
  for (const auto* text : *state.hosts()) {
    if (auto host = HostAddr::parse(text->string_view())) hosts.push_back(std::move(*host));
  }
  if (!region || hosts.size() != state.hosts()->size()) return;
  report.region = std::move(*region);
  report.hosts = std::move(hosts);
  report.revision = state.revision();
  const auto extent = report.region.extent();
  const auto mesh = report.ref();
  // Ranks of a lost host that live on another one now, which tells of them.
  const auto has_moved = [&](const RankReport& rank) {
    const auto index = mesh ? mesh->host_index_of(rank.rank) : fail(mesh.error());
    return index && report.hosts[*index] != rank.host;
  };
  std::erase_if(report.ranks, [&](const RankReport& rank) {
    return !report.region.ordinal_of(rank.rank).has_value() || has_moved(rank);
  });
  for (auto& rank : report.ranks) {
    if (const auto point = extent.point_of(*report.region.ordinal_of(rank.rank)))
      rank.point = point->to_string();
  }
}

}  // namespace

void merge_into(MeshReport& report, const wire::MeshState& state) {
  if (state.revision() > report.revision) take_layout(report, state);
  if (state.ranks() == nullptr) return;
  const auto extent = report.region.extent();
  std::map<std::uint64_t, const wire::ExitReport*> exit_reports;
  if (state.exit_reports() != nullptr) {
    for (const auto* exit_report : *state.exit_reports())
      exit_reports[exit_report->rank()] = exit_report;
  }
  std::map<std::uint64_t, const wire::LaunchTimes*> launches;
  if (state.launch() != nullptr) {
    for (const auto* times : *state.launch()) launches[times->rank()] = times;
  }
  std::map<std::uint64_t, const wire::RankUsage*> usages;
  if (state.usage() != nullptr) {
    for (const auto* usage : *state.usage()) usages[usage->rank()] = usage;
  }
  std::map<std::uint64_t, const wire::RankTrouble*> troubles;
  if (state.troubles() != nullptr) {
    for (const auto* trouble : *state.troubles()) troubles[trouble->rank()] = trouble;
  }
  const auto mesh = report.ref();
  const auto* const hosts = state.hosts();
  const auto own = hosts != nullptr && state.host_index() < hosts->size()
                       ? HostAddr::parse(hosts->Get(state.host_index())->string_view())
                       : fail(ErrorCode::not_exist, "");
  for (const auto* rank : *state.ranks()) {
    RankReport one;
    one.rank = rank->rank();
    // The same host may stand in a mesh several times.
    one.host_index =
        mesh ? mesh->host_index_of(one.rank).value_or(state.host_index()) : state.host_index();
    if (one.host_index < report.hosts.size()) one.host = report.hosts[one.host_index];
    if (const auto ordinal = report.region.ordinal_of(one.rank)) {
      if (auto point = extent.point_of(*ordinal)) one.point = point->to_string();
    }
    // A host that was away while the mesh was resized, or its ranks moved to another one.
    const bool is_late = state.revision() < report.revision;
    if (is_late && (one.point.empty() || (own && one.host != *own))) continue;
    copy_state(*rank, one);
    if (const auto found = exit_reports.find(one.rank); found != exit_reports.end())
      copy_exit_report(*found->second, one);
    if (const auto found = launches.find(one.rank); found != launches.end())
      one.launch = to_report(*found->second);
    if (const auto found = usages.find(one.rank); found != usages.end())
      one.usage = to_report(*found->second);
    if (const auto found = troubles.find(one.rank); found != troubles.end())
      copy_trouble(*found->second, one, find_stuck(state.stuck(), one.rank).get());
    report.ranks.push_back(std::move(one));
  }
  // Hosts tell theirs in order, and most often after those of others: then nothing has to move.
  const auto by_rank = [](const RankReport& a, const RankReport& b) { return a.rank < b.rank; };
  if (!std::is_sorted(report.ranks.begin(), report.ranks.end(), by_rank))
    std::stable_sort(report.ranks.begin(), report.ranks.end(), by_rank);
}

}  // namespace meshbus
