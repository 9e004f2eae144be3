// Statuses of ranks, waiting for them, and draining, from a launcher that is this test program.
#include <thread>

#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

TEST_CASE(
    "client: spec 3.2: whoever is attached sees the statuses of a mesh and of its slices, and can "
    "wait for them") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=2"), of_this_build()));
  const auto sleep = own_sleep();
  Heard heard;
  auto spec = shell("[ $RANK = 3 ] && exit 4; exec " + sleep);
  spec.wait_ready = false;
  auto mesh = must(hosts.spawn("watched", extent("gpu=2"), spec, heard.handlers()));
  must(mesh.wait_status(Status::Kind::running, {.deadline = in_time, .idle = {}}));
  // Another launcher, which did not make it.
  auto other_context = must(Context::create());
  auto other = must(HostMesh::attach(other_context, "hosts", hosts.hosts()));
  const auto listing = must(other.meshes());
  REQUIRE(listing.meshes.size() == 1);
  const auto ref = must(listing.meshes[0].ref());
  CHECK(ref == mesh.ref());
  CHECK(to_string(must(other.wait_status(must(must(ref.at("host", 1)).at("gpu", 1)),
                                         Status::Kind::stopped,
                                         {.deadline = in_time, .idle = {}}))) == "Stopped=0..1");
  CHECK(to_string(must(other.statuses(ref))) == "Running=0..3;Stopped=3..4");
  // By ordinal in the slice.
  CHECK(to_string(must(other.statuses(must(ref.at("gpu", 1))))) == "Running=0..1;Stopped=1..2");
  CHECK(to_string(must(
            other.wait_status(ref, Status::Kind::running, {.deadline = in_time, .idle = {}}))) ==
        "Running=0..3;Stopped=3..4");
  const auto nobody =
      must(ProcMeshRef::make(must(Name::make("nobody")), hosts.hosts(), extent("x=2")));
  CHECK(to_string(must(other.statuses(nobody))) == "NotExist=0..2");

  auto late = other.wait_status(ref, Status::Kind::stopped, {.deadline = 300ms, .idle = {}});
  REQUIRE_FALSE(late.has_value());
  INFO(late.error().to_string());
  CHECK(late.error().code() == ErrorCode::timeout);
  CHECK(late.error().detail().find(
            "not within 300ms: 3 of 4 ranks have not reached Stopped: Running=0..3") !=
        std::string::npos);
  late = other.wait_status(ref, Status::Kind::stopped, {.deadline = forever, .idle = 300ms});
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().detail().find("no change for 300ms") != std::string::npos);
  CHECK(other.wait_status(ref, Status::Kind::unknown).error().code() == ErrorCode::out_of_range);

  // The maker hears of changes and need not ask.
  CHECK(
      to_string(must(mesh.wait_status(Status::Kind::running, {.deadline = in_time, .idle = {}}))) ==
      "Running=0..3;Stopped=3..4");
  late = mesh.wait_status(Status::Kind::stopped, {.deadline = 200ms, .idle = {}});
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().detail().find("3 of 4 ranks have not reached Stopped: Running=0..3") !=
        std::string::npos);
  Result<StatusMesh> theirs = fail(ErrorCode::internal, "");
  std::thread waiter([&] {
    theirs = other.wait_status(ref, Status::Kind::stopped, {.deadline = in_time, .idle = {}});
  });
  must(mesh.stop({.grace = 5s}));
  CHECK(to_string(must(mesh.wait_status(Status::Kind::stopped,
                                        {.deadline = in_time, .idle = {}}))) == "Stopped=0..4");
  waiter.join();
  CHECK(to_string(must(theirs)) == "Stopped=0..4");
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "client: spec 3.7: ranks on a host that does not answer are unknown, and a wait for them names "
    "it") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  const auto gone = must(HostAddr::parse("unix:" + (environment_root() / "nobody").string()));
  const auto ref =
      must(ProcMeshRef::make(must(Name::make("half")), {hosts.hosts()[0], gone}, extent("x=4")));
  CHECK(to_string(must(hosts.statuses(ref, 2s))) == "Unknown=2..4;NotExist=0..2");
  const auto late = hosts.wait_status(ref, Status::Kind::not_exist, {.deadline = 1s, .idle = {}});
  REQUIRE_FALSE(late.has_value());
  INFO(late.error().to_string());
  CHECK(late.error().detail().find("2 of 4 ranks have not reached NotExist: Unknown=2..4") !=
        std::string::npos);
  CHECK(late.error().detail().find("host " + gone.to_string()) != std::string::npos);
  must(hosts.shutdown(in_time));
}

TEST_CASE("client: spec 3.7: a wait for statuses ends when no host has answered for state.idle") {
  auto context = must(Context::create(quick({{"state.idle", "500ms"}})));
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  const auto gone = must(HostAddr::parse("unix:" + (environment_root() / "nobody").string()));
  const auto none = must(ProcMeshRef::make(must(Name::make("none")), {gone}, extent("x=2")));
  const auto late =
      hosts.wait_status(none, Status::Kind::running, {.deadline = forever, .idle = {}});
  REQUIRE_FALSE(late.has_value());
  INFO(late.error().to_string());
  CHECK(late.error().code() == ErrorCode::timeout);
  CHECK(late.error().detail().find("2 of 2 ranks have not reached Running: Unknown=0..2; no host "
                                   "has given an answer for 500 ms (state.idle); host " +
                                   gone.to_string()) != std::string::npos);
  // A host that answers is no silence, whatever it says.
  const auto soon = must(ProcMeshRef::make(must(Name::make("soon")), hosts.hosts(), extent("x=2")));
  const auto patient = hosts.wait_status(soon, Status::Kind::running, {.deadline = 2s, .idle = {}});
  REQUIRE_FALSE(patient.has_value());
  CHECK(patient.error().detail().find("not within 2s") != std::string::npos);
  must(hosts.shutdown(in_time));
}

TEST_CASE("client: spec 5.3: a drain ends what it is for on all hosts, holds, and can be ended") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=2"), of_this_build()));
  const auto sleep = own_sleep();
  Heard heard;
  auto one = must(hosts.spawn("one", extent("gpu=2"), shell("exec " + sleep), heard.handlers()));
  auto two = must(hosts.spawn("two", extent("gpu=1"), shell("exec " + sleep), heard.handlers()));
  auto summary = must(hosts.drain({.mesh = one.ref().mesh().to_string(), .reason = "making room"}));
  CHECK(summary.attempted == 4);
  CHECK(summary.ok == 4);
  CHECK(summary.failed == 0);
  for (const auto& rank : must(one.wait(in_time)).ranks) {
    CHECK(rank.state == ProcState::stopped);
    CHECK(rank.stop_reason == "making room");
    CHECK(rank.stopped_by.find("client-") != std::string::npos);
    CHECK_FALSE(rank.is_failure());
  }
  for (const auto& rank : two.known().ranks) CHECK(rank.state == ProcState::ready);
  summary = must(hosts.drain({.hold = true}));
  CHECK(summary.attempted == 2);
  CHECK(processes_with(sleep).empty());
  for (const auto& host : must(hosts.states())) {
    REQUIRE(host.drains.size() == 1);
    CHECK(host.drains[0].hold);
    CHECK(host.drains[0].mesh.empty());
    CHECK(host.drains[0].left == 0);
  }
  const auto refused = hosts.spawn("three", extent("gpu=1"), shell("true"));
  REQUIRE_FALSE(refused.has_value());
  INFO(refused.error().to_string());
  CHECK(refused.error().code() == ErrorCode::refused);
  CHECK(refused.error().detail().find("kept drained of all meshes") != std::string::npos);
  CHECK(hosts.resume().has_value());
  auto four = must(hosts.spawn("four", extent("gpu=1"), shell("true"), heard.handlers()));
  CHECK(must(four.wait(in_time)).exit_code() == 0);
  must(hosts.shutdown(in_time));
}
