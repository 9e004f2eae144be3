// What a Supervisor does for those who want to hear of actors.
#include "client/controller/supervisor.h"

namespace meshbus {
namespace {

constexpr std::size_t kMostActorMeshes = 1000;

}  // namespace

const ActorMeshController* Supervisor::find_actors(std::string_view name) const {
  const auto found = actors_.find(name);
  return found == actors_.end() ? nullptr : &found->second;
}

void Supervisor::add(Actions& actions, const ActorMeshController& actors, ActorMeshController::Actions&& more) {
  std::move(more.events.begin(), more.events.end(), std::back_inserter(actions.events));
  for (auto& order : more.orders) {
    const bool is_stop = order.kind == ActorMeshController::Order::Kind::stop;
    Question question{is_stop ? Question::Kind::stop_actor : Question::Kind::stream_actors, std::move(order.host), actors.mesh(), {}};
    question.rank = order.rank;
    question.incarnation = order.incarnation;
    actions.questions.push_back(std::move(question));
  }
}

ActorMeshController& Supervisor::add_actors(Actions& actions, const ActorsName& name, Time now) {
  const auto [found, is_new] = actors_.try_emplace(name.to_string(), name);
  const auto procs = meshes_.find(name.mesh().to_string());
  if (is_new && procs != meshes_.end()) add(actions, found->second, found->second.procs_told(procs->second.known(), now));
  return found->second;
}

Result<Supervisor::Actions> Supervisor::watch_actors(const ActorsName& name, Time now) {
  if (!is_wanted(name.mesh().to_string())) return fail(ErrorCode::refused, "this controller watches " + options_.mesh + " alone");
  if (actors_.size() >= kMostActorMeshes && !actors_.contains(name.to_string()))
    return fail(ErrorCode::queue_full,
                "this controller watches " + std::to_string(kMostActorMeshes) + " meshes of actors; that is its limit");
  Actions actions;
  unwanted_.erase(name.to_string());
  add_actors(actions, name, now);
  return actions;
}

void Supervisor::watch_actors_of(Actions& actions, const std::string& mesh, Time now) {
  if (options_.actors.empty()) return;
  if (const auto name = ActorsName::parse(ActorsName::prefix_of(mesh) + options_.actors)) add_actors(actions, *name, now);
}

void Supervisor::forget_actors(const std::function<bool(const std::string&)>& is_wanted, Time now) {
  std::erase_if(actors_, [&](const auto& entry) {
    const auto& name = entry.first;
    if (!options_.actors.empty() || is_wanted(name)) {
      unwanted_.erase(name);
      return false;
    }
    if (now - unwanted_.try_emplace(name, now).first->second < MeshController::memory) return false;
    unwanted_.erase(name);
    return true;
  });
}

void Supervisor::drop_actors(const std::string& mesh) {
  const auto is_of = [prefix = ActorsName::prefix_of(mesh)](const auto& entry) { return entry.first.starts_with(prefix); };
  std::erase_if(actors_, is_of);
  std::erase_if(unwanted_, is_of);
}

Supervisor::Actions Supervisor::actors_pushed(std::uint64_t proc_key, std::uint64_t host_key, std::uint64_t incarnation,
                                              const ActorNews& news, Time now) {
  Actions actions;
  for (auto& [name, actors] : actors_) add(actions, actors, actors.pushed(proc_key, host_key, incarnation, news, now));
  return actions;
}

void Supervisor::on_actors_answer(Actions& actions, const Question& question, const HostAnswer& answer, Time now) {
  using Kind = ActorMeshController::Order::Kind;
  const auto found = actors_.find(question.mesh);
  if (found == actors_.end()) return;
  const auto kind = question.kind == Question::Kind::stop_actor ? Kind::stop : Kind::stream;
  add(actions, found->second, found->second.answered({kind, question.rank, question.host, question.incarnation}, answer, now));
}

void Supervisor::poll_actors(Actions& actions, Time now) {
  for (auto& [name, actors] : actors_) add(actions, actors, actors.poll(now));
}

void Supervisor::turn_actors(Actions& actions, Time now) {
  for (auto& [name, actors] : actors_) {
    if (const auto due = actors.next_due(); due && *due <= now) add(actions, actors, actors.turn(now));
  }
}

}  // namespace meshbus
