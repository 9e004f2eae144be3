#include "client/controller/mesh_watch.h"

#include <algorithm>
#include <set>

#include "client/src/wire_reports.h"
#include "common/wire_region.h"
#include "meshbus/name.h"
#include "meshbus/point.h"

namespace meshbus {
namespace {

constexpr std::size_t kMessageBytes = 512 * 1024;

std::size_t size_of(const wire::CertificateT& certificate) {
  return 200 + certificate.reason.size() + certificate.stderr_tail.size() + certificate.stopped_by.size() + certificate.stop_reason.size();
}

}  // namespace

bool is_terminal(wire::ProcState state) {
  return state == wire::ProcState::stopped || state == wire::ProcState::killed || state == wire::ProcState::failed;
}

bool MeshWatch::is_wanted(std::string_view mesh) const {
  if (only_.empty() || mesh == only_) return true;
  const auto name = Name::parse(mesh);
  return name && name->base() == only_;
}

bool MeshWatch::is_told(const Rank& rank) {
  return rank.told_generation == rank.state.generation() && rank.told_incarnation == rank.state.incarnation();
}

WatchEvent MeshWatch::tell(const std::string& mesh, const HostAddr& host, Rank& rank) const {
  rank.told_generation = rank.state.generation();
  rank.told_incarnation = rank.state.incarnation();
  WatchEvent event;
  event.mesh = mesh;
  event.host = host;
  event.rank = rank.state;
  event.certificate = rank.certificate;
  event.point = rank.point;
  return event;
}

bool MeshWatch::take(Ranks& known, const wire::MeshState& state) {
  std::optional<Region> region;
  std::set<std::uint64_t> listed;
  if (state.ranks() != nullptr) {
    for (const auto* rank : *state.ranks()) {
      listed.insert(rank->rank());
      auto [found, is_new] = known.try_emplace(rank->rank());
      auto& mine = found->second;
      if (is_new) {
        if (!region) region = from_wire(state.region()).value_or(Region());
        const auto ordinal = region->ordinal_of(rank->rank());
        const auto point = ordinal ? region->extent().point_of(*ordinal) : Result<Point>(Point());
        if (point) mine.point = point->to_string();
      }
      // A late answer must not turn time back; another life of the rank counts anew.
      if (!is_new && rank->incarnation() == mine.state.incarnation() && rank->generation() <= mine.state.generation()) continue;
      if (!is_new && rank->incarnation() != mine.state.incarnation()) mine.certificate.reset();
      mine.state = *rank;
      mine.was_late = false;
    }
  }
  if (state.certificates() != nullptr) {
    for (const auto* certificate : *state.certificates()) {
      const auto found = known.find(certificate->rank());
      if (found == known.end() || !is_terminal(found->second.state.state())) continue;
      found->second.certificate = std::shared_ptr<const wire::CertificateT>(certificate->UnPack());
    }
  }
  // Records age: what the agent has dropped is not remembered here either.
  if (!listed.empty()) std::erase_if(known, [&](const auto& entry) { return !listed.contains(entry.first); });
  return std::any_of(known.begin(), known.end(),
                     [](const auto& entry) { return is_terminal(entry.second.state.state()) && !is_told(entry.second); });
}

MeshWatch::Answer MeshWatch::on_list(const HostAddr& host, const wire::MeshList& list) {
  Answer answer;
  auto& silent = is_silent_[host];
  if (std::exchange(silent, false)) {
    WatchEvent back;
    back.kind = WatchEvent::Kind::host_back;
    back.host = host;
    answer.events.push_back(std::move(back));
  }
  auto& meshes = hosts_[host];
  std::set<std::string> listed;
  if (list.meshes() != nullptr) {
    for (const auto* state : *list.meshes()) {
      const auto name = state->mesh()->str();
      if (!is_wanted(name)) continue;
      listed.insert(name);
      auto& known = meshes[name];
      const bool is_cut = state->ranks() == nullptr || state->ranks()->size() == 0;
      if (take(known, *state) || is_cut) answer.wanted.push_back(name);
      for (auto& [rank, mine] : known) {
        if (!is_told(mine) && !is_terminal(mine.state.state())) answer.events.push_back(tell(name, host, mine));
      }
    }
  }
  // What a page does not speak of may be on another one.
  const bool is_page = list.more() && list.meshes() != nullptr && list.meshes()->size() > 0;
  const auto after = list.after() == nullptr ? std::string() : list.after()->str();
  const auto last = is_page ? list.meshes()->Get(list.meshes()->size() - 1)->mesh()->str() : std::string();
  std::erase_if(meshes, [&](const auto& entry) {
    if (!after.empty() && entry.first <= after) return false;
    if (is_page && entry.first > last) return false;
    return !listed.contains(entry.first);
  });
  if (is_page && last > after) answer.next = last;
  return answer;
}

std::vector<WatchEvent> MeshWatch::on_state(const HostAddr& host, const wire::MeshState& state) {
  std::vector<WatchEvent> events;
  const auto name = state.mesh()->str();
  if (!is_wanted(name)) return events;
  auto& known = hosts_[host][name];
  take(known, state);
  for (auto& [rank, mine] : known) {
    if (is_told(mine)) continue;
    if (is_terminal(mine.state.state()) && mine.certificate == nullptr && !std::exchange(mine.was_late, true)) continue;
    events.push_back(tell(name, host, mine));
  }
  // The earlier end first: the cause before its consequences.
  std::stable_sort(events.begin(), events.end(),
                   [](const WatchEvent& a, const WatchEvent& b) { return a.rank.ended_ns() < b.rank.ended_ns(); });
  return events;
}

std::vector<WatchEvent> MeshWatch::on_silence(const HostAddr& host, const std::string& problem) {
  if (std::exchange(is_silent_[host], true)) return {};
  WatchEvent event;
  event.kind = WatchEvent::Kind::host_unreachable;
  event.host = host;
  event.problem = problem;
  return {event};
}

std::vector<WatchEvent> MeshWatch::known(const std::string& mesh) const {
  std::vector<WatchEvent> events;
  for (const auto& [host, meshes] : hosts_) {
    for (const auto& [name, ranks] : meshes) {
      if (!mesh.empty() && name != mesh) continue;
      for (const auto& [rank, mine] : ranks) {
        // What was not told yet will be, in its turn.
        if (!is_told(mine)) continue;
        WatchEvent event;
        event.mesh = name;
        event.host = host;
        event.rank = mine.state;
        event.certificate = mine.certificate;
        event.point = mine.point;
        events.push_back(std::move(event));
      }
    }
  }
  return events;
}

std::vector<wire::MeshEventT> to_messages(const std::vector<WatchEvent>& events, std::uint64_t poll) {
  std::vector<wire::MeshEventT> messages;
  std::size_t bytes = 0;
  for (const auto& event : events) {
    if (event.kind != WatchEvent::Kind::state) continue;
    const auto host = event.host.to_string();
    const auto size = sizeof(wire::RankState) + (event.certificate == nullptr ? 0 : size_of(*event.certificate));
    if (messages.empty() || messages.back().mesh != event.mesh || messages.back().host != host || bytes + size > kMessageBytes) {
      messages.emplace_back();
      messages.back().mesh = event.mesh;
      messages.back().host = host;
      messages.back().poll = poll;
      bytes = 0;
    }
    bytes += size;
    messages.back().ranks.push_back(event.rank);
    if (event.certificate != nullptr) messages.back().certificates.push_back(std::make_unique<wire::CertificateT>(*event.certificate));
  }
  return messages;
}

}  // namespace meshbus
