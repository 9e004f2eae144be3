#include "agent/keeper/proc_starter.h"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>

#include "agent/keeper/program_lookup.h"
#include "agent/os/packet.h"
#include "agent/os/template_link.h"
#include "common/base/clock_ns.h"
#include "common/base/number_list.h"

namespace meshbus::keeper {

namespace {

constexpr std::string_view kBootstrapKey = "MESHBUS_BOOTSTRAP";
// The number under which a proc finds its bootstrap descriptor: out of the way of what shells use
// (3..20, 255).
constexpr int kPreferredBootstrapTarget = 100;
// The bootstrap's number where other descriptors go below it. Under that they could get numbers
// that are still in use here.
constexpr int kLeastTargetOfSeveral = 32;

bool is_other_user(const os::ProcSettings& settings) {
  return settings.uid || settings.gid || !settings.groups.empty();
}

std::string_view key_of(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

// The limits are set before the descriptor moves to its number: a proc with a small limit of open
// files gets a small number.
int find_bootstrap_target(const std::vector<os::ChildPlan::Limit>& limits) {
  int target = kPreferredBootstrapTarget;
  for (const os::ChildPlan::Limit& limit : limits) {
    if (limit.resource != RLIMIT_NOFILE) continue;
    target = limit.soft > kPreferredBootstrapTarget ? kPreferredBootstrapTarget
                                                    : static_cast<int>(limit.soft) - 1;
  }
  return target > 3 ? target : 3;
}

/// CPUs or NUMA nodes as bits.
template <std::uint32_t Bits>
class BitSet {
 public:
  explicit BitSet(const std::vector<std::uint32_t>& numbers) {
    for (const std::uint32_t number : numbers)
      words_[number / kWordBits] |= 1UL << number % kWordBits;
  }
  const unsigned long* data() const noexcept { return words_.data(); }

 private:
  static constexpr std::uint32_t kWordBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, Bits / kWordBits> words_{};
};

// Which file a failed step was about.
os::SpawnFailure name_file(os::SpawnFailure failure, const os::SpawnSpec& spec,
                           const os::Placement& placement, const std::string& program) {
  if (failure.stage == os::SpawnStage::affinity)
    failure.file =
        "CPUs " + number_list(placement.cpus.empty() ? spec.settings.cpus : placement.cpus);
  if (failure.stage == os::SpawnStage::memory_policy)
    failure.file = "memory of NUMA nodes " + number_list(placement.memory_nodes);
  if (failure.stage == os::SpawnStage::working_directory) failure.file = spec.cwd;
  if (failure.stage == os::SpawnStage::credentials) {
    const auto name = [](const char* what, const std::optional<std::uint32_t>& id) {
      return id ? std::string(what) + " " + std::to_string(*id) + " " : std::string();
    };
    failure.file = name("user", spec.settings.uid) + name("group", spec.settings.gid) + "with " +
                   std::to_string(spec.settings.groups.size()) + " further groups";
  }
  if (failure.stage == os::SpawnStage::cgroup && spec.settings.group.any())
    failure.file = "joining the cgroups of its limits";
  if (failure.stage == os::SpawnStage::nice)
    failure.file = "nice " + std::to_string(spec.settings.nice.value_or(0));
  if (failure.stage != os::SpawnStage::exec) return failure;
  failure.file = program;
  if (const auto interpreter = find_bad_interpreter(program, spec.cwd, failure.error)) {
    failure.stage = os::SpawnStage::interpreter;
    failure.file = program + ": interpreter " + *interpreter;
  }
  return failure;
}

}  // namespace

PreparedSpec::PreparedSpec(os::SpawnSpec spec) : spec_(std::move(spec)) {
  if (spec_.argv.empty()) spec_.argv.push_back(spec_.program);
  for (const std::string& text : spec_.argv) argv_.push_back(text.c_str());
  argv_.push_back(nullptr);
  for (const std::string& text : spec_.env) {
    const std::string_view key = key_of(text);
    if (key == kBootstrapKey) continue;  // one of another life: ours only
    const auto [known, is_new] = env_index_.emplace(key, env_.size());
    if (is_new) {
      env_.push_back(text.c_str());
    } else {
      env_[known->second] = text.c_str();
    }
  }
}

Result<ProcStarter> ProcStarter::make(Inheritance inheritance, UniqueFd bus_folder) {
  auto spawner = os::Spawner::make();
  if (!spawner) return fail(spawner.error());
  // Everything opened later gets a number of 3 or more: the recipe counts on it.
  UniqueFd null;
  do {
    null = UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!null)
      return fail(ErrorCode::io_error, std::string("open /dev/null: ") + std::strerror(errno));
  } while (null.get() < 3 && null.release() >= 0);
  auto slots = ChildSlots::make(null.get());
  if (!slots) return fail(slots.error());
  return ProcStarter(std::move(*spawner), std::move(null), std::move(*slots), inheritance,
                     std::move(bus_folder));
}

ProcStarter::Started ProcStarter::start(const PreparedSpec& prepared, os::ProcSpec proc, int cgroup,
                                        const std::vector<UniqueFd>& joins, UniqueFd link) {
  Started started;
  started.birth.id = proc.id;
  auto done = start_into(started, prepared, proc, cgroup, joins, std::move(link));
  slots_.take_back();
  if (!done) {
    started = {};
    started.birth.id = proc.id;
    started.birth.failure = std::move(done.error());
  }
  return started;
}

std::vector<os::ChildPlan::Limit> ProcStarter::limits_of(const os::SpawnSpec& spec) const {
  std::vector<os::ChildPlan::Limit> limits;
  const std::uint64_t tag = inheritance_.process_tag;
  const std::uint64_t nofile = inheritance_.nofile;
  if (tag != 0) limits.push_back({RLIMIT_RTTIME, tag, tag});
  rlimit own{};
  if (nofile != 0 && ::getrlimit(RLIMIT_NOFILE, &own) == 0) {
    limits.push_back({RLIMIT_NOFILE, nofile < own.rlim_max ? nofile : own.rlim_max, own.rlim_max});
  }
  for (const os::ResourceLimit& limit : spec.settings.limits)
    limits.push_back({limit.resource, limit.soft, limit.hard});
  return limits;
}

// The shared entries, each replaced by the proc's own of the same key, and what the proc has beyond
// them. `path` is PATH as the command sees it; returns whether that is the shared one.
bool ProcStarter::merge_environment(const PreparedSpec& prepared, const os::ProcSpec& proc,
                                    std::vector<const char*>& env,
                                    std::optional<std::string_view>& path) const {
  constexpr std::string_view path_key = "PATH";
  env = prepared.env_;
  bool path_is_shared = true;
  if (const auto known = prepared.env_index_.find(path_key); known != prepared.env_index_.end())
    path = env[known->second];
  for (const std::string& text : proc.env) {
    const std::string_view key = key_of(text);
    if (key == kBootstrapKey) continue;
    if (key == path_key) {
      path = text;
      path_is_shared = false;
    }
    const auto known = prepared.env_index_.find(key);
    if (known != prepared.env_index_.end()) {
      env[known->second] = text.c_str();
    } else {
      env.push_back(text.c_str());
    }
  }
  if (path) path->remove_prefix(std::min(path->size(), path_key.size() + 1));
  return path_is_shared;
}

tl::expected<std::string, os::SpawnFailure> ProcStarter::find_program_of(
    const PreparedSpec& prepared, std::optional<std::string_view> path, bool path_is_shared) const {
  if (path_is_shared && prepared.found_program_) return *prepared.found_program_;
  auto found = find_program(prepared.spec_.program, path, prepared.spec_.cwd);
  if (found && path_is_shared) prepared.found_program_ = *found;
  return found;
}

// What 0, 1 and 2 become in the child, and our ends of the pipes. Returns 0 or an errno.
int ProcStarter::make_streams(const os::ProcSpec& proc, os::ChildPlan& plan, Birth& birth) {
  const os::Stdio choices[3] = {proc.stdin_choice, proc.stdout_choice, proc.stderr_choice};
  UniqueFd* const ours[3] = {&birth.stdin_pipe, &birth.stdout_pipe, &birth.stderr_pipe};
  for (std::size_t i = 0; i < 3; ++i) {
    if (choices[i] == os::Stdio::inherit) continue;
    if (choices[i] == os::Stdio::null) {
      plan.descriptors.stdio[i] = slots_.null_slot(i);
      continue;
    }
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return errno;
    UniqueFd child(i == 0 ? ends[0] : ends[1]);
    *ours[i] = UniqueFd(i == 0 ? ends[1] : ends[0]);
    // The flag belongs to this end's open file alone: the child's end keeps blocking.
    if (::fcntl(ours[i]->get(), F_SETFL, O_NONBLOCK) != 0) return errno;
    plan.descriptors.stdio[i] = slots_.lend(i, std::move(child));
    if (plan.descriptors.stdio[i] < 0) return errno;
  }
  return 0;
}

tl::expected<void, os::SpawnFailure> ProcStarter::lend_bus_folder(const os::ProcSettings& settings,
                                                                  os::ChildPlan& plan,
                                                                  std::string& suffix) {
  if (!bus_folder_ || !is_other_user(settings)) return {};
  const auto failed = [](int error, const char* what) {
    return tl::unexpected(os::SpawnFailure{os::SpawnStage::descriptors, error, what});
  };
  if (plan.bootstrap.target < kLeastTargetOfSeveral)
    return failed(EMFILE, "its limit of open files, for a mesh proc of another user");
  if (plan.bootstrap.link < 0) suffix += ":-1";
  plan.bootstrap.bus_folder_target = plan.bootstrap.target - 2;
  suffix += ":" + std::to_string(plan.bootstrap.bus_folder_target);
  UniqueFd folder(::fcntl(bus_folder_.get(), F_DUPFD_CLOEXEC, 3));
  if (!folder) return failed(errno, "folder of the bus");
  plan.bootstrap.bus_folder = slots_.lend(ChildSlots::kBusFolder, std::move(folder));
  if (plan.bootstrap.bus_folder < 0) return failed(errno, "folder of the bus");
  return {};
}

// NOLINTNEXTLINE(readability-function-size): one attempt, step by step, each with its own failure
tl::expected<void, os::SpawnFailure> ProcStarter::start_into(Started& started,
                                                             const PreparedSpec& prepared,
                                                             os::ProcSpec& proc, int cgroup,
                                                             const std::vector<UniqueFd>& joins,
                                                             UniqueFd link) {
  const auto failed = [](os::SpawnStage stage, int error, std::string file) {
    return tl::unexpected(os::SpawnFailure{stage, error, std::move(file)});
  };
  const os::SpawnSpec& spec = prepared.spec_;
  Birth& birth = started.birth;
  os::ChildPlan plan;
  const auto limits = limits_of(spec);
  std::vector<const char*> env;
  std::optional<std::string_view> path;
  const bool path_is_shared = merge_environment(prepared, proc, env, path);
  const auto program = find_program_of(prepared, path, path_is_shared);
  if (!program) return tl::unexpected(program.error());
  if (const int error = make_streams(proc, plan, birth); error != 0)
    return failed(os::SpawnStage::descriptors, error, "pipe");

  std::string bootstrap_entry;
  std::string bootstrap_suffix;
  if (proc.bootstrap) {
    struct stat status{};
    if (::fstat(proc.bootstrap.get(), &status) != 0)
      return failed(os::SpawnStage::descriptors, errno, "bootstrap descriptor");
    plan.bootstrap.target = find_bootstrap_target(limits);
    bootstrap_entry =
        std::string(kBootstrapKey) + "=" + std::to_string(plan.bootstrap.target) + ":";
    bootstrap_suffix = ":" + std::to_string(status.st_ino);
    if (link) {
      // With fewer no process of several procs gets far.
      if (plan.bootstrap.target < kLeastTargetOfSeveral)
        return failed(os::SpawnStage::descriptors, EMFILE,
                      "its limit of open files, for a process of several procs");
      plan.bootstrap.link_target = plan.bootstrap.target - 1;
      bootstrap_suffix += ":" + std::to_string(plan.bootstrap.link_target);
      plan.bootstrap.link = slots_.lend(ChildSlots::kLink, std::move(link));
      if (plan.bootstrap.link < 0)
        return failed(os::SpawnStage::descriptors, errno, "socket of several procs");
    }
    if (auto lent = lend_bus_folder(spec.settings, plan, bootstrap_suffix); !lent)
      return tl::unexpected(std::move(lent.error()));
    const std::size_t text_at = bootstrap_entry.size();
    bootstrap_entry.resize(text_at + 11 + bootstrap_suffix.size());
    plan.bootstrap.fd = slots_.lend(ChildSlots::kBootstrap, std::move(proc.bootstrap));
    if (plan.bootstrap.fd < 0)
      return failed(os::SpawnStage::descriptors, errno, "bootstrap descriptor");
    plan.bootstrap.text = bootstrap_entry.data() + text_at;
    plan.bootstrap.suffix = bootstrap_suffix.c_str();
    env.push_back(bootstrap_entry.c_str());
  } else if (link) {
    plan.bootstrap.link_target = find_bootstrap_target(limits);
    bootstrap_entry = std::string(os::template_link::kVariable) + "=" +
                      std::to_string(plan.bootstrap.link_target);
    plan.bootstrap.link = slots_.lend(ChildSlots::kLink, std::move(link));
    if (plan.bootstrap.link < 0)
      return failed(os::SpawnStage::descriptors, errno, "socket of a template");
    env.push_back(bootstrap_entry.c_str());
  }
  env.push_back(nullptr);

  plan.command.path = program->c_str();
  plan.command.argv = prepared.argv_.data();
  plan.command.envp = env.data();
  plan.command.cwd = spec.cwd.empty() ? nullptr : spec.cwd.c_str();
  const os::ProcSettings& settings = spec.settings;
  plan.ties.new_session = settings.new_session;
  plan.ties.subreaper = settings.subreaper;
  plan.limits.has_nice = settings.nice.has_value();
  plan.limits.nice = settings.nice.value_or(0);
  plan.command.umask = settings.umask ? static_cast<int>(*settings.umask) : -1;
  const auto& cpus = proc.placement.cpus.empty() ? settings.cpus : proc.placement.cpus;
  const BitSet<os::kMaxCpus> cpu_mask(cpus);
  if (!cpus.empty()) {
    plan.limits.cpu_mask = cpu_mask.data();
    plan.limits.cpu_mask_bytes = os::kMaxCpus / 8;
  }
  const BitSet<os::kMaxMemoryNodes> memory_nodes(proc.placement.memory_nodes);
  if (proc.placement.memory != os::Placement::Memory::as_is) {
    const bool is_only = proc.placement.memory == os::Placement::Memory::only;
    plan.limits.memory_mode = is_only ? MPOL_BIND : MPOL_PREFERRED;
    plan.limits.memory_nodes = memory_nodes.data();
    // The kernel takes one bit less than it is told.
    plan.limits.memory_node_bits = os::kMaxMemoryNodes + 1;
  }
  plan.credentials.uid = settings.uid ? std::int64_t{*settings.uid} : -1;
  plan.credentials.gid = settings.gid ? std::int64_t{*settings.gid} : -1;
  plan.credentials.has_groups = settings.uid || settings.gid || !settings.groups.empty();
  plan.credentials.groups = settings.groups.data();
  plan.credentials.group_count = settings.groups.size();
  plan.ties.parent_death_signal = spec.parent_death_signal;
  plan.credentials.no_new_privs = settings.no_new_privs;
  if (!oom_score_.empty()) {
    plan.limits.oom_score = oom_score_.data();
    plan.limits.oom_score_bytes = oom_score_.size();
  }
  plan.limits.each = limits.data();
  plan.limits.count = limits.size();
  plan.descriptors.first_foreign_fd = slots_.first_foreign_fd();
  std::vector<int> join_fds;
  for (const UniqueFd& join : joins) join_fds.push_back(join.get());
  plan.cgroups.joins = join_fds.data();
  plan.cgroups.join_count = join_fds.size();
  birth.spawned_realtime_ns = clock_ns(CLOCK_REALTIME);
  auto child = spawner_.run(plan, cgroup);
  if (!child) return tl::unexpected(name_file(child.error(), spec, proc.placement, *program));
  birth.pid = child->pid;
  birth.started_realtime_ns = clock_ns(CLOCK_REALTIME);
  birth.started_monotonic_ns = clock_ns(CLOCK_MONOTONIC);
  started.pidfd = std::move(child->pidfd);
  // Out of descriptors for the agent's copy: the proc lives all the same, and its exit comes from
  // us.
  birth.pidfd = UniqueFd(::fcntl(started.pidfd.get(), F_DUPFD_CLOEXEC, 3));
  return {};
}

tl::expected<ProcStarter::Copy, os::SpawnFailure> ProcStarter::ask_for_copy(
    const PreparedSpec& prepared, const os::ProcSpec& proc, int cgroup,
    const std::vector<UniqueFd>& joins, int link) {
  Copy copy;
  copy.birth.id = proc.id;
  auto asked = ask_into(copy, prepared, proc, cgroup, joins, link);
  slots_.take_back();
  if (!asked) return tl::unexpected(std::move(asked.error()));
  return copy;
}

tl::expected<void, os::SpawnFailure> ProcStarter::ask_into(Copy& copy, const PreparedSpec& prepared,
                                                           const os::ProcSpec& proc, int cgroup,
                                                           const std::vector<UniqueFd>& joins,
                                                           int link) {
  namespace tell = os::template_link;
  const auto failed = [](const char* what) {
    return tl::unexpected(os::SpawnFailure{os::SpawnStage::descriptors, errno, what});
  };
  std::vector<const char*> env;
  std::optional<std::string_view> path;
  merge_environment(prepared, proc, env, path);
  std::string variables;
  for (const char* each : env) variables.append(each).push_back('\0');
  UniqueFd memory(::memfd_create("meshbus-environment", MFD_CLOEXEC));
  if (!memory || ::ftruncate(memory.get(), static_cast<off_t>(variables.size())) != 0 ||
      ::pwrite(memory.get(), variables.data(), variables.size(), 0) !=
          static_cast<ssize_t>(variables.size()))
    return failed("memory for an environment");
  int go[2] = {-1, -1};
  if (::pipe2(go, O_CLOEXEC) != 0) return failed("pipe");
  os::Packet packet;
  packet.fds.push_back(std::move(memory));
  packet.fds.emplace_back(go[0]);
  copy.go.reset(go[1]);
  os::ChildPlan plan;
  if (const int error = make_streams(proc, plan, copy.birth); error != 0) return failed("pipe");

  tell::Request request;
  bool is_complete = true;
  const auto pass = [&](int fd) {
    packet.fds.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
    is_complete = is_complete && packet.fds.back();
  };
  for (unsigned i = 0; i < 3; ++i) {
    if (plan.descriptors.stdio[i] < 0) continue;
    request.has |= tell::has_stdin << i;
    pass(plan.descriptors.stdio[i]);
  }
  if (proc.bootstrap) {
    request.has |= tell::has_bootstrap;
    pass(proc.bootstrap.get());
  }
  const os::ProcSettings& settings = prepared.spec_.settings;
  UniqueFd own_join;
  if (cgroup >= 0 && (settings.uid || settings.gid)) {
    // Another user may not be born into it, but may write into what we have opened.
    own_join = UniqueFd(::openat(cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC));
    if (!own_join) return failed("cgroup.procs");
  } else if (cgroup >= 0) {
    request.has |= tell::has_cgroup;
    pass(cgroup);
  }
  if (bus_folder_ && is_other_user(settings)) {
    request.has |= tell::has_bus_folder;
    pass(bus_folder_.get());
  }
  for (const UniqueFd& join : joins) pass(join.get());
  if (own_join) pass(own_join.get());
  if (!is_complete) return failed("descriptors for a copy");
  request.joins = static_cast<std::uint32_t>(joins.size()) + (own_join ? 1 : 0);
  request.parent_death_signal = prepared.spec_.parent_death_signal;
  request.new_session = settings.new_session ? 1 : 0;
  request.subreaper = settings.subreaper ? 1 : 0;
  packet.bytes.resize(sizeof request);
  std::memcpy(packet.bytes.data(), &request, sizeof request);
  copy.birth.spawned_realtime_ns = clock_ns(CLOCK_REALTIME);
  os::send_packet(link, packet);
  return {};
}

}  // namespace meshbus::keeper
