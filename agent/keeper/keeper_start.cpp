// How the keeper starts a process, for one proc or for several, and in which cgroup.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

#include "agent/keeper/keeper.h"
#include "agent/os/host_place.h"

namespace meshbus::keeper {

namespace {

using namespace std::chrono_literals;

std::vector<Birth> failed_births(const std::vector<std::uint64_t>& ids, const os::SpawnFailure& failure) {
  std::vector<Birth> births(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    births[i].id = ids[i];
    births[i].failure = failure;
  }
  return births;
}

// A process of which nobody is to hear.
void end_unheard(pid_t pid) {
  ::kill(-pid, SIGKILL);
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | __WALL);
}

// Pipes of a proc that has not those of its process.
bool make_streams(Birth& birth, SharedProcess::Member& member) {
  const auto make_pipe = [](UniqueFd& ours, UniqueFd& its) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    ours.reset(ends[0]);
    its.reset(ends[1]);
    return ::fcntl(ours.get(), F_SETFL, O_NONBLOCK) == 0;
  };
  return make_pipe(birth.stdout_pipe, member.out) && make_pipe(birth.stderr_pipe, member.err);
}

}  // namespace

void Keeper::start_one(Queued queued) {
  const std::string& mesh = queued.prepared->spec().mesh;
  std::vector<std::uint64_t> ids;
  for (const os::ProcSpec& proc : queued.procs) ids.push_back(proc.id);
  for (const auto id : ids) queued_.erase(id);
  UniqueFd pidfd;
  std::unique_ptr<SharedProcess> shared;
  std::vector<Birth> births = start_process(queued, pidfd, shared);
  const pid_t pid = births.front().pid;
  const auto is_kept = [this](const Birth& birth) { return replay_registry_.add(birth); };
  if (!births.front().failure &&
      (!std::all_of(births.begin(), births.end(), is_kept) ||
       !watch(pidfd.get(), EPOLL_CTL_ADD, EPOLLIN, static_cast<std::uint64_t>(pid)) ||
       (shared && !watch(shared->fd(), EPOLL_CTL_ADD, EPOLLIN, link_sources + static_cast<std::uint64_t>(pid))))) {
    // No descriptors for the pipes that the next agent would need, or an exit that nobody would hear of: out of memory, or the user's
    // limit of epoll watches.
    const int error = errno;
    end_unheard(pid);
    births = failed_births(ids, {os::SpawnStage::descriptors, error, "watching the process"});
  }
  if (births.front().failure) {
    limits_.remove(ids.front());
    for (const Birth& birth : births) replay_registry_.add(birth);
    leave_mesh(mesh);
  } else {
    procs_.emplace(pid, Proc{ids.front(), std::move(pidfd), mesh, 0, std::move(shared)});
    for (const auto id : ids) pids_.emplace(id, pid);
  }
  for (Birth& birth : births) report(std::move(birth));
}

// One birth for each of its procs: all of them, or no process and failures.
std::vector<Birth> Keeper::start_process(Queued& queued, UniqueFd& pidfd, std::unique_ptr<SharedProcess>& shared) {
  std::vector<std::uint64_t> ids;
  for (const os::ProcSpec& proc : queued.procs) ids.push_back(proc.id);
  const auto cgroup = cgroup_of(queued.prepared->spec().mesh);
  if (!cgroup) return failed_births(ids, {os::SpawnStage::cgroup, 0, cgroup.error().detail()});
  std::vector<Birth> births(queued.procs.size());
  std::vector<SharedProcess::Member> members(queued.shares ? queued.procs.size() : 0);
  for (std::size_t i = 0; i < members.size(); ++i) {
    const os::ProcSpec& proc = queued.procs[i];
    members[i].id = births[i].id = proc.id;
    members[i].place = proc.place;
    if (i > 0 && !make_streams(births[i], members[i])) return failed_births(ids, {os::SpawnStage::descriptors, errno, "pipe"});
  }
  UniqueFd link;
  if (queued.shares) {
    auto made = SharedProcess::make();
    if (!made) return failed_births(ids, {os::SpawnStage::descriptors, errno, "socketpair"});
    shared = std::make_unique<SharedProcess>(std::move(made->first));
    link = std::move(made->second);
  }
  auto started = start(*queued.prepared, std::move(queued.procs.front()), std::move(link), *cgroup);
  if (started.birth.failure) return failed_births(ids, *started.birth.failure);
  pidfd = std::move(started.pidfd);
  births.front() = std::move(started.birth);
  for (std::size_t i = 1; i < births.size(); ++i) {
    births[i].pid = births.front().pid;
    births[i].pidfd = UniqueFd(::fcntl(pidfd.get(), F_DUPFD_CLOEXEC, 3));
    births[i].spawned_realtime_ns = births.front().spawned_realtime_ns;
    births[i].started_realtime_ns = births.front().started_realtime_ns;
    births[i].started_monotonic_ns = births.front().started_monotonic_ns;
  }
  if (shared && !shared->start(std::move(members))) {
    const int error = errno;
    end_unheard(births.front().pid);
    return failed_births(ids, {os::SpawnStage::descriptors, error, "telling the process its procs"});
  }
  return births;
}

ProcStarter::Started Keeper::start(const PreparedSpec& prepared, os::ProcSpec proc, UniqueFd link, const os::Cgroup* mesh_cgroup) {
  const os::GroupLimits& limits = prepared.spec().settings.group;
  const os::Cgroup* const home = mesh_cgroup != nullptr ? mesh_cgroup : birthplace_.get();
  const int cgroup = home == nullptr ? -1 : home->fd();
  if (!limits.any()) return starter_->start(prepared, std::move(proc), cgroup, {}, std::move(link));
  const auto groups = limits_.make(proc.id, limits, mesh_cgroup == nullptr ? std::string() : mesh_cgroup->path());
  if (groups)
    return starter_->start(prepared, std::move(proc), groups->birthplace ? groups->birthplace.get() : cgroup, groups->joins,
                           std::move(link));
  ProcStarter::Started failed;
  failed.birth.id = proc.id;
  failed.birth.failure = groups.error();
  return failed;
}

Result<const os::Cgroup*> Keeper::cgroup_of(const std::string& mesh) {
  Mesh& known = meshes_[mesh];
  ++known.procs;
  if (cgroup_.empty()) return nullptr;
  if (!known.cgroup) {
    auto made = os::Cgroup::make(cgroup_, os::cgroup_name_of_mesh(mesh));
    if (!made) return fail(made.error());
    known.cgroup = std::make_unique<os::Cgroup>(std::move(*made));
  }
  return known.cgroup.get();
}

void Keeper::leave_mesh(const std::string& mesh) {
  const auto known = meshes_.find(mesh);
  if (known == meshes_.end() || --known->second.procs > 0) return;
  if (known->second.cgroup) {
    const std::string path = known->second.cgroup->path();
    // Everybody in it was a descendant and is dead; whoever was moved in from elsewhere goes too.
    if (!os::remove_cgroup_tree(path)) {
      os::kill_cgroup(path);
      os::empty_cgroup(path, 20ms);
      os::remove_cgroup_tree(path);
    }
  }
  meshes_.erase(known);
}

}  // namespace meshbus::keeper
