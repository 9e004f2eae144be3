#include "agent/keeper/process_starter.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#include <string>
#include <utility>

#include "common/base/clock_ns.h"

namespace meshbus::keeper {

namespace {

// Pipes of a proc that does not use those of its process.
bool make_streams(Birth& birth, SharedProcess::Member& member) {
  const auto make_pipe = [](UniqueFd& ours, UniqueFd& theirs) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    ours.reset(ends[0]);
    theirs.reset(ends[1]);
    return ::fcntl(ours.get(), F_SETFL, O_NONBLOCK) == 0;
  };
  return make_pipe(birth.stdout_pipe, member.out) && make_pipe(birth.stderr_pipe, member.err);
}

}  // namespace

std::vector<Birth> failed_births(const std::vector<std::uint64_t>& ids,
                                 const os::SpawnFailure& failure) {
  std::vector<Birth> births(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    births[i].id = ids[i];
    births[i].failure = failure;
  }
  return births;
}

void end_unreported(pid_t pid) {
  ::kill(-pid, SIGKILL);
  ::kill(pid, SIGKILL);  // a copy of a template has no group of its own yet
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | __WALL);
}

ProcessStarter::Outcome ProcessStarter::start(QueuedProcess& queued) {
  std::vector<std::uint64_t> ids;
  for (const os::ProcSpec& proc : queued.procs) ids.push_back(proc.id);
  const auto failed = [&](os::SpawnStage stage, int error, std::string file) {
    return Outcome{failed_births(ids, {stage, error, std::move(file)}), {}, {}};
  };
  if (const auto joined = cgroups_.join(queued.prepared->spec().mesh); !joined)
    return failed(os::SpawnStage::cgroup, 0, joined.error().detail());
  Outcome outcome;
  std::vector<Birth>& births = outcome.births;
  births.resize(ids.size());
  std::vector<SharedProcess::Member> members(queued.is_shared ? ids.size() : 0);
  for (std::size_t i = 0; i < members.size(); ++i) {
    members[i].id = births[i].id = ids[i];
    members[i].place = queued.procs[i].place;
    if (i > 0 && !make_streams(births[i], members[i]))
      return failed(os::SpawnStage::descriptors, errno, "pipe");
  }
  UniqueFd link;
  if (queued.is_shared) {
    auto made = SharedProcess::make();
    if (!made) return failed(os::SpawnStage::descriptors, errno, "socketpair");
    outcome.shared = std::make_unique<SharedProcess>(std::move(made->first));
    link = std::move(made->second);
  }
  auto started = start_first(*queued.prepared, std::move(queued.procs.front()), std::move(link));
  if (started.birth.failure) return Outcome{failed_births(ids, *started.birth.failure), {}, {}};
  outcome.pidfd = std::move(started.pidfd);
  births.front() = std::move(started.birth);
  const Birth& first = births.front();
  for (std::size_t i = 1; i < births.size(); ++i) {
    births[i].pid = first.pid;
    births[i].pidfd = UniqueFd(::fcntl(outcome.pidfd.get(), F_DUPFD_CLOEXEC, 3));
    births[i].spawned_realtime_ns = first.spawned_realtime_ns;
    births[i].started_realtime_ns = first.started_realtime_ns;
    births[i].started_monotonic_ns = first.started_monotonic_ns;
  }
  if (outcome.shared && !outcome.shared->start(std::move(members))) {
    const int error = errno;
    end_unreported(first.pid);
    return failed(os::SpawnStage::descriptors, error, "telling the process its procs");
  }
  return outcome;
}

ProcessStarter::Joining ProcessStarter::prepare_to_join(QueuedProcess& queued, pid_t pid,
                                                        int pidfd) {
  Joining joining{{}, {}, std::move(queued.procs.front().bootstrap)};
  for (const os::ProcSpec& proc : queued.procs) {
    Birth& birth = joining.births.emplace_back();
    SharedProcess::Member& member = joining.members.emplace_back();
    birth.id = member.id = proc.id;
    member.place = proc.place;
    if (!make_streams(birth, member)) {
      birth.failure = {os::SpawnStage::descriptors, errno, "pipe"};
      continue;
    }
    birth.pid = pid;
    birth.pidfd = UniqueFd(::fcntl(pidfd, F_DUPFD_CLOEXEC, 3));
    birth.spawned_realtime_ns = birth.started_realtime_ns = clock_ns(CLOCK_REALTIME);
    birth.started_monotonic_ns = clock_ns(CLOCK_MONOTONIC);
  }
  return joining;
}

ProcStarter::Started ProcessStarter::start_first(const PreparedSpec& prepared, os::ProcSpec proc,
                                                 UniqueFd link) {
  const os::SpawnSpec& spec = prepared.spec();
  const int cgroup = cgroups_.fd_for(spec.mesh);
  if (!spec.settings.group.any())
    return starter_.start(prepared, std::move(proc), cgroup, {}, std::move(link));
  const auto groups = cgroups_.make_groups(proc.id, spec);
  if (groups) {
    return starter_.start(prepared, std::move(proc), groups->cgroup ? groups->cgroup.get() : cgroup,
                          groups->joins, std::move(link));
  }
  ProcStarter::Started failed;
  failed.birth.id = proc.id;
  failed.birth.failure = groups.error();
  return failed;
}

tl::expected<ProcessStarter::Template, os::SpawnFailure> ProcessStarter::start_template(
    const PreparedSpec& prepared) {
  const std::string& mesh = prepared.spec().mesh;
  auto sockets = os::make_packet_pair();
  if (!sockets)
    return tl::unexpected(os::SpawnFailure{os::SpawnStage::descriptors, errno, "socketpair"});
  if (const auto joined = cgroups_.join(mesh); !joined) {
    cgroups_.leave(mesh);
    return tl::unexpected(os::SpawnFailure{os::SpawnStage::cgroup, 0, joined.error().detail()});
  }
  os::ProcSpec proc;
  proc.stdout_choice = proc.stderr_choice = os::Stdio::inherit;
  auto started = starter_.start(prepared, std::move(proc), cgroups_.fd_for(mesh), {},
                                std::move(sockets->second));
  if (started.birth.failure) {
    cgroups_.leave(mesh);
    return tl::unexpected(*started.birth.failure);
  }
  return Template{started.birth.pid, std::move(started.pidfd), std::move(sockets->first)};
}

tl::expected<ProcStarter::Copy, os::SpawnFailure> ProcessStarter::ask_for_copy(
    const QueuedProcess& queued, int link) {
  const PreparedSpec& prepared = *queued.prepared;
  const os::ProcSpec& proc = queued.procs.front();
  const int cgroup = cgroups_.fd_for(prepared.spec().mesh);
  if (!prepared.spec().settings.group.any())
    return starter_.ask_for_copy(prepared, proc, cgroup, {}, link);
  const auto groups = cgroups_.make_groups(proc.id, prepared.spec());
  if (!groups) return tl::unexpected(groups.error());
  auto copy = starter_.ask_for_copy(prepared, proc, groups->cgroup ? groups->cgroup.get() : cgroup,
                                    groups->joins, link);
  if (!copy) cgroups_.remove_groups(proc.id);
  return copy;
}

}  // namespace meshbus::keeper
