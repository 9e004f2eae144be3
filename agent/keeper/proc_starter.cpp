#include "agent/keeper/proc_starter.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>

#include "agent/keeper/program_lookup.h"

namespace meshbus::keeper {

namespace {

constexpr std::string_view bootstrap_key = "MESHBUS_BOOTSTRAP";
// The number under which a proc finds its bootstrap descriptor: out of the way of what shells use (3..20, 255).
constexpr int preferred_bootstrap_target = 100;

std::string_view key_of(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

std::int64_t now_ns(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// The two ends of the standard streams of one proc: `child` becomes 0, 1, 2; `ours` goes to the agent.
struct Streams {
  UniqueFd child[3];
  UniqueFd ours[3];
};

int make_stream(Stdio choice, int stream, int null, int& source, UniqueFd& child, UniqueFd& ours) {
  if (choice == Stdio::inherit) return 0;
  if (choice == Stdio::null) {
    source = null;
    return 0;
  }
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno;
  child = UniqueFd(stream == 0 ? ends[0] : ends[1]);
  ours = UniqueFd(stream == 0 ? ends[1] : ends[0]);
  // The flag belongs to this end's open file alone: the child's end keeps blocking.
  if (::fcntl(ours.get(), F_SETFL, O_NONBLOCK) != 0) return errno;
  source = child.get();
  return 0;
}

// The limits are set before the descriptor moves to its number: a proc with a small limit of open files gets a small number.
int find_bootstrap_target(const std::vector<ChildPlan::Limit>& limits) {
  int target = preferred_bootstrap_target;
  for (const ChildPlan::Limit& limit : limits) {
    if (limit.resource != RLIMIT_NOFILE) continue;
    target = limit.soft > preferred_bootstrap_target ? preferred_bootstrap_target : static_cast<int>(limit.soft) - 1;
  }
  return target > 3 ? target : 3;
}

}  // namespace

PreparedSpec::PreparedSpec(SpawnSpec spec) : spec_(std::move(spec)) {
  if (spec_.argv.empty()) spec_.argv.push_back(spec_.program);
  for (const std::string& text : spec_.argv) argv_.push_back(text.c_str());
  argv_.push_back(nullptr);
  for (const std::string& text : spec_.env) {
    const std::string_view key = key_of(text);
    if (key == bootstrap_key) continue;  // one of another life: ours only
    const auto [known, is_new] = env_index_.emplace(key, env_.size());
    if (is_new) {
      env_.push_back(text.c_str());
    } else {
      env_[known->second] = text.c_str();
    }
  }
}

Result<ProcStarter> ProcStarter::make(std::uint64_t mark, std::uint64_t nofile) {
  auto spawner = Spawner::make();
  if (!spawner) return fail(spawner.error());
  // Everything opened later gets a number of 3 or more: the recipe counts on it.
  for (;;) {
    const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0) return fail(ErrorCode::io_error, std::string("open /dev/null: ") + std::strerror(errno));
    if (fd >= 3) return ProcStarter(std::move(*spawner), UniqueFd(fd), mark, nofile);
  }
}

ProcStarter::Started ProcStarter::start(const PreparedSpec& prepared, ProcSpec proc, int cgroup) {
  Started started;
  started.birth.id = proc.id;
  if (auto done = start_into(started, prepared, proc, cgroup); !done) {
    started = {};
    started.birth.id = proc.id;
    started.birth.failure = std::move(done.error());
  }
  return started;
}

tl::expected<void, SpawnFailure> ProcStarter::start_into(Started& started, const PreparedSpec& prepared, ProcSpec& proc, int cgroup) {
  const auto failed = [](SpawnStage stage, int error, std::string file = {}) {
    return tl::unexpected(SpawnFailure{stage, error, std::move(file)});
  };
  const SpawnSpec& spec = prepared.spec_;

  std::vector<ChildPlan::Limit> limits;
  if (mark_ != 0) limits.push_back({RLIMIT_RTTIME, mark_, mark_});
  if (nofile_ != 0) {
    rlimit own{};
    if (::getrlimit(RLIMIT_NOFILE, &own) == 0)
      limits.push_back({RLIMIT_NOFILE, nofile_ < own.rlim_max ? nofile_ : own.rlim_max, own.rlim_max});
  }
  for (const ResourceLimit& limit : spec.limits) limits.push_back({limit.resource, limit.soft, limit.hard});

  // Environment: shared, overridden by the proc's own, and the bootstrap variable last.
  std::vector<const char*> env = prepared.env_;
  std::string_view path_entry;
  for (const std::string& text : proc.env) {
    const std::string_view key = key_of(text);
    if (key == bootstrap_key) continue;
    if (key == "PATH") path_entry = text;
    const auto known = prepared.env_index_.find(key);
    if (known != prepared.env_index_.end()) {
      env[known->second] = text.c_str();
    } else {
      env.push_back(text.c_str());
    }
  }
  const bool has_own_path = !path_entry.empty();
  if (const auto known = prepared.env_index_.find("PATH"); !has_own_path && known != prepared.env_index_.end()) {
    path_entry = env[known->second];
  }
  ChildPlan plan;
  std::string bootstrap_entry;
  std::string bootstrap_suffix;
  if (proc.bootstrap) {
    struct stat status{};
    if (::fstat(proc.bootstrap.get(), &status) != 0) return failed(SpawnStage::descriptors, errno, "bootstrap descriptor");
    const int target = find_bootstrap_target(limits);
    bootstrap_entry = std::string(bootstrap_key) + "=" + std::to_string(target) + ":";
    bootstrap_suffix = ":" + std::to_string(status.st_ino);
    const std::size_t text_at = bootstrap_entry.size();
    bootstrap_entry.resize(text_at + 11 + bootstrap_suffix.size());
    plan.bootstrap = proc.bootstrap.get();
    plan.bootstrap_target = target;
    plan.bootstrap_text = bootstrap_entry.data() + text_at;
    plan.bootstrap_suffix = bootstrap_suffix.c_str();
    env.push_back(bootstrap_entry.c_str());
  }
  env.push_back(nullptr);

  std::optional<std::string_view> path;
  if (!path_entry.empty()) path = path_entry.substr(std::string_view("PATH=").size());
  tl::expected<std::string, SpawnFailure> program;
  if (prepared.found_program_ && !has_own_path) {
    program = *prepared.found_program_;
  } else {
    program = find_program(spec.program, path, spec.cwd);
    if (!program) return tl::unexpected(program.error());
    if (!has_own_path) prepared.found_program_ = *program;
  }

  Streams streams;
  const Stdio choices[3] = {proc.stdin_choice, proc.stdout_choice, proc.stderr_choice};
  for (int i = 0; i < 3; ++i) {
    const int error = make_stream(choices[i], i, null_.get(), plan.stdio[i], streams.child[i], streams.ours[i]);
    if (error != 0) return failed(SpawnStage::descriptors, error, "pipe");
  }

  plan.path = program->c_str();
  plan.argv = prepared.argv_.data();
  plan.envp = env.data();
  plan.cwd = spec.cwd.empty() ? nullptr : spec.cwd.c_str();
  plan.new_session = spec.new_session;
  plan.parent_death_signal = spec.parent_death_signal;
  plan.limits = limits.data();
  plan.limit_count = limits.size();

  auto child = spawner_.run(plan, cgroup);
  if (!child) {
    SpawnFailure failure = child.error();
    if (failure.stage == SpawnStage::working_directory) failure.file = spec.cwd;
    if (failure.stage == SpawnStage::exec) {
      failure.file = *program;
      if (const auto interpreter = find_bad_interpreter(*program, spec.cwd, failure.error)) {
        failure.stage = SpawnStage::interpreter;
        failure.file = *program + ": interpreter " + *interpreter;
      }
    }
    return tl::unexpected(std::move(failure));
  }
  Birth& birth = started.birth;
  birth.pid = child->pid;
  birth.started_realtime_ns = now_ns(CLOCK_REALTIME);
  birth.started_monotonic_ns = now_ns(CLOCK_MONOTONIC);
  birth.stdin_pipe = std::move(streams.ours[0]);
  birth.stdout_pipe = std::move(streams.ours[1]);
  birth.stderr_pipe = std::move(streams.ours[2]);
  started.pidfd = std::move(child->pidfd);
  // Out of descriptors for the agent's copy: the proc lives all the same, and its exit comes from us.
  birth.pidfd = UniqueFd(::fcntl(started.pidfd.get(), F_DUPFD_CLOEXEC, 3));
  return {};
}

}  // namespace meshbus::keeper
