#include "agent/keeper/proc_table.h"

namespace meshbus::keeper {

void ProcTable::add(pid_t pid, Process process, const std::vector<std::uint64_t>& procs) {
  processes_.emplace(pid, std::move(process));
  for (const auto id : procs) pids_.emplace(id, pid);
}

ProcTable::Process* ProcTable::find(pid_t pid) {
  const auto known = processes_.find(pid);
  return known == processes_.end() ? nullptr : &known->second;
}

pid_t ProcTable::find_pid(std::uint64_t id) const {
  const auto known = pids_.find(id);
  return known == pids_.end() ? -1 : known->second;
}

const ProcTable::Dead& ProcTable::bury(pid_t pid) {
  const auto known = processes_.find(pid);
  Process& process = known->second;
  Dead dead{process.first, {}, std::move(process.mesh)};
  if (process.shared) {
    for (const auto& member : process.shared->living()) dead.procs.push_back(member.id);
  } else if (!process.is_template) {
    dead.procs.push_back(process.first);
  }
  for (const auto id : dead.procs) pids_.erase(id);
  processes_.erase(known);
  return dead_.emplace_back(std::move(dead));
}

}  // namespace meshbus::keeper
