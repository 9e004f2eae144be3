#include "agent/host/hands/execs.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "agent/host/model/mesh.h"
#include "agent/host/model/proc_text.h"
#include "common/base/file_text.h"
#include "common/base/log.h"

namespace meshbus::host {
namespace {

constexpr char kHandsProgram[] = "meshbus-hands";
/// In front of variables of the rank, and of those that go over them: agent/hands/environment.h.
constexpr char kOfRank[] = "MESHBUS_RANK:";
constexpr char kOverride[] = "MESHBUS_HANDS:";

/// Where the programs of this release are: beside this one.
std::string hands_path() {
  std::array<char, 4096> path{};
  const auto n = ::readlink("/proc/self/exe", path.data(), path.size());
  const std::string own(path.data(), n < 0 ? 0 : static_cast<std::size_t>(n));
  return own.substr(0, own.find_last_of('/') + 1) + kHandsProgram;
}

/// What tells a process from another one with the same number.
struct ProcessName {
  pid_t pid = 0;  ///< As the keeper sees it.
  std::string start_ticks;
};

/// Errors: not_exist.
Result<ProcessName> name_process(pid_t pid, bool own_pid_namespace) {
  const std::string folder = "/proc/" + std::to_string(pid);
  const std::string rest = file_text(folder + "/stat");
  const auto bracket = rest.rfind(')');
  ProcessName name{.pid = own_pid_namespace ? 0 : pid, .start_ticks = {}};
  if (pid > 0 && bracket != std::string::npos) {
    std::istringstream words(rest.substr(bracket + 1));
    for (int field = 3; field <= 22; ++field) words >> name.start_ticks;
  }
  if (own_pid_namespace) {
    // "NSpid: OURS KEEPERS ..."; a name of the process cannot begin a line.
    std::ifstream status(folder + "/status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("NSpid:")) continue;
      std::istringstream words(line.substr(6));
      pid_t ours = 0;
      words >> ours >> name.pid;
    }
  }
  if (name.start_ticks.empty() || name.pid <= 0)
    return fail(ErrorCode::not_exist, "process " + std::to_string(pid) + " has ended");
  return name;
}

const char* word_of(wire::ExecTask task) {
  switch (task) {
    case wire::ExecTask::command: return "command";
    case wire::ExecTask::connect: return "connect";
    case wire::ExecTask::send: return "send";
    case wire::ExecTask::receive: return "receive";
  }
  return "unknown";
}

}  // namespace

Result<os::SpawnSpec> Execs::make_spawn(const Proc& proc, const wire::StartExec& request) const {
  os::SpawnSpec spawn;
  spawn.program = hands_path();
  if (::access(spawn.program.c_str(), X_OK) != 0)
    return fail(ErrorCode::refused,
                std::string("this host has no ") + kHandsProgram + ": " + std::strerror(errno));
  const auto process =
      name_process(static_cast<pid_t>(proc.state.to_wire().pid()), options_.own_pid_namespace);
  if (!process) return fail(process.error().within(name_of_rank(proc)));
  spawn.mesh = proc.mesh.name;
  spawn.argv = {kHandsProgram,        "--pid",  std::to_string(process->pid), "--start",
                process->start_ticks, "--task", word_of(request.task())};
  if (request.terminal()) {
    spawn.argv.emplace_back("--terminal");
    spawn.argv.push_back(std::to_string(request.rows()) + "x" + std::to_string(request.columns()));
  }
  spawn.argv.emplace_back("--");
  for (const auto* argument : *request.arguments()) spawn.argv.push_back(argument->str());
  for (const auto& variable : shared_environment(proc.mesh.spec, options_.environment))
    spawn.env.push_back(kOfRank + variable);
  for (const auto& variable : rank_environment(proc.mesh.spec, proc.rank(), proc.state.restarts()))
    spawn.env.push_back(kOfRank + variable);
  if (request.environment() != nullptr) {
    for (const auto* variable : *request.environment())
      spawn.env.push_back(kOverride + variable->key()->str() + "=" + variable->value()->str());
  }
  return spawn;
}

void Execs::start(const Proc& proc, const ProcId& requester, const wire::StartExec& request,
                  Started started) {
  const Key key{requester.key(), request.exec()};
  if (execs_.contains(key))
    return started(fail(ErrorCode::refused, "StartExec.exec: there is one of that number"));
  if (execs_.size() >= options_.most)
    return started(
        fail(ErrorCode::queue_full, "this host runs " + std::to_string(execs_.size()) +
                                        " commands beside its ranks already (exec.limit)"));
  if (proc.has_ended() || !proc.launch.is_born())
    return started(fail(ErrorCode::not_exist, name_of_rank(proc) + " is not running"));
  auto spawn = make_spawn(proc, request);
  if (!spawn) return started(fail(spawn.error()));
  Entry& entry = execs_[key];
  entry.exec = std::make_unique<Exec>(
      bus_, processes_,
      Exec::Spec{.requester = requester,
                 .number = request.exec(),
                 .mesh = proc.mesh.name,
                 .rank = proc.rank(),
                 .rank_incarnation = proc.incarnation(),
                 .has_terminal = request.terminal(),
                 .has_input = request.input() || request.terminal(),
                 .lease = std::chrono::milliseconds(request.lease_ms())},
      Exec::Events{.on_started = started, .on_over = [&entry] { entry.is_over = true; }});
  if (const auto begun = entry.exec->start(std::move(*spawn)); !begun) {
    execs_.erase(key);
    started(fail(begun.error()));
  }
}

Exec* Execs::find(std::uint64_t requester, std::uint64_t number) {
  const auto found = execs_.find({requester, number});
  if (found == execs_.end() || found->second.is_over) return nullptr;
  found->second.exec->on_heard();
  return found->second.exec.get();
}

void Execs::check() {
  for (auto at = execs_.begin(); at != execs_.end();) {
    Entry& entry = at->second;
    const auto& spec = entry.exec->spec();
    const Mesh* const mesh = table_.find_mesh(spec.mesh);
    const Proc* const proc = mesh == nullptr ? nullptr : mesh->find(spec.rank);
    if (proc == nullptr || proc->has_ended() || proc->incarnation() != spec.rank_incarnation)
      entry.exec->end("rank " + std::to_string(spec.rank) + " has ended", /*now=*/true);
    at = entry.is_over ? execs_.erase(at) : std::next(at);
  }
}

void Execs::drop(const ProcId& requester) {
  for (const auto& [key, entry] : execs_) {
    if (entry.exec->spec().requester == requester) entry.exec->abandon("its requester is gone");
  }
}

bool Execs::has(const ProcId& requester) const {
  const auto found = execs_.lower_bound({requester.key(), 0});
  return found != execs_.end() && found->first.first == requester.key();
}

std::optional<ProcId> Execs::on_undeliverable(std::uint64_t requester) {
  std::optional<ProcId> known;
  for (const auto& [key, entry] : execs_) {
    if (key.first != requester) continue;
    known = entry.exec->spec().requester;
    entry.exec->resend();
  }
  return known;
}

void Execs::on_up() {
  for (const auto& [key, entry] : execs_) entry.exec->resend();
}

}  // namespace meshbus::host
