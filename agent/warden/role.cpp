#include "agent/warden/role.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "agent/os/packet.h"
#include "common/base/os_error.h"

namespace meshbus::warden {

Result<void> start_role(Role& role, const RoleStart& start, os::Spawner& spawner) {
  auto pair = os::make_packet_pair();
  if (!pair) return fail(pair.error());
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  // Numbers of 3 or more, as the recipe wants.
  const UniqueFd input(::fcntl(null.get(), F_DUPFD_CLOEXEC, 3));
  const UniqueFd output(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!input || !output)
    return fail(ErrorCode::io_error, os_error("descriptors for a new process"));

  std::vector<std::string> texts{start.program.string(), "--lifeline-fd",
                                 std::to_string(pair->second.get())};
  texts.insert(texts.end(), start.arguments.begin(), start.arguments.end());
  std::vector<const char*> argv;
  for (const std::string& text : texts) argv.push_back(text.c_str());
  argv.push_back(nullptr);
  std::vector<int> inherit = start.inherit;
  inherit.push_back(pair->second.get());

  os::ChildPlan plan;
  plan.command.path = texts.front().c_str();
  plan.command.argv = argv.data();
  plan.command.envp = environ;
  plan.ties.subreaper = false;
  plan.ties.parent_death_signal = start.death_signal;
  plan.ties.new_pid_namespace = start.new_pid_namespace;
  plan.descriptors.stdio[0] = input.get();
  plan.descriptors.stdio[1] = output.get();
  plan.descriptors.stdio[2] = output.get();
  plan.cgroups.joins = start.joins.data();
  plan.cgroups.join_count = start.joins.size();
  plan.descriptors.inherit = inherit.data();
  plan.descriptors.inherit_count = inherit.size();
  auto child = spawner.run(plan);
  if (!child) {
    os::SpawnFailure failure = child.error();
    if (failure.stage == os::SpawnStage::exec) failure.file = start.program.string();
    return fail(ErrorCode::exec_failed,
                "cannot start the " + role.name + ": " + os::describe(failure));
  }
  role.pid = child->pid;
  role.ready = false;
  role.said.clear();
  role.release.clear();
  role.program = start.program.string();
  role.silence = {};
  role.silence.start_anew(std::chrono::steady_clock::now());
  role.lifeline = os::Lifeline(std::move(pair->first));
  return {};
}

std::string describe_exit(int code, int status) {
  if (code == CLD_EXITED) return "exited with code " + std::to_string(status);
  const char* name = ::sigabbrev_np(status);
  return "was killed by " +
         (name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(status)) +
         (code == CLD_DUMPED ? " (core dumped)" : "");
}

Result<UniqueFd> make_secret() {
  std::array<unsigned char, 32> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return fail(ErrorCode::io_error, os_error("getrandom"));
  UniqueFd file(::memfd_create("meshbus-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return fail(ErrorCode::io_error, os_error("memfd_create for the secret"));
  if (::write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    return fail(ErrorCode::io_error, os_error("write of the secret"));
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) !=
      0) {
    return fail(ErrorCode::io_error, os_error("sealing the secret"));
  }
  ::explicit_bzero(bytes.data(), bytes.size());
  return file;
}

}  // namespace meshbus::warden
