// The owner of procs may change (docs/decisions/0020-handover.md): what a host agent does then.
#include <doctest/doctest.h>

#include "tests/integration/agent/harness.h"
#include "tests/support/sanitizer_scale.h"
#include "wire/bus_generated.h"
#include "wire/supervision_generated.h"

using namespace std::chrono_literals;

namespace meshbus::test {
namespace {

using State = wire::ProcState;

wire::HandOverT hand_over(const std::string& mesh, const ProcId& owner,
                          wire::OwnerLoss loss = wire::OwnerLoss::lapse,
                          std::uint32_t lease_ms = 60'000) {
  wire::HandOverT order;
  order.mesh = mesh;
  order.owner = owner.to_string();
  order.lease_ms = lease_ms;
  order.loss = loss;
  return order;
}

TEST_CASE(
    "agent: the owner hands its mesh over and goes: the procs live on, and the new owner is told "
    "everything") {
  AgentHarness harness;
  const auto old_owner = [&] { return harness.make_launcher("client"); };
  auto owner = old_owner();
  const auto heir = harness.make_launcher("client");
  auto request = harness.shell("echo up; while :; do sleep 1; done", 2);
  request.owner = owner->id().to_string();
  request.output = wire::OutputMode::stream;
  const auto mesh = request.mesh;
  CHECK(harness.ask<wire::SpawnAccepted>(*owner, std::move(request)).has_value());
  harness.wait("output", [&] {
    return owner->mesh(mesh)[0].out == "up\n" && owner->mesh(mesh)[1].out == "up\n";
  });
  const auto pid = harness.ask<wire::MeshState>(get_state(mesh))->ranks[0].pid();

  CHECK(harness.ask<wire::Ack>(*owner, hand_over(mesh, heir->id())).has_value());
  harness.wait("the state at the new owner", [&] {
    return heir->mesh(mesh)[0].state() == State::ready &&
           heir->mesh(mesh)[1].state() == State::ready;
  });
  // Again, because the answer may have been lost: by the old one, and by the new one.
  CHECK(harness.ask<wire::Ack>(*owner, hand_over(mesh, heir->id())).has_value());
  CHECK(harness.ask<wire::Ack>(*heir, hand_over(mesh, heir->id())).has_value());
  // It is not the old one's any more.
  CHECK(code_of(harness.ask<wire::Ack>(*owner, hand_over(mesh, owner->id()))) ==
        ErrorCode::unauthorised);
  owner.reset();
  harness.run_for(2000ms);
  CHECK(harness.agent().live() == 2);
  auto state = harness.ask<wire::MeshState>(get_state(mesh));
  CHECK(state->ranks[0].pid() == pid);
  REQUIRE(state->ownership != nullptr);
  CHECK(state->ownership->owner == heir->id().to_string());
  CHECK(state->ownership->lease_ms == 60'000);
  CHECK(state->ownership->loss == wire::OwnerLoss::lapse);
  CHECK_FALSE(state->ownership->gone);
  harness.stop(mesh, 0ms);
  harness.wait("the end at the new owner",
               [&] { return heir->mesh(mesh)[0].exit_report && heir->mesh(mesh)[1].exit_report; });
  CHECK(heir->problems.empty());
  // What streams no more is in the tail still.
  CHECK(heir->mesh(mesh)[0].out.empty());
}

TEST_CASE("agent: nobody but the owner hands a mesh over, and not to nonsense") {
  AgentHarness harness;
  const auto stranger = harness.make_launcher("client");
  const auto mesh = harness.run_shell("exec sleep 300");
  harness.wait_state(mesh, State::ready);
  CHECK(code_of(harness.ask<wire::Ack>(*stranger, hand_over(mesh, stranger->id()))) ==
        ErrorCode::unauthorised);
  CHECK(code_of(harness.ask<wire::Ack>(hand_over("jobs-11111111111b", stranger->id()))) ==
        ErrorCode::not_exist);
  CHECK(code_of(harness.ask<wire::Ack>(hand_over(mesh, stranger->id(), wire::OwnerLoss::lapse,
                                                 0))) == ErrorCode::configuration_error);
  auto nonsense = hand_over(mesh, stranger->id());
  nonsense.owner = "somebody";
  CHECK(code_of(harness.ask<wire::Ack>(nonsense)) == ErrorCode::parse_error);
  CHECK(harness.ask<wire::MeshState>(get_state(mesh))->ownership->owner ==
        harness.launcher->id().to_string());
  harness.stop(mesh, 0ms);
  harness.wait_ended(mesh);
}

TEST_CASE("agent: a new owner that is gone, or never came, has until its lease lapses") {
  AgentHarness harness;
  auto heir = harness.make_launcher("client");
  const auto mesh = harness.run_shell("exec sleep 300");
  harness.wait_state(mesh, State::ready);
  SUBCASE("gone") {
    CHECK(harness.ask<wire::Ack>(hand_over(mesh, heir->id(), wire::OwnerLoss::lapse, 3000))
              .has_value());
    heir.reset();
  }
  SUBCASE("never there") {
    CHECK(harness
              .ask<wire::Ack>(hand_over(mesh, ProcId(harness.host(), Name::controller()),
                                        wire::OwnerLoss::lapse, 3000))
              .has_value());
  }
  const auto begin = std::chrono::steady_clock::now();
  harness.run_for(2000ms);
  CHECK(harness.agent().live() == 1);
  harness.wait("the end", [&] { return harness.agent().live() == 0; });
  CHECK(std::chrono::steady_clock::now() - begin < 5s * slowness);
  harness.wait("the exit report", [&] {
    return !harness.ask<wire::MeshState>(get_state(mesh))->exit_reports.empty();
  });
  const auto state = harness.ask<wire::MeshState>(get_state(mesh));
  CHECK(state->exit_reports[0]->cause == wire::Cause::lease_lapsed);
  CHECK(state->exit_reports[0]->stop_reason == "lease lapsed");
}

TEST_CASE(
    "agent: a mesh that may live on without an owner does, and any operator may give it a new "
    "one") {
  AgentHarness harness;
  auto heir = harness.make_launcher("client");
  const auto mesh = harness.run_shell("exec sleep 300");
  harness.wait_state(mesh, State::ready);
  CHECK(harness.ask<wire::Ack>(hand_over(mesh, heir->id(), wire::OwnerLoss::detach, 1000))
            .has_value());
  heir.reset();
  harness.wait("that nobody answers for it",
               [&] { return harness.ask<wire::MeshState>(get_state(mesh))->ownership->gone; });
  harness.run_for(1500ms);
  CHECK(harness.agent().live() == 1);
  const auto finder = harness.make_launcher("client");
  CHECK(harness.ask<wire::Ack>(*finder, hand_over(mesh, finder->id(), wire::OwnerLoss::stop, 0))
            .has_value());
  CHECK_FALSE(harness.ask<wire::MeshState>(get_state(mesh))->ownership->gone);
  harness.stop(mesh, 0ms);
  harness.wait("the end", [&] { return finder->mesh(mesh)[0].exit_report.has_value(); });
}

}  // namespace
}  // namespace meshbus::test
