#include "client/controller/supervised_meshes.h"

#include <algorithm>
#include <iterator>

#include "meshbus/name.h"
#include "wire/lifecycle_generated.h"
#include "wire/ranks_generated.h"

namespace meshbus {
namespace {

SupervisorQuestion::Kind to_question(MeshController::Order::Kind kind) {
  using Kind = MeshController::Order::Kind;
  using QuestionKind = SupervisorQuestion::Kind;
  switch (kind) {
    case Kind::stream: return QuestionKind::stream;
    case Kind::state: return QuestionKind::state;
    case Kind::stop: return QuestionKind::stop;
    case Kind::stop_gang: return QuestionKind::stop_gang;
    case Kind::restart: return QuestionKind::restart;
  }
  return QuestionKind::state;
}

MeshController::Order::Kind to_order(SupervisorQuestion::Kind kind) {
  using Kind = MeshController::Order::Kind;
  using QuestionKind = SupervisorQuestion::Kind;
  switch (kind) {
    case QuestionKind::stream: return Kind::stream;
    case QuestionKind::stop: return Kind::stop;
    case QuestionKind::stop_gang: return Kind::stop_gang;
    case QuestionKind::restart: return Kind::restart;
    default: return Kind::state;
  }
}

std::uint64_t count_live(const MeshUpdate& update) {
  const auto is_live = [](const wire::RankState& rank) { return !is_terminal(rank.state()); };
  return static_cast<std::uint64_t>(
      std::count_if(update.ranks_update.ranks.begin(), update.ranks_update.ranks.end(), is_live));
}

}  // namespace

bool SupervisedMeshes::is_wanted(std::string_view mesh) const {
  if (only_.empty() || mesh == only_) return true;
  const auto name = Name::parse(mesh);
  return name && name->base() == only_;
}

const MeshController* SupervisedMeshes::find(std::string_view mesh) const {
  const auto found = meshes_.find(mesh);
  return found == meshes_.end() ? nullptr : &found->second;
}

std::uint64_t SupervisedMeshes::live_on(const HostAddr& host) const {
  std::uint64_t live = 0;
  for (const auto& [name, mesh] : meshes_) live += mesh.live_on(host);
  return live;
}

void SupervisedMeshes::add(Actions& actions, const MeshController& mesh,
                           MeshController::Actions&& more, Time now) {
  auto of_actors = actors_.procs_told(mesh.mesh(), more.events, now);
  std::move(more.events.begin(), more.events.end(), std::back_inserter(actions.events));
  for (auto& order : more.orders) {
    auto& question = actions.questions.emplace_back(
        SupervisorQuestion{to_question(order.kind), std::move(order.host), mesh.mesh(), {}});
    question.stop = std::move(order.stop);
    question.restart = std::move(order.restart);
    question.ownership = order.ownership;
  }
  // Procs first: what becomes of their actors follows from it.
  for (auto& one : of_actors) {
    std::move(one.events.begin(), one.events.end(), std::back_inserter(actions.events));
    std::move(one.questions.begin(), one.questions.end(), std::back_inserter(actions.questions));
  }
}

void SupervisedMeshes::host_changed(Actions& actions, const HostAddr& host, bool is_silent,
                                    const std::string& problem, Time now) {
  if (is_silent) {
    silent_.insert_or_assign(host, problem);
  } else {
    silent_.erase(host);
  }
  for (auto& [name, mesh] : meshes_)
    add(actions, mesh, mesh.host_changed(host, is_silent, problem, now), now);
}

void SupervisedMeshes::streams_lost(Actions& actions, const std::optional<HostAddr>& host,
                                    Time now) {
  for (auto& [name, mesh] : meshes_) add(actions, mesh, mesh.streams_lost(host, now), now);
}

void SupervisedMeshes::add_mesh(Actions& actions, const HostAddr& host, const MeshUpdate& update,
                                Time now) {
  auto& mesh = meshes_.try_emplace(update.mesh, update.mesh, watched_).first->second;
  actors_.add_mesh(actions, mesh, now);
  add(actions, mesh, mesh.listed(host, update, now), now);
  for (const auto& [other, problem] : silent_)
    add(actions, mesh, mesh.host_changed(other, true, problem, now), now);
}

std::uint64_t SupervisedMeshes::listed(Actions& actions, const HostAddr& host,
                                       const ListUpdate& list, Time now) {
  std::set<std::string> listed;
  std::uint64_t others = 0;
  for (const auto& update : list.meshes) {
    // It says itself that it lies elsewhere, perhaps at another address of this host.
    const bool is_here =
        std::find(update.hosts.begin(), update.hosts.end(), host) != update.hosts.end();
    if (!is_here || !is_wanted(update.mesh)) others += count_live(update);
    if (!is_wanted(update.mesh)) continue;
    listed.insert(update.mesh);
    if (const auto found = meshes_.find(update.mesh); found != meshes_.end()) {
      add(actions, found->second, found->second.listed(host, update, now), now);
    } else {
      add_mesh(actions, host, update, now);
    }
  }
  // What a page does not speak of may be on another one.
  const bool is_page = list.is_page();
  const auto last = is_page ? list.meshes.back().mesh : std::string();
  for (auto& [name, mesh] : meshes_) {
    if (listed.contains(name) || (!list.after.empty() && name <= list.after) ||
        (is_page && name > last))
      continue;
    add(actions, mesh, mesh.absent(host, now), now);
  }
  std::erase_if(meshes_, [this](const auto& entry) {
    if (!entry.second.is_forgotten()) return false;
    actors_.drop_mesh(entry.first);
    return true;
  });
  return others;
}

bool SupervisedMeshes::pushed(Actions& actions, const HostAddr& host, const std::string& mesh,
                              const RankUpdate& update, Time now) {
  const auto found = meshes_.find(mesh);
  if (found == meshes_.end()) return false;
  add(actions, found->second, found->second.pushed(host, update, now), now);
  return true;
}

void SupervisedMeshes::answered(Actions& actions, const SupervisorQuestion& question,
                                const HostAnswer& answer, Time now) {
  const auto found = meshes_.find(question.mesh);
  if (found == meshes_.end()) return;
  const MeshController::Order order{
      .kind = to_order(question.kind), .host = question.host, .ownership = question.ownership};
  add(actions, found->second, found->second.answered(order, answer, now), now);
}

bool SupervisedMeshes::stop(Actions& actions, wire::StopProcsT order, Time now) {
  const auto found = meshes_.find(order.mesh);
  if (found == meshes_.end()) return false;
  add(actions, found->second, found->second.stop(std::move(order), now), now);
  return true;
}

void SupervisedMeshes::stop_all(Actions& actions, const wire::StopProcsT& order,
                                const std::function<bool(const MeshController&)>& is_meant,
                                Time now) {
  for (auto& [name, mesh] : meshes_) {
    if ((mesh.live() == 0 && !mesh.is_restarting()) || !is_meant(mesh)) continue;
    auto one = order;
    one.mesh = name;
    add(actions, mesh, mesh.stop(std::move(one), now), now);
  }
}

void SupervisedMeshes::note_owned(Actions& actions, const OwnedMeshes& owned, Time now) {
  for (auto& [name, mesh] : meshes_) {
    if (owned.is_unsure(mesh)) add(actions, mesh, mesh.ask_unheard(now), now);
    const bool is_ours = owned.may_restart(mesh);
    if (is_ours != mesh.is_ours()) add(actions, mesh, mesh.own(is_ours, now), now);
  }
}

void SupervisedMeshes::disown(const std::string& mesh) {
  if (const auto found = meshes_.find(mesh); found != meshes_.end())
    (void)found->second.own(false, {});
}

void SupervisedMeshes::turn(Actions& actions, Time now) {
  for (auto& [name, mesh] : meshes_) {
    if (const auto due = mesh.next_due(); due && *due <= now)
      add(actions, mesh, mesh.turn(now), now);
  }
  actors_.turn(actions, now);
}

std::optional<SupervisedMeshes::Time> SupervisedMeshes::next_due() const {
  auto next = actors_.next_due();
  for (const auto& [name, mesh] : meshes_) {
    if (const auto due = mesh.next_due()) next = next ? std::min(*next, *due) : due;
  }
  return next;
}

}  // namespace meshbus
