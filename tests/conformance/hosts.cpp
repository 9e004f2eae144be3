// Spec 6.1: hosts that are taken over, hosts that a mesh holds for itself, and hosts that procs
// start.
#include <csignal>

#include "tests/conformance/procs.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

HostMeshRef ref_to(const std::vector<std::string>& hosts) {
  std::string text = "pair:";
  for (const auto& host : hosts) text += (text == "pair:" ? "" : ",") + host;
  return must(HostMeshRef::parse(text + "@host=" + std::to_string(hosts.size()) + "/1"));
}

}  // namespace

TEST_CASE(
    "spec 6.1: hosts that were taken by their reference end with who took them, and with his "
    "shutdown") {
  StandingHost first, second;
  auto context = must(Context::create());
  const auto sleep = own_sleep();
  const auto ref = ref_to({first.address(), second.address()});
  SUBCASE("they are let go of") {
    {
      auto hosts = must(HostMesh::take(context, ref));
      CHECK(hosts.ref() == ref);
      auto mesh = must(hosts.spawn("ranks", extent("gpu=1"), shell("exec " + sleep)));
      // A process has no command line in the middle of its exec.
      CHECK(wait_until([&] { return processes_with(sleep).size() == 2; }, in_time));
    }
    CHECK(first.process().wait_exit(in_time) == ExitStatus::exited(0));
    CHECK(second.process().wait_exit(in_time) == ExitStatus::exited(0));
  }
  SUBCASE("they are shut down") {
    auto hosts = must(HostMesh::take(context, ref));
    auto mesh = must(hosts.spawn("ranks", extent("gpu=1"), shell("exec " + sleep)));
    const auto summary = must(hosts.shutdown(in_time));
    CHECK(summary.hosts == 2);
    CHECK(summary.ok == 2);
    CHECK(first.process().wait_exit(in_time) == ExitStatus::exited(0));
    CHECK(second.process().wait_exit(in_time) == ExitStatus::exited(0));
  }
  CHECK(processes_with(sleep).empty());
}

TEST_CASE(
    "spec 6.1: taking hosts fails closed and names each that cannot be reached; those that can are "
    "left alone") {
  StandingHost host;
  auto context = must(Context::create());
  const auto taken =
      HostMesh::take(context, ref_to({"unix:/nobody/here", host.address(), "unix:@nobody.there"}),
                     {.deadline = 2s, .require_all = false});
  REQUIRE_FALSE(taken.has_value());
  const auto detail = taken.error().detail();
  INFO(detail);
  CHECK(taken.error().code() == ErrorCode::host_unreachable);
  CHECK(detail.find("host 0 (unix:/nobody/here)") != std::string::npos);
  CHECK(detail.find("host 2 (unix:@nobody.there)") != std::string::npos);
  CHECK(detail.find(host.address()) == std::string::npos);
  {
    const auto attached = must(HostMesh::attach(context, ref_to({host.address()})));
    CHECK(must(attached.states())[0].code == ErrorCode::none);
  }
  CHECK(host.process().is_running());
}

TEST_CASE(
    "spec 6.4: a shutdown ends the hosts that it reaches, and says which one it did not reach") {
  StandingHost first, second;
  auto context = must(Context::create());
  auto hosts = must(HostMesh::take(context, ref_to({first.address(), second.address()})));
  second.process().send_signal(SIGKILL);
  second.process().wait_exit(in_time);
  // Its other roles take a moment to end.
  REQUIRE(wait_until([] { return host_directories().size() == 1; }, in_time));
  // An order that is on its way when the link ends may have been carried out: the host has gone.
  REQUIRE(must(hosts.states())[1].code != ErrorCode::none);
  const auto down = hosts.shutdown(5s);
  REQUIRE_FALSE(down.has_value());
  INFO(down.error().to_string());
  CHECK(down.error().code() == ErrorCode::stop_error);
  CHECK(down.error().detail().find("host 1 (" + second.address() + "): ") != std::string::npos);
  CHECK(down.error().detail().find(first.address()) == std::string::npos);
  CHECK(first.process().wait_exit(in_time) == ExitStatus::exited(0));
}

TEST_CASE("spec 6.1: a mesh that was allocated with hosts of its own holds them, and ends them") {
  auto context = must(Context::create());
  auto allocator = process_allocator(of_this_build());
  const auto make = [&] {
    return must(allocator->allocate(context, {.extent = extent("host=2"), .on_event = {}}));
  };
  const auto is_empty = [] { return wardens_of(::getpid()).empty() && host_directories().empty(); };
  Heard heard;
  {
    auto mesh = must(ProcMesh::allocate(context, "ranks", make(), extent("gpu=2"), self({"serve"}),
                                        heard.handlers()));
    CHECK(mesh.ref().region().extent() == extent("host=2,gpu=2"));
    CHECK(texts(must(context.call(mesh.ref(), Port::environ_of, "NODE_RANK", in_time))) ==
          Words{"0", "0", "1", "1"});
    CHECK(mesh.handover(must(ProcId::parse(mesh.ref().hosts()[0].to_string() + ",controller")))
              .error()
              .code() == ErrorCode::refused);
    // Some of its ranks are not all of it.
    CHECK(must(mesh.stop({.reason = "smaller", .ranks = {{0, 1}}})).ranks[0].is_terminal());
    CHECK(wardens_of(::getpid()).size() == 2);
    CHECK(must(mesh.stop()).is_ended());
    CHECK(wardens_of(::getpid()).empty());
    CHECK(must(mesh.stop()).is_ended());
    CHECK(must(mesh.wait(in_time)).exit_code() == 0);
  }
  {
    const auto mesh = must(ProcMesh::allocate(context, "ranks", make(), extent("gpu=1"),
                                              self({"serve"}), heard.handlers()));
    CHECK(wardens_of(::getpid()).size() == 2);
  }
  CHECK(wait_until(is_empty, in_time));
  const auto broken = ProcMesh::allocate(context, "ranks", make(), extent("gpu=1"),
                                         {.command = {"/no/such/file"}}, heard.handlers());
  REQUIRE_FALSE(broken.has_value());
  CHECK(broken.error().code() == ErrorCode::proc_creation_error);
  CHECK(wait_until(is_empty, in_time));
  CHECK(heard.failures().empty());
}

TEST_CASE(
    "spec 6.1: a proc starts a host, others use it by its reference, and it ends with its proc") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::local(context, of_this_build()));
  auto mesh = must(hosts.spawn("seeds", extent("gpu=2"), self({"grow"})));
  const auto answers = must(context.call(mesh.ref(), Port::grow, "", in_time));
  std::vector<HostAddr> grown;
  for (const auto& answer : answers)
    grown.push_back(must(HostMeshRef::parse(must(answer))).hosts().front());
  const auto sleep = own_sleep();
  auto more = must(HostMesh::attach(context, "grown", grown, {.deadline = in_time}));
  Heard heard;
  auto ranks = must(more.spawn("ranks", extent("gpu=2"), shell("exec " + sleep), heard.handlers()));
  // A shell that has just started may not be `sleep` yet.
  CHECK(wait_until([&] { return processes_with(sleep).size() == 4; }, in_time));
  CHECK(host_directories().size() == 3);
  must(mesh.stop());
  CHECK(wait_until([&] { return processes_with(sleep).empty() && host_directories().size() == 1; },
                   in_time));
  must(hosts.shutdown(in_time));
}
