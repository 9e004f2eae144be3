#include "tests/integration/needs.h"

#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "agent/os/cgroup.h"
#include "agent/os/cgroup_end.h"
#include "agent/os/cgroup_placement.h"
#include "agent/os/limit_places.h"
#include "agent/os/spawner.h"
#include "common/base/unique_fd.h"
#include "tests/support/environment.h"
#include "tests/support/process.h"

namespace meshbus::test {
namespace {

std::string why_no_core_file() {
  std::ifstream file("/proc/sys/kernel/core_pattern");
  std::string pattern;
  std::getline(file, pattern);
  return pattern.empty() || pattern[0] == '|' || pattern[0] == '/'
             ? "core_pattern is '" + pattern + "'"
             : "";
}

std::string why_no_pid_namespace() {
  auto spawner = os::Spawner::make();
  return spawner && spawner->probe_pid_namespace() == 0 ? "" : "no pid namespace can be made";
}

std::string why_not_root() {
  return ::geteuid() == 0 ? "" : "not root";
}

std::string why_no_real_time() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2)
    return "one CPU";
  Process child({"sleep", "30"});
  const sched_param least{.sched_priority = 1};
  return ::sched_setscheduler(child.pid(), SCHED_FIFO, &least) == 0 ? ""
                                                                    : "no leave to use SCHED_FIFO";
}

std::string why_no_cgroup2() {
  if (auto reason = why_not_root(); !reason.empty()) return reason;
  const auto view = os::view_cgroups();
  const bool has = view && os::has_word(std::filesystem::path(view->own).parent_path() /
                                            "cgroup.subtree_control",
                                        "memory");
  return has ? "" : "no controllers in cgroup v2 (./dev soak cgroup2 has them)";
}

std::string why_no_own_cgroup() {
  const auto place = os::plan_cgroup_placement();
  if (place.base.empty()) return place.problem;
  const auto made = os::make_host_cgroup(place.base, "needs-" + std::to_string(::getpid()));
  if (!made) return made.error().detail();
  return os::remove_cgroup_tree(*made) ? "" : "cannot remove " + *made;
}

std::string why_no_v1_memory() {
  const auto own = os::find_v1_cgroup("memory");
  if (!own) return "none is mounted";
  const std::string path = *own + "/meshbus-needs-" + std::to_string(::getpid());
  return ::mkdir(path.c_str(), 0755) == 0 && ::rmdir(path.c_str()) == 0 ? ""
                                                                        : path + " cannot be made";
}

std::string why_no_read_only_cgroups() {
  const auto tried =
      run({"unshare", "-m", "sh", "-c", make_cgroups_read_only}, std::chrono::seconds(30));
  return tried.status == ExitStatus::exited(0)
             ? ""
             : "unshare -m and remounting them do not work: " + tried.err;
}

std::string why_no_limits(const os::GroupLimits& limits) {
  const auto checked = os::LimitPlaces::find("test", os::plan_cgroup_placement()).check(limits);
  return checked ? "" : checked.error().detail();
}

std::string why_no_program(const std::string& program) {
  const auto tried =
      run({"sh", "-c", "command -v \"$1\"", "sh", program}, std::chrono::seconds(30));
  return tried.status == ExitStatus::exited(0) ? "" : program + " is not there";
}

std::string why_no_module(const std::string& module) {
  const auto tried = run(
      {"/usr/bin/python3", "-c",
       "import importlib.util, sys; sys.exit(importlib.util.find_spec('" + module + "') is None)"},
      std::chrono::seconds(30));
  return tried.status == ExitStatus::exited(0) ? "" : "no Python module " + module;
}

std::string why_no_pmix() {
  const auto folder = std::filesystem::path(bin("meshbus")).parent_path();
  return std::filesystem::exists(folder / "meshbus-mpi-pmix")
             ? ""
             : "meshbus-mpi-pmix was built without libpmix";
}

std::string why_no_stacks() {
  const auto folder = std::filesystem::path(bin("meshbus")).parent_path();
  if (!std::filesystem::exists(folder / "meshbus-stacks"))
    return "meshbus-stacks was built without libdw";
  std::string scope = "0";
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  return ::geteuid() == 0 || scope == "0" ? "" : "kernel.yama.ptrace_scope is " + scope;
}

std::string why_no_hwloc() {
  const auto folder = std::filesystem::path(bin("meshbus")).parent_path();
  return std::filesystem::exists(folder / "meshbus-topology")
             ? ""
             : "meshbus-topology was built without hwloc";
}

std::string why_no_two_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool has_both = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 &&
                        CPU_ISSET(0, &allowed) && CPU_ISSET(1, &allowed);
  return has_both ? why_no_hwloc() : "CPUs 0 and 1 may not both be used";
}

std::string why_no_open_mpi() {
  const auto reason = why_no_pmix();
  return reason.empty() ? why_no_program("mpicc.openmpi") : reason;
}

std::string why_no_mpi4py() {
  const auto reason = why_no_pmix();
  return reason.empty() ? why_no_module("mpi4py") : reason;
}

std::string why_no_ipv6() {
  const UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 own{};
  own.sin6_family = AF_INET6;
  own.sin6_addr = in6addr_loopback;
  return fd && ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0
             ? ""
             : "this machine has no ::1";
}

/// A need, and what says why it cannot be met here ("" when it can).
using Need = std::pair<const char*, std::string (*)()>;
const Need kNeeds[] = {
    {need::core_file, why_no_core_file},
    {need::pid_namespace, why_no_pid_namespace},
    {need::cgroup2, why_no_cgroup2},
    {need::own_cgroup, why_no_own_cgroup},
    {need::v1_memory, why_no_v1_memory},
    {need::read_only_cgroups, why_no_read_only_cgroups},
    {need::memory_limit, [] { return why_no_limits({.memory = 64 << 20}); }},
    {need::pids_limit, [] { return why_no_limits({.pids = 20}); }},
    {need::cpu_limit, [] { return why_no_limits({.cpu_milli = 200}); }},
    {need::all_limits,
     [] { return why_no_limits({.memory = 64 << 20, .pids = 64, .cpu_milli = 1000}); }},
    {need::ipv6, why_no_ipv6},
    {need::real_time, why_no_real_time},
    {need::mpich, [] { return why_no_program("mpicc.mpich"); }},
    {need::open_mpi, why_no_open_mpi},
    {need::mpi4py, why_no_mpi4py},
    {need::torch, [] { return why_no_module("torch"); }},
    {need::stacks, why_no_stacks},
    {need::hwloc, why_no_hwloc},
    {need::two_cpus, why_no_two_cpus},
    {need::promtool, [] { return why_no_program("promtool"); }},
    {need::chromedriver, [] { return why_no_program("chromedriver"); }},
    {need::root, why_not_root}};

}  // namespace

std::vector<std::pair<std::string, std::string>> unmet_needs() {
  std::vector<std::pair<std::string, std::string>> unmet;
  for (const auto& [name, why_not] : kNeeds) {
    if (auto reason = why_not(); !reason.empty()) unmet.emplace_back(name, std::move(reason));
  }
  return unmet;
}

bool is_met(std::string_view need) {
  const auto found = std::find_if(std::begin(kNeeds), std::end(kNeeds),
                                  [&](const Need& one) { return one.first == need; });
  return found != std::end(kNeeds) && found->second().empty();
}

std::vector<std::string> containments() {
  std::vector<std::string> names{"auto", "sweep"};
  if (is_met(need::pid_namespace)) names.emplace_back("pidns");
  return names;
}

}  // namespace meshbus::test
