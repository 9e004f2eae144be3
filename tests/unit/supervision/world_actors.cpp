#include "tests/unit/supervision/world.h"

#include "wire/actors_generated.h"

/// The actors of the simulated world, one in each proc of some meshes, and what must be so of them.
namespace meshbus::test {

using namespace std::chrono_literals;

namespace {

bool is_over(const wire::ActorStateT& actor) {
  return actor.status == wire::StatusKind::stopped || actor.status == wire::StatusKind::failed;
}

}  // namespace

void SupervisionWorld::make_actor(std::size_t host, const std::string& mesh, std::uint64_t rank) {
  auto& one = agents_[host].meshes.at(mesh).at(rank);
  auto actor = std::make_shared<wire::ActorStateT>();
  actor->name = "tally";
  actor->create_rank = rank;
  actor->status = wire::StatusKind::running;
  actor->generation = 1;
  one.actor = std::move(actor);
  push_actor(host, mesh, one);
  if (chance(0.5)) return;
  const auto status = chance(0.7) ? wire::StatusKind::failed : wire::StatusKind::stopped;
  after(any(1, 20'000), [this, host, mesh, rank, status] { end_actor(host, mesh, rank, status); });
}

void SupervisionWorld::end_actor(std::size_t host, const std::string& mesh, std::uint64_t rank, wire::StatusKind status) {
  const auto found = agents_[host].meshes.find(mesh);
  if (agents_[host].is_dead || found == agents_[host].meshes.end() || now_ >= quiet_) return;
  auto& one = found->second.at(rank);
  if (one.state.state() != wire::ProcState::ready || is_over(*one.actor)) return;
  auto actor = std::make_shared<wire::ActorStateT>(*one.actor);
  actor->status = status;
  ++actor->generation;
  one.actor = std::move(actor);
  actor_ends_[{mesh, rank, one.state.incarnation()}] = {now_, status == wire::StatusKind::failed, true, host};
  push_actor(host, mesh, one);
}

void SupervisionWorld::note_proc_end(std::size_t host, const std::string& mesh, const Rank& one, bool is_failure) {
  if (!meshes_.at(mesh).has_actors) return;
  actor_ends_.try_emplace({mesh, one.state.rank(), one.state.incarnation()}, ActorEnd{now_, is_failure, false, host});
}

void SupervisionWorld::push_actor(std::size_t host, const std::string& mesh, const Rank& one) {
  if (!one.is_streaming) return;
  const auto& address = agents_[host].address;
  const auto proc = ProcId(address, proc_name(*Name::parse(mesh), one.state.rank())).key();
  send(from_agent_[host], [this, proc, host_key = address.key(), incarnation = one.state.incarnation(), actor = one.actor] {
    if (!is_connected_) return;
    at_controller([=, this] { act(supervisor_->actors_pushed(proc, host_key, incarnation, {{actor}}, now_)); });
  });
}

HostAnswer SupervisionWorld::ask_proc(std::size_t host, const Supervisor::Question& question) {
  const auto found = agents_[host].meshes.find(question.mesh.substr(0, question.mesh.find(',')));
  if (found == agents_[host].meshes.end()) return fail(ErrorCode::no_such_proc, "nobody there");
  auto& one = found->second.at(question.rank);
  if (one.actor == nullptr || is_terminal(one.state.state())) return fail(ErrorCode::no_such_proc, "nobody there");
  one.is_streaming = !is_over(*one.actor);
  return ActorUpdate{{one.actor}};
}

void SupervisionWorld::watch_actors(const std::string& mesh) {
  at_controller([this, mesh] {
    meshes_.at(mesh).watched = now_;
    auto actions = supervisor_->watch_actors(*ActorsName::parse(mesh + ",tally"), now_);
    if (!actions) return complain(actions.error().to_string());
    act(std::move(*actions));
  });
}

void SupervisionWorld::record_actor(const WatchEvent& event) {
  if (event.kind != WatchEvent::Kind::state) return;
  const LifeKey life{event.mesh.substr(0, event.mesh.find(',')), event.rank.rank(), event.rank.incarnation()};
  known_actors_.insert(life);
  if (is_terminal(event.rank.state())) actor_reports_[life].push_back({now_, event.rank, event.exit_report});
}

void SupervisionWorld::check_actors() {
  const auto name = [](const LifeKey& life) {
    return "actor of rank " + std::to_string(std::get<1>(life)) + " of " + std::get<0>(life) + ": ";
  };
  for (const auto& [life, list] : actor_reports_) {
    const auto found = actor_ends_.find(life);
    if (found == actor_ends_.end()) {
      complain(name(life) + "is well and was reported as ended");
      continue;
    }
    const auto& truth = found->second;
    const auto& first = list.front();
    if (list.size() > 1) complain(name(life) + "was reported " + std::to_string(list.size()) + " times");
    if (first.told < truth.ended) complain(name(life) + "was reported before its end");
    if (has_faults_) continue;
    const bool was_there = truth.ended > std::max(meshes_.at(std::get<0>(life)).made, *meshes_.at(std::get<0>(life)).watched) + 2s;
    if (!was_there || !is_fifo_) continue;
    if (is_failure(first.state) != truth.is_failure) complain(name(life) + "was reported with another end than it had");
    const bool is_by_proc = first.exit_report != nullptr && first.exit_report->reason.find("its proc has ended") == 0;
    if (is_by_proc == truth.is_own) complain(name(life) + "was reported with another cause than it had");
    if (first.told - truth.ended > std::chrono::milliseconds(kExitReportMs + 2 * delay_ + 10))
      complain(name(life) + "was reported late, by a poll");
  }
  for (const auto& [life, truth] : actor_ends_) {
    // A proc that had ended before it could be asked cannot tell.
    const auto proc = truth_.find(life);
    const auto& watched = meshes_.at(std::get<0>(life)).watched;
    const bool could_be_asked = !has_faults_ && watched && (proc == truth_.end() || proc->second.ended > *watched + 2s);
    const bool must_be_told = known_actors_.contains(life) || (could_be_asked && truth.is_own);
    if (must_be_told && !actor_reports_.contains(life) && !agents_[truth.host].is_dead)
      complain(name(life) + "has ended and was never reported");
  }
  for (const auto& [mesh, made] : meshes_) {
    if (made.watched && supervisor_->find(mesh) != nullptr) check_actor_statuses(mesh);
  }
}

void SupervisionWorld::check_actor_statuses(const std::string& mesh) {
  const auto* const known = supervisor_->find_actors(mesh + ",tally");
  if (known == nullptr) return complain("actors of " + mesh + " are not watched");
  const auto statuses = known->statuses();
  bool is_any_live = false;
  for (const auto host : meshes_.at(mesh).hosts) {
    const auto& agent = agents_[host];
    const auto found = agent.meshes.find(mesh);
    if (agent.is_dead || found == agent.meshes.end()) continue;
    for (const auto& [rank, one] : found->second) {
      if (one.state.state() != wire::ProcState::ready) continue;
      is_any_live = is_any_live || !is_over(*one.actor);
      const auto* const status = statuses.find(rank);
      const auto kind = status == nullptr ? Status::Kind::unknown : status->kind();
      const auto expected = Status(static_cast<Status::Kind>(one.actor->status)).kind();
      if (kind != expected)
        complain("actor of rank " + std::to_string(rank) + " of " + mesh + " is " + Status(expected).to_string() + ", and said to be " +
                 Status(kind).to_string());
    }
  }
  if (is_any_live && !known->is_monitored()) complain("actors of " + mesh + " live and are not watched any more");
}

}  // namespace meshbus::test
