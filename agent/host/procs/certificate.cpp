#include "agent/host/procs/certificate.h"

#include <csignal>
#include <cstring>

namespace meshbus::host {

std::string signal_name(int signal) {
  if (const char* name = sigabbrev_np(signal); name != nullptr) return std::string("SIG") + name;
  if (signal >= SIGRTMIN && signal <= SIGRTMAX) return "SIGRTMIN+" + std::to_string(signal - SIGRTMIN);
  return "signal " + std::to_string(signal);
}

std::string describe_end(const ProcEnd& end, std::uint64_t sent_signals) {
  if (!end.signaled) return "exit " + std::to_string(end.code);
  std::string text = "killed by " + signal_name(end.code);
  if (end.core_dumped) text += " (core dumped)";
  const bool ours = end.code >= 0 && end.code < 64 && (sent_signals >> end.code & 1) != 0;
  if (end.code == SIGKILL && !ours) text += " from outside, possibly out of memory";
  return text;
}

std::string describe_spawn_failure(const keeper::SpawnFailure& failure, std::string_view program, std::string_view host) {
  using Stage = keeper::SpawnStage;
  const bool is_exec = failure.stage == Stage::lookup || failure.stage == Stage::exec || failure.stage == Stage::interpreter;
  std::string text = is_exec ? "cannot execute '" : "cannot start '";
  text += is_exec && !failure.file.empty() ? failure.file : std::string(program);
  text += "': ";
  if (failure.stage == Stage::working_directory) {
    text += "cannot enter directory '" + failure.file + "': ";
  } else if (!is_exec && !failure.file.empty()) {
    text += failure.file + ": ";
  }
  text += failure.error != 0 ? std::strerror(failure.error) : "not possible";
  text += " (step: ";
  text += keeper::to_string(failure.stage);
  text += ") on host ";
  return text.append(host);
}

}  // namespace meshbus::host
