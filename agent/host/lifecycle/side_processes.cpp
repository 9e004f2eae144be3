#include "agent/host/lifecycle/side_processes.h"

#include <csignal>
#include <utility>

#include "common/base/log.h"
#include "common/security/token.h"

namespace meshbus::host {

Result<std::uint64_t> SideProcesses::start(os::SpawnSpec shared, os::ProcSpec process,
                                           Events events) {
  // By chance, so that it is none of another agent, which the keeper may still know.
  const std::uint64_t id = random_u64() | std::uint64_t{1} << 63U;
  process.id = id;
  os::SpawnBatch batch;
  batch.shared = std::move(shared);
  batch.procs.push_back(std::move(process));
  if (auto sent = keeper_.spawn(std::move(batch)); !sent) return fail(sent.error());
  known_.emplace(id, std::move(events));
  return id;
}

void SideProcesses::signal(std::uint64_t id, int signal) {
  const auto sent = keeper_.signal({.id = id, .signal = signal, .group = true});
  if (!sent) log::debug("a signal: " + sent.error().to_string());
}

void SideProcesses::drop(std::uint64_t id) {
  known_.erase(id);
  signal(id, SIGKILL);
}

SideProcesses::Events* SideProcesses::find(std::uint64_t id) {
  const auto found = known_.find(id);
  return found == known_.end() ? nullptr : &found->second;
}

void SideProcesses::on_birth(keeper::Birth birth) {
  const auto id = birth.id;
  const bool has_failed = birth.failure.has_value();
  Events* const events = find(id);
  if (events == nullptr && !has_failed) signal(id, SIGKILL);
  // A copy: what is called may drop it.
  if (events != nullptr) {
    const auto call = events->on_birth;
    call(std::move(birth));
  }
  if (!has_failed) return;
  known_.erase(id);
  keeper_.forget({id});
}

void SideProcesses::on_exit(const keeper::Exit& exit) {
  Events* const events = find(exit.id);
  if (events == nullptr) return;
  const auto call = events->on_exit;
  call(exit);
}

void SideProcesses::on_gone(const keeper::Gone& gone) {
  keeper_.forget({gone.id});
  const auto found = known_.extract(gone.id);
  if (!found.empty()) found.mapped().on_gone();
}

}  // namespace meshbus::host
