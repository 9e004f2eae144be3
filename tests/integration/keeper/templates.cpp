// Procs that are copies of a template (agent/os/template_link.h). The template is this test program
// under the name test-template: it does what its first argument says.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "agent/os/packet.h"
#include "agent/os/template_link.h"
#include "tests/integration/keeper/harness.h"
#include "tests/support/process_table.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait.h"

using namespace meshbus::test;
using meshbus::UniqueFd;
using meshbus::os::Packet;
using meshbus::os::ProcSpec;
using meshbus::os::SpawnSpec;
using meshbus::os::SpawnStage;
using meshbus::os::Stdio;
namespace template_link = meshbus::os::template_link;

namespace {

long copy_to_parent(int& pidfd) {
  clone_args args{};
  args.flags = CLONE_PARENT | CLONE_PIDFD;
  args.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  return ::syscall(SYS_clone3, &args, sizeof args);
}

bool receive_request(int link, Packet& packet) {
  pollfd poll{link, POLLIN, 0};
  ::poll(&poll, 1, -1);
  return meshbus::os::receive_packet(link, packet) == meshbus::os::Transfer::done;
}

void tell_keeper(int link, template_link::What what, const std::string& reason = {},
                 int pidfd = -1) {
  const template_link::Report head{template_link::kMagic, what};
  Packet packet;
  packet.bytes.resize(sizeof head + reason.size());
  std::memcpy(packet.bytes.data(), &head, sizeof head);
  std::memcpy(packet.bytes.data() + sizeof head, reason.data(), reason.size());
  if (pidfd >= 0) packet.fds.emplace_back(pidfd);
  meshbus::os::send_packet(link, packet);
}

// A copy executes the script of the template's second argument.
[[noreturn]] void run_copy(const Packet& packet, const char* script) {
  template_link::Request request;
  std::memcpy(&request, packet.bytes.data(), sizeof request);
  char go = 0;
  if (::read(packet.fds.at(1).get(), &go, 1) != 1) ::_exit(0);
  ::setsid();
  std::size_t next = 2;
  for (int stream = 0; stream < 3; ++stream) {
    if ((request.has >> stream & 1) != 0) ::dup2(packet.fds.at(next++).get(), stream);
  }
  struct stat status{};
  ::fstat(packet.fds.front().get(), &status);
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  if (::pread(packet.fds.front().get(), text.data(), text.size(), 0) < 0) ::_exit(71);
  std::vector<char*> env;
  for (std::size_t at = 0; at < text.size(); at += std::strlen(text.data() + at) + 1)
    env.push_back(text.data() + at);
  env.push_back(nullptr);
  const char* argv[] = {"/bin/sh", "-c", script, nullptr};
  ::execve(argv[0], const_cast<char**>(argv), env.data());
  ::_exit(72);
}

int run_template(const std::string& mode, const char* script) {
  const char* const number = std::getenv(template_link::kVariable);
  if (number == nullptr || mode == "ends") return 9;
  const int link = std::atoi(number);
  if (mode == "fails") tell_keeper(link, template_link::What::failed, "no module named torch");
  if (mode == "talks") tell_keeper(link, static_cast<template_link::What>(77));
  if (mode == "born first")
    tell_keeper(link, template_link::What::born, {}, ::fcntl(0, F_DUPFD_CLOEXEC, 0));
  tell_keeper(link, template_link::What::ready);
  for (;;) {
    Packet packet;
    if (!receive_request(link, packet)) return 0;
    if (mode == "dies") ::raise(SIGKILL);
    if (mode == "hangs") ::pause();
    if (mode == "lies") {
      tell_keeper(link, template_link::What::born, {},
                  static_cast<int>(::syscall(SYS_pidfd_open, ::getppid(), 0)));
      continue;
    }
    int pidfd = -1;
    const long pid = copy_to_parent(pidfd);
    if (pid == 0) run_copy(packet, script);
    if (mode == "dies with a copy") ::raise(SIGKILL);
    tell_keeper(link, template_link::What::born, {}, pidfd);
  }
}

const struct TemplateStandIn {
  TemplateStandIn() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::vector<std::string> arguments;
    for (std::string one; std::getline(file, one, '\0');) arguments.push_back(one);
    if (arguments.size() < 3 ||
        std::filesystem::path(arguments.front()).filename() != "test-template")
      return;
    ::_exit(run_template(arguments[1], arguments[2].c_str()));
  }
} runs_when_named_template;

/// The spec of copies of such a template.
SpawnSpec copies(const TempDir& directory, const std::string& mode, const std::string& script) {
  SpawnSpec spec = command({stand_in(directory, "test-template"), mode, script});
  spec.is_template = true;
  return spec;
}

std::vector<ProcSpec> some_procs(std::size_t count) {
  return std::vector<ProcSpec>(count);
}

/// Live processes with that in their arguments, other than templates.
std::size_t processes_of_copies(const std::string& marker) {
  auto found = processes_with(marker);
  std::erase_if(found, [](const ProcessInfo& process) {
    return process.command.find("test-template") != std::string::npos;
  });
  return found.size();
}

meshbus::os::SpawnFailure copy_failure_of(KeeperUnderTest& keeper, std::uint64_t id) {
  REQUIRE(wait_until([&] { return keeper.pump(), keeper.births.contains(id); }, long_enough));
  REQUIRE(keeper.births.at(id).failure.has_value());
  return *keeper.births.at(id).failure;
}

}  // namespace

TEST_CASE("templates: copies are born, end and are reported like any proc") {
  KeeperUnderTest keeper;
  const TempDir directory;
  auto three = some_procs(3);
  for (std::size_t i = 0; i < 3; ++i) three[i].env = {"CODE=" + std::to_string(i)};
  const auto id = keeper.spawn(
      copies(directory, "good", "echo $CODE $(ps -o ppid= -p $$); exit $CODE"), std::move(three));
  REQUIRE(keeper.wait_births(3));
  REQUIRE(keeper.wait_gone(3));
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& birth = keeper.births.at(id + i);
    REQUIRE_FALSE(birth.failure.has_value());
    CHECK(birth.pidfd);
    CHECK(birth.spawned_realtime_ns > 0);
    CHECK(birth.started_realtime_ns >= birth.spawned_realtime_ns);
    CHECK(keeper.exits.at(id + i).code == static_cast<int>(i));
    CHECK_FALSE(keeper.exits.at(id + i).signaled);
    CHECK(keeper.read_stdout(id + i) ==
          std::to_string(i) + " " + std::to_string(keeper.process().pid()) + "\n");
  }
  CHECK(keeper.disorder.empty());
}

TEST_CASE("templates: copies have the settings of the spec") {
  KeeperUnderTest keeper;
  const TempDir directory;
  auto spec = copies(directory, "good", "ulimit -n; umask; nice; pwd");
  spec.settings.limits = {{RLIMIT_NOFILE, 200, 200}};
  spec.settings.umask = 0027;
  spec.settings.nice = 3;
  spec.cwd = "/usr";
  const auto id = keeper.spawn(std::move(spec), some_procs(1));
  REQUIRE(keeper.wait_births(1));
  CHECK(keeper.read_stdout(id) == "200\n0027\n3\n/usr\n");
  REQUIRE(keeper.wait_gone(1));
}

TEST_CASE("templates: a copy is killed with its group, and its descendants with it") {
  KeeperUnderTest keeper;
  const TempDir directory;
  const auto marker = make_marker();
  const auto id =
      keeper.spawn(copies(directory, "good", zoo_script(marker) + "\nwait"), some_procs(1));
  REQUIRE(keeper.wait_births(1));
  REQUIRE(wait_until([&] { return processes_of_copies(marker) >= zoo_size; }, long_enough));
  keeper.signal(id, SIGKILL);
  REQUIRE(keeper.wait_gone(1));
  CHECK(keeper.exits.at(id).signaled);
  CHECK(processes_of_copies(marker) == 0);
}

TEST_CASE("templates: what a template cannot do is the failure of its procs, with the reason") {
  const std::vector<std::pair<std::string, std::string>> modes = {
      {"ends", "the template ended: exit code 9"},
      {"fails", "no module named torch"},
      {"talks", "the template said something that is not in the protocol of templates"},
      {"born first", "the template said something that is not in the protocol of templates"},
      {"dies", "the template ended: signal 9"},
      {"dies with a copy", "the template ended: signal 9"},
      {"lies", "what the template calls a copy of itself"}};
  for (const auto& [mode, reason] : modes) {
    CAPTURE(mode);
    KeeperUnderTest keeper;
    const TempDir directory;
    const auto marker = make_marker();
    const auto id = keeper.spawn(copies(directory, mode, "sleep " + marker), some_procs(2));
    for (const auto each : {id, id + 1}) {
      const auto failure = copy_failure_of(keeper, each);
      CHECK(failure.stage == SpawnStage::copy);
      CHECK(failure.file == reason);
    }
    CHECK(wait_until([&] { return processes_with(marker).empty(); }, long_enough));
    CHECK(keeper.spawn_shell("exit 3") == id + 2);
    REQUIRE(wait_until([&] { return keeper.pump(), keeper.exits.contains(id + 2); }, long_enough));
    CHECK(keeper.exits.at(id + 2).code == 3);
  }
}

TEST_CASE("templates: a proc that waits for its template can be cancelled") {
  KeeperUnderTest keeper;
  const TempDir directory;
  const auto id = keeper.spawn(copies(directory, "hangs", "true"), some_procs(3));
  const auto other = keeper.spawn_shell("exit 0");
  REQUIRE(wait_until([&] { return keeper.pump(), keeper.exits.contains(other); }, long_enough));
  for (const auto each : {id + 1, id, id + 2}) {
    keeper.signal(each, SIGKILL);
    CHECK(copy_failure_of(keeper, each).stage == SpawnStage::cancelled);
  }
}

TEST_CASE("templates: another agent is told of copies once, and gets those that wait") {
  KeeperUnderTest keeper;
  const TempDir directory;
  const auto id = keeper.spawn(copies(directory, "good", "exec sleep 60"), some_procs(2));
  REQUIRE(keeper.wait_births(2));
  keeper.replace_agent();
  REQUIRE(keeper.wait_births(2));
  CHECK(keeper.births.at(id).pid > 0);
  CHECK(keeper.disorder.empty());
  keeper.signal(id, SIGKILL);
  keeper.signal(id + 1, SIGKILL);
  REQUIRE(keeper.wait_gone(2));
}
