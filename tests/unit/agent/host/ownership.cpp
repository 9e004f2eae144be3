#include "agent/host/model/mesh_ownership.h"

#include <doctest/doctest.h>

#include "agent/host/model/proc_table.h"
#include "tests/unit/agent/host/fixture.h"

namespace meshbus::host {
namespace {

using namespace std::chrono_literals;
using Fate = MeshOwnership::Fate;

const MeshOwnership::Time begun{100s};

ProcId peer(const std::string& name) {
  return *ProcId::parse("unix:/run/m/a," + name + "-13Se1Maqzryj");
}

/// Checks the lease until it has lapsed: the first check in time asks for a second one.
Fate lapse(MeshOwnership& ownership) {
  while (true) {
    const auto due = ownership.lease().due().value();
    if (const auto fate = ownership.check_lease(due); fate != Fate::lives) return fate;
  }
}

TEST_CASE("mesh_ownership: an owner that goes stops its mesh, or leaves that to the lease") {
  MeshOwnership strict(peer("one"), 60s, true, begun);
  CHECK(strict.may_restart());
  CHECK(strict.on_owner_gone() == Fate::stops);
  CHECK(strict.is_gone());
  CHECK_FALSE(strict.is_detached());
  CHECK_FALSE(strict.may_restart());

  MeshOwnership lenient(peer("one"), 60s, false, begun);
  REQUIRE(lenient.hand_over("m", peer("two"), 5s, wire::OwnerLoss::lapse, begun) == true);
  CHECK(lenient.on_owner_gone() == Fate::lives);
  CHECK_FALSE(lenient.is_gone());
  CHECK(lenient.on_owner_back());
  CHECK_FALSE(lenient.on_owner_back());
  CHECK(lapse(lenient) == Fate::stops);
}

TEST_CASE("mesh_ownership: a detached mesh has no owner until it is handed over") {
  MeshOwnership ownership(peer("one"), 60s, true, begun);
  CHECK(ownership.hand_over("m", peer("one"), 5s, wire::OwnerLoss::detach, begun) == false);
  CHECK(ownership.may_restart());
  CHECK(lapse(ownership) == Fate::detached);
  CHECK(ownership.is_detached());
  CHECK_FALSE(ownership.has_owner(peer("one")));
  // The same peer once more is another owner than none.
  CHECK(ownership.hand_over("m", peer("one"), 5s, wire::OwnerLoss::stop, begun) == true);
  CHECK(ownership.has_owner(peer("one")));
  CHECK(ownership.handed_by() == peer("one").to_string());
  CHECK_FALSE(ownership.may_restart());
}

TEST_CASE("mesh_ownership: a restart policy is there for the owner that follows") {
  MeshOwnership ownership(peer("one"), 60s, true, begun);
  wire::RestartPlanT plan;
  plan.on = wire::RestartOn::failure;
  plan.used.emplace_back(3, 2, 1, 0);
  ownership.keep_restarts(plan);
  REQUIRE(ownership.hand_over("m", peer("two"), 5s, wire::OwnerLoss::lapse, begun) == true);
  CHECK(ownership.may_restart());
  REQUIRE(ownership.restarts().has_value());
  CHECK(ownership.restarts()->used[0].all() == 2);
  // A stop of the whole mesh is final, also for an owner that has not heard of it.
  CHECK(ownership.end_restarts());
  CHECK_FALSE(ownership.end_restarts());
  CHECK_FALSE(ownership.may_restart());
  ownership.keep_restarts(plan);
  CHECK(ownership.restarts()->over);
  CHECK_FALSE(ownership.may_restart());

  // An owner that has found that nothing can follow.
  MeshOwnership other(peer("one"), 60s, true, begun);
  other.keep_restarts(plan);
  REQUIRE(other.hand_over("m", peer("two"), 5s, wire::OwnerLoss::lapse, begun) == true);
  plan.over = true;
  other.keep_restarts(plan);
  CHECK_FALSE(other.may_restart());
}

TEST_CASE("mesh_ownership: ranks that were stopped are told, and may not be restarted") {
  MeshOwnership ownership(peer("one"), 60s, true, begun);
  CHECK_FALSE(ownership.is_stopped(3));
  CHECK(ownership.stop_rank(3));
  CHECK_FALSE(ownership.stop_rank(3));
  CHECK(ownership.stop_rank(4));
  CHECK(ownership.stop_rank(9));
  CHECK(ownership.is_stopped(3));
  CHECK_FALSE(ownership.is_stopped(5));
  REQUIRE(ownership.stopped().size() == 2);
  CHECK(ownership.stopped()[0].begin() == 3);
  CHECK(ownership.stopped()[0].end() == 5);
  CHECK(ownership.may_restart());
  MeshOwnership next(peer("one"), 60s, true, begun);
  next.restore_stopped(ownership.stopped());
  CHECK(next.is_stopped(9));
  CHECK(next.may_restart());
  // The whole mesh, also where its first owner restarts ranks.
  CHECK(ownership.end_restarts());
  CHECK_FALSE(ownership.may_restart());
  CHECK(ownership.is_stopped(5));
  next.restore_stopped(ownership.stopped());
  CHECK_FALSE(next.may_restart());
  // Where nobody restarts ranks there is nothing to tell.
  MeshOwnership plain(peer("one"), 60s, false, begun);
  CHECK_FALSE(plain.stop_rank(0));
  CHECK(plain.stopped().empty());
}

TEST_CASE("mesh_ownership: a handover may be half done until the new owner renews the lease") {
  MeshOwnership ownership(peer("one"), 60s, true, begun);
  CHECK_FALSE(ownership.is_unconfirmed());
  REQUIRE(ownership.hand_over("m", peer("two"), 5s, wire::OwnerLoss::lapse, begun) == true);
  CHECK(ownership.is_unconfirmed());
  REQUIRE(ownership.hand_over("m", peer("two"), 5s, wire::OwnerLoss::lapse, begun) == false);
  CHECK(ownership.is_unconfirmed());
  ownership.confirm();
  CHECK_FALSE(ownership.is_unconfirmed());
}

TEST_CASE("mesh_ownership: an owner is known at another address by its name and incarnation") {
  const auto there = [](const std::string& name) {
    return *ProcId::parse("unix:/run/m/b," + name + "-13Se1Maqzryj");
  };
  MeshOwnership ownership(peer("one"), 60s, true, begun);
  CHECK_FALSE(ownership.has_changed());
  // Nobody has said which incarnation the owner has.
  CHECK_FALSE(ownership.move_to(there("one"), 7));
  CHECK_FALSE(ownership.move_to(there("one"), 0));
  ownership.identify(7);
  CHECK_FALSE(ownership.move_to(there("two"), 7));
  CHECK_FALSE(ownership.move_to(there("one"), 8));
  CHECK(ownership.has_owner(peer("one")));
  CHECK(ownership.move_to(there("one"), 7));
  CHECK(ownership.has_owner(there("one")));
  CHECK(ownership.key() == there("one").key());
  CHECK(ownership.has_changed());
  // It is the same owner: it may restart, and hand the mesh over.
  CHECK(ownership.may_restart());
  CHECK(ownership.handed_by().empty());
  CHECK(ownership.move_to(there("one"), 7));
  CHECK(ownership.hand_over("m", peer("two"), 5s, wire::OwnerLoss::lapse, begun) == true);
  CHECK_FALSE(ownership.move_to(there("two"), 7));
  CHECK_FALSE(ownership.move_to(peer("one"), 7));
  // The new one is known, too, once it has spoken.
  CHECK(ownership.identify(9));
  CHECK_FALSE(ownership.identify(9));
  CHECK(ownership.move_to(there("two"), 9));
  CHECK(ownership.has_owner(there("two")));
  // An owner that is gone does not come back by moving.
  MeshOwnership gone(peer("one"), 60s, true, begun);
  gone.identify(7);
  CHECK(gone.on_owner_gone() == Fate::stops);
  CHECK_FALSE(gone.move_to(there("one"), 7));
}

TEST_CASE("mesh_ownership: it is too late to hand over a mesh that is being stopped") {
  MeshOwnership ownership(peer("one"), 60s, false, begun);
  CHECK(ownership.on_owner_gone() == Fate::stops);
  const auto done = ownership.hand_over("m", peer("two"), 5s, wire::OwnerLoss::stop, begun);
  REQUIRE_FALSE(done.has_value());
  CHECK(done.error().code() == ErrorCode::refused);
  CHECK(ownership.owner() == peer("one"));
}

TEST_CASE("proc_table: what happens to procs is taken as values, each once, with its mesh") {
  ProcTable table({});
  const auto by =
      std::make_shared<const Assignment>(Assignment{*test::parse(test::good_request()), {}});
  Mesh& mesh = table.add_mesh(by->spec, begun);
  Proc& proc = *table.add_proc(mesh, by, 3, 11, {});
  table.publish(proc);
  proc.state.on_started(42, 1);
  table.publish(proc);
  proc.launch.on_born();
  proc.state.on_failed(2);
  table.publish(proc);
  table.on_ended(proc);
  auto report = std::make_unique<wire::ExitReportT>();
  report->rank = 3;
  table.publish(proc, std::move(report), begun);
  CHECK(table.take_changed() == std::set<Mesh*>{&mesh});
  CHECK(table.take_changed().empty());
  // The proc may go on changing, and even be forgotten: the update does not.
  proc.exit.forget_report();
  const auto update = mesh.updates.take();
  REQUIRE(update.ranks.size() == 3);
  CHECK(update.ranks[0].state() == wire::ProcState::starting);
  CHECK(update.ranks[1].state() == wire::ProcState::running);
  CHECK(update.ranks[2].state() == wire::ProcState::failed);
  CHECK(update.exit_reports.size() == 1);
  CHECK(update.launch.size() == 1);  // its times do not change any more
  CHECK(mesh.updates.is_empty());
  CHECK_FALSE(proc.is_over());
  proc.exit.set_empty();
  CHECK(proc.is_over());
}

}  // namespace
}  // namespace meshbus::host
