#include "agent/keeper/births.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

namespace meshbus::keeper {

bool Births::enter(ProcessStarter::Outcome outcome, const std::string& mesh) {
  auto& [births, pidfd, shared] = outcome;
  std::vector<std::uint64_t> ids;
  for (const Birth& birth : births) ids.push_back(birth.id);
  const pid_t pid = births.front().pid;
  const auto source = static_cast<std::uint64_t>(pid);
  const auto keep = [this](const Birth& birth) { return agent_.keep(birth); };
  if (!births.front().failure &&
      (!std::all_of(births.begin(), births.end(), keep) || !events_.add(pidfd.get(), source) ||
       (shared && !events_.add(shared->fd(), kLinkSources + source)))) {
    // No descriptors for the pipes that the next agent would need, or an exit that we would not
    // notice: out of memory, or at the user's limit of epoll watches.
    const int error = errno;
    end_unreported(pid);
    births = failed_births(ids, {os::SpawnStage::descriptors, error, "watching the process"});
  }
  const bool is_running = !births.front().failure;
  if (is_running) {
    table_.add(pid, {ids.front(), std::move(pidfd), mesh, 0, std::move(shared)}, ids);
  } else {
    cgroups_.remove_groups(ids.front());
    for (const Birth& birth : births) agent_.keep(birth);
    cgroups_.leave(mesh);
  }
  for (Birth& birth : births) agent_.report(std::move(birth));
  return is_running;
}

void Births::join(ProcessStarter::Joining joining, ProcTable::Process& process) {
  for (std::size_t i = 0; i < joining.births.size(); ++i) {
    Birth& birth = joining.births[i];
    const auto id = birth.id;
    const pid_t pid = birth.pid;
    if (!birth.failure &&
        (!agent_.keep(birth) ||
         !process.shared->join(std::move(joining.members[i]), joining.bootstrap.get()))) {
      const int error = errno;
      birth = {};
      birth.id = id;
      birth.failure = {os::SpawnStage::descriptors, error, "telling the process its procs"};
    }
    if (birth.failure) {
      agent_.keep(birth);
    } else {
      table_.add_proc(pid, id);
    }
    agent_.report(std::move(birth));
  }
}

void Births::refuse(std::uint64_t id, os::SpawnFailure failure) {
  Birth birth;
  birth.id = id;
  birth.failure = std::move(failure);
  agent_.keep(birth);
  agent_.report(std::move(birth));
}

}  // namespace meshbus::keeper
