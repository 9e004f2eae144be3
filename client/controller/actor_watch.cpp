#include "client/controller/actor_watch.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace meshbus {
namespace {

constexpr std::size_t kMostActorMeshes = 1000;

void append(SupervisorActions& actions, const ActorMeshController& actors,
            ActorMeshController::Actions&& more) {
  using Kind = SupervisorQuestion::Kind;
  std::move(more.events.begin(), more.events.end(), std::back_inserter(actions.events));
  for (auto& order : more.orders) {
    const bool is_stop = order.kind == ActorMeshController::Order::Kind::stop;
    SupervisorQuestion question{
        is_stop ? Kind::stop_actor : Kind::stream_actors, std::move(order.host), actors.mesh(), {}};
    question.rank = order.rank;
    question.incarnation = order.incarnation;
    actions.questions.push_back(std::move(question));
  }
}

}  // namespace

const ActorMeshController* ActorWatch::find(std::string_view name) const {
  const auto found = actors_.find(name);
  return found == actors_.end() ? nullptr : &found->second;
}

ActorMeshController& ActorWatch::make(SupervisorActions& actions, const ActorsName& name,
                                      const MeshController* procs, Time now) {
  const auto [found, is_new] = actors_.try_emplace(name.to_string(), name);
  auto& actors = found->second;
  if (is_new && procs != nullptr) append(actions, actors, actors.procs_told(procs->known(), now));
  return actors;
}

Result<SupervisorActions> ActorWatch::add(const ActorsName& name, const MeshController* procs,
                                          Time now) {
  if (actors_.size() >= kMostActorMeshes && !actors_.contains(name.to_string()))
    return fail(ErrorCode::queue_full, "this controller watches " +
                                           std::to_string(kMostActorMeshes) +
                                           " meshes of actors; that is its limit");
  SupervisorActions actions;
  unwanted_.erase(name.to_string());
  make(actions, name, procs, now);
  return actions;
}

void ActorWatch::add_mesh(SupervisorActions& actions, const MeshController& procs, Time now) {
  if (everywhere_.empty()) return;
  const auto name = ActorsName::parse(ActorsName::prefix_of(procs.mesh()) + everywhere_);
  if (name) make(actions, *name, &procs, now);
}

void ActorWatch::drop_mesh(const std::string& mesh) {
  const auto is_of = [prefix = ActorsName::prefix_of(mesh)](const auto& entry) {
    return entry.first.starts_with(prefix);
  };
  std::erase_if(actors_, is_of);
  std::erase_if(unwanted_, is_of);
}

void ActorWatch::forget(const std::function<bool(const std::string&)>& is_wanted, Time now) {
  std::erase_if(actors_, [&](const auto& entry) {
    const auto& name = entry.first;
    if (!everywhere_.empty() || is_wanted(name)) {
      unwanted_.erase(name);
      return false;
    }
    if (now - unwanted_.try_emplace(name, now).first->second < MeshController::kMemory)
      return false;
    unwanted_.erase(name);
    return true;
  });
}

std::vector<SupervisorActions> ActorWatch::procs_told(const std::string& mesh,
                                                      const std::vector<WatchEvent>& events,
                                                      Time now) {
  std::vector<SupervisorActions> all;
  const auto prefix = ActorsName::prefix_of(mesh);
  for (auto entry = actors_.lower_bound(prefix);
       entry != actors_.end() && entry->first.starts_with(prefix); ++entry)
    append(all.emplace_back(), entry->second, entry->second.procs_told(events, now));
  return all;
}

void ActorWatch::pushed(SupervisorActions& actions, std::uint64_t proc_key, std::uint64_t host_key,
                        std::uint64_t incarnation, const ActorUpdate& update, Time now) {
  for (auto& [name, actors] : actors_)
    append(actions, actors, actors.pushed(proc_key, host_key, incarnation, update, now));
}

void ActorWatch::answered(SupervisorActions& actions, const SupervisorQuestion& question,
                          const HostAnswer& answer, Time now) {
  using Kind = ActorMeshController::Order::Kind;
  const auto found = actors_.find(question.mesh);
  if (found == actors_.end()) return;
  const bool is_stop = question.kind == SupervisorQuestion::Kind::stop_actor;
  append(actions, found->second,
         found->second.answered({is_stop ? Kind::stop : Kind::stream, question.rank, question.host,
                                 question.incarnation},
                                answer, now));
}

bool ActorWatch::stop(SupervisorActions& actions, const wire::StopProcsT& order, Time now) {
  const auto found = actors_.find(order.mesh);
  if (found == actors_.end()) return false;
  append(actions, found->second, found->second.stop(order, now));
  return true;
}

void ActorWatch::poll(SupervisorActions& actions, Time now) {
  for (auto& [name, actors] : actors_) append(actions, actors, actors.poll(now));
}

void ActorWatch::turn(SupervisorActions& actions, Time now) {
  for (auto& [name, actors] : actors_) {
    const auto due = actors.next_due();
    if (due && *due <= now) append(actions, actors, actors.turn(now));
  }
}

std::optional<ActorWatch::Time> ActorWatch::next_due() const {
  std::optional<Time> next;
  for (const auto& [name, actors] : actors_) {
    if (const auto due = actors.next_due()) next = next ? std::min(*next, *due) : due;
  }
  return next;
}

}  // namespace meshbus
