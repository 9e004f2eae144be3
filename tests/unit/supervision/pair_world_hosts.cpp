#include <algorithm>

#include "tests/unit/supervision/pair_world.h"

#include "wire/lifecycle_generated.h"
#include "wire/ranks_generated.h"
#include "wire/supervision_generated.h"

/// The hosts of the simulated pair, and what must be so of them.
namespace meshbus::test {

using namespace std::chrono_literals;

namespace {

const std::string kPairLauncher = "tcp:h0:7420,client-11111111111b";

RestartPlan plan_of_pair_mesh() {
  return {.policy = {.on = RestartPolicy::On::failure,
                     .delay = std::chrono::milliseconds(100),
                     .max_delay = std::chrono::milliseconds(100)}};
}

}  // namespace

std::string SupervisedPairWorld::make_mesh(std::vector<std::size_t> hosts) {
  const auto name = Name::make("m", random_())->to_string();
  const auto owner = actor().value();
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    MeshHere here{.owner = name_of(owner), .incarnation = 0, .due = now_ + kLease, .rank = {}};
    here.rank = wire::RankState(rank, 1, random_() | 1, 1, 0, 42, 0, wire::ProcState::ready, 0,
                                false, wire::StopStep::none, 0);
    here.plan = plan_of_pair_mesh();
    hosts_[hosts[rank]].meshes.emplace(name, std::move(here));
  }
  meshes_.emplace(name, hosts);
  for (const auto host : hosts) {
    push(host, name);
    look_at_lease(host, name);
  }
  return name;
}

SupervisedPairWorld::Answer SupervisedPairWorld::on_claim(std::size_t seat, std::size_t host,
                                                          std::uint64_t incarnation,
                                                          const Candidacy::Claim& claim) {
  auto& here = hosts_[host];
  auto& term = *here.term;
  const auto granted = term.claim({.from = {*ProcId::parse(name_of(seat)), incarnation},
                                   .number = claim.number,
                                   .lease = kTerm,
                                   .step = claim.step,
                                   .hosts = 7},
                                  now_);
  Answer answer;
  if (granted && claim.step == wire::TermStep::act) {
    // As PairService::move_owned() does.
    for (auto& [name, mesh] : here.meshes) {
      if (!term.is_former(*ProcId::parse(mesh.owner), mesh.incarnation)) continue;
      set_owner(host, name, name_of(seat));
      mesh.incarnation = incarnation;
    }
    for (const auto& member : term.former())
      answer.former.push_back({member.controller.to_string(), member.incarnation});
  }
  answer.said.is_granted = granted.has_value();
  answer.said.number = term.number();
  if (term.holder()) answer.said.controller = term.holder()->controller.to_string();
  answer.said.is_acting = term.is_acting();
  answer.said.left = term.left(now_) + term.wait(kTerm, now_);
  return answer;
}

MeshUpdate SupervisedPairWorld::describe(const Host& here, const std::string& mesh) const {
  const auto& hosts = meshes_.at(mesh);
  const auto& one = here.meshes.at(mesh);
  MeshUpdate news{.mesh = mesh,
                  .region = Region(*Extent::make({"host"}, {hosts.size()})),
                  .hosts = {},
                  .ranks_update = {}};
  for (const auto host : hosts) news.hosts.push_back(hosts_[host].address);
  news.ranks_update.ranks = {one.rank};
  if (one.exit_report) news.ranks_update.exit_reports = {one.exit_report};
  news.ranks_update.owner = OwnerUpdate{.owner = one.owner,
                                        .lease = kLease,
                                        .loss = wire::OwnerLoss::lapse,
                                        .may_restart = !one.plan.is_over,
                                        .restarts = one.plan,
                                        .incarnation = one.incarnation};
  return news;
}

void SupervisedPairWorld::push(std::size_t host, const std::string& mesh) {
  auto& here = hosts_[host];
  const auto news = describe(here, mesh).ranks_update;
  auto to = here.streams[mesh];
  for (std::size_t seat = 0; seat < seats_.size(); ++seat) {
    if (name_of(seat) == here.meshes.at(mesh).owner) to.insert(seat);
  }
  for (const auto seat : to) {
    send(seat, host, true, [this, seat, host, mesh, news, life = seats_[seat].life] {
      at_seat(seat, life, [this, seat, host, mesh, news] {
        act(seat, seats_[seat].supervisor->pushed(hosts_[host].address, mesh, news, now_));
      });
    });
  }
}

void SupervisedPairWorld::set_owner(std::size_t host, const std::string& mesh,
                                    const std::string& owner) {
  auto& here = hosts_[host].meshes.at(mesh);
  here.owner = owner;
  if (owner == kPairLauncher) handed_.emplace(mesh, host);
  here.incarnation = 0;
  here.due = now_ + kLease;
  push(host, mesh);
}

HostAnswer SupervisedPairWorld::on_question(std::size_t seat, std::size_t host,
                                            std::uint64_t incarnation,
                                            const Supervisor::Question& question,
                                            std::uint64_t term,
                                            const std::optional<RestartPlan>& plan) {
  using Kind = Supervisor::Question::Kind;
  auto& here = hosts_[host];
  if (question.kind == Kind::probe) {
    HostUpdate news{.incarnation = here.incarnation, .live = 0};
    for (const auto& [name, mesh] : here.meshes) news.live += is_live_on(host, name) ? 1U : 0U;
    return news;
  }
  if (question.kind == Kind::list) {
    ListUpdate list;
    for (const auto& [name, mesh] : here.meshes) list.meshes.push_back(describe(here, name));
    return list;
  }
  if (question.kind == Kind::renew) {
    if (const auto may = here.term->check(incarnation, term); !may) return fail(may.error());
    for (const auto& name : question.meshes) {
      const auto found = here.meshes.find(name);
      if (found == here.meshes.end()) continue;
      found->second.due = now_ + kLease;
      if (found->second.owner == name_of(seat)) found->second.incarnation = incarnation;
    }
    return std::monostate();
  }
  if (!here.meshes.contains(question.mesh)) return fail(ErrorCode::not_exist, "no such mesh");
  if (question.kind == Kind::restart) {
    const auto done = on_restart(seat, here, incarnation, question, term, *plan);
    if (!done) return fail(done.error());
    push(host, question.mesh);
    return std::monostate();
  }
  if (question.kind == Kind::stream) here.streams[question.mesh].insert(seat);
  return describe(here, question.mesh);
}

Result<void> SupervisedPairWorld::on_restart(std::size_t seat, Host& here,
                                             std::uint64_t incarnation,
                                             const Supervisor::Question& question,
                                             std::uint64_t term, const RestartPlan& plan) {
  if (auto may = here.term->check(incarnation, term); !may) return may;
  auto& mesh = here.meshes.at(question.mesh);
  if (mesh.owner != name_of(seat)) return fail(ErrorCode::unauthorised, "for its owner");
  mesh.plan = plan;
  auto& rank = mesh.rank;
  for (const auto& block : question.restart->ranks) {
    const bool is_next = block.begin() == rank.rank() && is_terminal(rank.state()) && !plan.is_over;
    if (!is_next) continue;
    auto& last = here.orders[question.mesh];
    if (last.first > term) wrong("a rank is restarted in a term that is over");
    if (last.first == term && last.second != incarnation)
      wrong("ranks are restarted by two controllers in one term");
    if (launchers_.contains(question.mesh))
      wrong("a controller restarts a rank of a mesh that is a launcher's");
    last = {term, incarnation};
    ++restarts_;
    mesh.exit_report = nullptr;
    rank.mutate_generation(rank.generation() + 1);
    rank.mutate_incarnation(random_() | 1);
    rank.mutate_restarts(rank.restarts() + 1);
    rank.mutate_state(wire::ProcState::ready);
    rank.mutate_signal(0);
    rank.mutate_ended_ns(0);
  }
  return {};
}

Result<void> SupervisedPairWorld::on_hand_over(std::size_t seat, std::size_t host,
                                               std::uint64_t incarnation, std::uint64_t term,
                                               const std::string& mesh) {
  auto& here = hosts_[host];
  if (auto may = here.term->check(incarnation, term); !may) return may;
  if (owner_on(host, mesh) != name_of(seat)) return fail(ErrorCode::unauthorised, "for its owner");
  set_owner(host, mesh, kPairLauncher);
  return {};
}

void SupervisedPairWorld::kill_rank(const std::string& mesh, std::size_t host) {
  if (is_live_on(host, mesh)) end_rank(host, mesh, wire::Cause::killed_from_outside);
}

void SupervisedPairWorld::end_rank(std::size_t host, const std::string& mesh, wire::Cause cause) {
  auto& here = hosts_[host].meshes.at(mesh);
  const bool is_killed = cause == wire::Cause::killed_from_outside;
  here.rank.mutate_generation(here.rank.generation() + 1);
  here.rank.mutate_state(is_killed ? wire::ProcState::killed : wire::ProcState::stopped);
  here.rank.mutate_signal(is_killed ? 9 : 0);
  here.rank.mutate_ended_ns(std::chrono::nanoseconds(now_.time_since_epoch()).count());
  here.exit_report = std::make_shared<wire::ExitReportT>();
  here.exit_report->rank = here.rank.rank();
  here.exit_report->cause = cause;
  push(host, mesh);
}

void SupervisedPairWorld::look_at_lease(std::size_t host, const std::string& mesh) {
  auto& here = hosts_[host].meshes.at(mesh);
  // The launcher is always there.
  if (here.owner == kPairLauncher) here.due = now_ + kLease;
  if (hosts_[host].is_dead || here.plan.is_over) return;
  if (now_ < here.due) return at(here.due, [this, host, mesh] { look_at_lease(host, mesh); });
  here.plan.is_over = true;
  if (is_live_on(host, mesh)) end_rank(host, mesh, wire::Cause::lease_lapsed);
}

std::string SupervisedPairWorld::owner_on(std::size_t host, const std::string& mesh) const {
  const auto found = hosts_[host].meshes.find(mesh);
  return found == hosts_[host].meshes.end() ? std::string() : found->second.owner;
}

bool SupervisedPairWorld::is_live_on(std::size_t host, const std::string& mesh) const {
  const auto found = hosts_[host].meshes.find(mesh);
  return !hosts_[host].is_dead && found != hosts_[host].meshes.end() &&
         !is_terminal(found->second.rank.state());
}

std::uint64_t SupervisedPairWorld::restarts_on(std::size_t host, const std::string& mesh) const {
  return hosts_[host].meshes.at(mesh).rank.restarts();
}

void SupervisedPairWorld::check_quiet() {
  const auto seat = actor();
  if (!seat) return wrong("nobody acts");
  for (const auto& [mesh, hosts] : meshes_) {
    std::vector<std::size_t> alive;
    std::ranges::copy_if(hosts, std::back_inserter(alive),
                         [&](std::size_t host) { return !hosts_[host].is_dead; });
    const bool is_all = alive.size() == hosts.size();
    const bool is_over = std::ranges::any_of(
        alive, [&](std::size_t host) { return hosts_[host].meshes.at(mesh).plan.is_over; });
    const bool is_a_launchers = std::ranges::any_of(
        alive, [&](std::size_t host) { return owner_on(host, mesh) == kPairLauncher; });
    if (alive.empty() || is_over) continue;
    const auto* const known = seats_[*seat].supervisor->find(mesh);
    if (is_a_launchers) {
      if (known != nullptr && known->is_ours())
        wrong(mesh + " is a launcher's, and the controller's, too");
      continue;
    }
    // What a lost host has said last of a launcher's mesh counts, and may be old.
    const bool was_a_launchers = std::ranges::any_of(hosts, [&](std::size_t host) {
      return hosts_[host].is_dead && handed_.contains({mesh, host});
    });
    if (was_a_launchers) continue;
    if (known == nullptr || !known->is_ours()) {
      std::string text = mesh + " was not taken over by " + name_of(*seat) + ": ";
      for (const auto host : hosts)
        text += hosts_[host].address.to_string() + (hosts_[host].is_dead ? " (lost)" : "") +
                " names " + owner_on(host, mesh) + "; ";
      wrong(text);
      continue;
    }
    for (const auto host : alive) {
      const auto& here = hosts_[host].meshes.at(mesh);
      if (here.owner != name_of(*seat)) wrong(mesh + " has another owner on a host that lives");
      if (here.due - now_ < kLease / 2) wrong(mesh + " is not renewed on a host that lives");
      if (is_all && !is_live_on(host, mesh)) wrong(mesh + " has a rank that is not restarted");
    }
  }
}

}  // namespace meshbus::test
