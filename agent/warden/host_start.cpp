// How a host comes up: signals, run directory, containment, the three roles.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "agent/os/cgroup.h"
#include "agent/os/packet.h"
#include "agent/os/process_table.h"
#include "agent/os/sweep.h"
#include "agent/warden/exit_codes.h"
#include "agent/warden/host_process.h"
#include "common/base/os_error.h"
#include "common/base/standard_streams.h"

namespace meshbus::warden {

namespace {

std::optional<Containment> containment_from_environment(std::string& bad) {
  const char* text = std::getenv("MESHBUS_CONTAINMENT");
  if (text == nullptr || *text == '\0') return std::nullopt;
  const std::string_view value(text);
  if (value == "auto") return Containment::automatic;
  if (value == "cgroup") return Containment::cgroup;
  if (value == "pidns") return Containment::pid_namespace;
  if (value == "sweep") return Containment::sweep;
  bad = value;
  return std::nullopt;
}

}  // namespace

// Children that this process had before it became a host, when it was exec'ed by a shell with jobs, say: not ours to end.
void HostProcess::note_strangers() {
  if (const auto children = os::list_children()) {
    strangers_.insert(children->begin(), children->end());
    return;
  }
  for (const pid_t pid : os::list_pids()) {
    const auto entry = os::read_process(pid);
    if (entry && entry->parent == ::getpid()) strangers_.insert(pid);
  }
}

tl::expected<void, HostProcess::StartFailure> HostProcess::set_up() {
  const auto failed = [](int code, std::string why) { return tl::unexpected(StartFailure{code, std::move(why)}); };
  fill_standard_streams();
  note_strangers();
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) return failed(exit_os_error, os_error("prctl(PR_SET_CHILD_SUBREAPER)"));
  ::signal(SIGPIPE, SIG_IGN);  // who reads our output may die before us
  struct sigaction by_default{};
  by_default.sa_handler = SIG_DFL;
  by_default.sa_flags = SA_NOCLDSTOP;
  ::sigaction(SIGCHLD, &by_default, nullptr);  // not ignored: the kernel would reap for us
  sigset_t handled;
  sigemptyset(&handled);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&handled, signal);
  if (::sigprocmask(SIG_SETMASK, &handled, nullptr) != 0) return failed(exit_os_error, os_error("sigprocmask"));
  signals_ = UniqueFd(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return failed(exit_os_error, os_error("signalfd"));
  for (const int fd : {ready_fd_.get(), launcher_.get()}) {
    if (fd >= 0 && ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
      return failed(exit_os_error, "descriptor " + std::to_string(fd) + ": " + std::strerror(errno));
  }
  if (launcher_ && ::fcntl(launcher_.get(), F_SETFL, ::fcntl(launcher_.get(), F_GETFL) | O_NONBLOCK) != 0) {
    return failed(exit_os_error, os_error("fcntl of the launcher's lifeline"));
  }
  if (libexec_.empty()) {
    std::error_code error;
    libexec_ = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
    if (error) return failed(exit_os_error, "cannot find our own directory: /proc/self/exe: " + error.message());
  }
  auto spawner = os::Spawner::make();
  if (!spawner) return failed(exit_os_error, spawner.error().detail());
  spawner_.emplace(std::move(*spawner));
  auto secret = make_secret();
  if (!secret) return failed(exit_os_error, secret.error().detail());
  secret_ = std::move(*secret);
  // In memory only: there are environments in it. They outlive every agent, and go with us.
  ledger_ = UniqueFd(::memfd_create("meshbus-ledger", MFD_CLOEXEC));
  spool_ = UniqueFd(::memfd_create("meshbus-spool", MFD_CLOEXEC));
  if (!ledger_ || !spool_) return failed(exit_os_error, os_error("memfd_create for what one agent leaves to the next"));

  const auto base = prepare_base_dir(options_.run_dir);
  if (!base) return failed(exit_config, base.error().detail());
  if (const int cleaned = clean_stale_hosts(*base); cleaned != 0) {
    say("cleaned up after " + std::to_string(cleaned) + (cleaned == 1 ? " host" : " hosts") + " that had been killed as a whole");
  }
  auto directory = make_host_dir(*base);
  if (!directory) return failed(exit_os_error, directory.error().detail());
  directory_ = std::move(*directory);
  for (const auto& [path, text] : options_.key_files) {
    if (auto written = write_host_file(*directory_, "keys/" + path, text); !written) return failed(exit_os_file, written.error().detail());
  }
  const auto socket = socket_address(*directory_);
  if (!socket) return failed(exit_config, socket.error().detail());
  local_ = *socket;
  binds_ = options_.binds;
  address_ = !options_.advertise.empty() ? options_.advertise : binds_.empty() ? local_ : binds_.front();
  mark_ = os::make_mark();
  place_ = os::plan_host_place();
  limits_ = os::LimitPlaces::find(directory_->name, place_);
  // Before any of them is made.
  const std::string cgroup = place_.base.empty() ? "" : place_.base + "/meshbus-" + directory_->name;
  if (auto recorded = record_host(*directory_, cgroup, mark_, limits_.directories(), place_.base); !recorded)
    return failed(exit_os_error, recorded.error().detail());
  limits_.claim_v2(place_);
  return choose_containment();
}

tl::expected<void, HostProcess::StartFailure> HostProcess::choose_containment() {
  Containment wanted = options_.containment;
  if (wanted == Containment::automatic) {
    std::string bad;
    wanted = containment_from_environment(bad).value_or(Containment::automatic);
    if (!bad.empty())
      return tl::unexpected(StartFailure{exit_config, "MESHBUS_CONTAINMENT='" + bad + "': expected auto, cgroup, pidns or sweep"});
  }
  if (wanted == Containment::sweep) return {};
  if (wanted == Containment::pid_namespace) {
    if (const int error = spawner_->probe_pid_namespace(); error != 0) {
      return tl::unexpected(StartFailure{
          exit_unavailable, "containment pidns was asked for, but no pid namespace can be made here: " + std::string(std::strerror(error)) +
                                " (it needs CAP_SYS_ADMIN); containment sweep needs nothing"});
    }
    pid_namespace_ = true;
    return {};
  }
  auto made = place_.base.empty() ? fail(ErrorCode::not_exist, place_.problem) : os::make_host_cgroup(place_.base, directory_->name);
  if (made) {
    cgroup_ = std::move(*made);
    return {};
  }
  if (wanted == Containment::automatic) {
    containment_reason_ = "cgroup v2 cannot be used here: " + made.error().detail();
    return {};
  }
  return tl::unexpected(StartFailure{exit_unavailable, "containment cgroup was asked for, but cgroup v2 cannot be used here: " +
                                                           made.error().detail() + "; containment sweep needs nothing"});
}

std::string HostProcess::containment() const {
  return pid_namespace_ ? "pid namespace" : cgroup_.empty() ? "sweep" : "cgroup v2";
}

// It goes with the run directory, unless there is one for logs.
std::string HostProcess::events_path() const {
  return options_.events_directory.empty() ? directory_->path + "/events" : options_.events_directory + "/events-" + directory_->name;
}

// v1: the keeper itself is put under the limit, so everything below it is, too. v2: all procs are born in the host's cgroup.
Result<void> HostProcess::limit_pids() {
  if (options_.pids_limit == 0) return {};
  const os::LimitPlace& place = limits_.at(os::Controller::pids);
  Result<void> limited;
  if (place.version == 0) limited = fail(ErrorCode::not_exist, place.path);
  if (place.version == 1) {
    auto made = os::make_pids_cgroup(place.path, options_.pids_limit);
    if (made) {
      pids_join_ = std::move(*made);
    } else {
      limited = fail(made.error());
    }
  }
  if (place.version == 2) limited = os::limit_pids(place.path, options_.pids_limit);
  if (limited) {
    pids_limit_ = options_.pids_limit;
    return {};
  }
  pids_reason_ = limited.error().detail();
  if (!options_.pids_limit_is_needed) return {};
  return fail(ErrorCode::configuration_error,
              "pids.limit=" + std::to_string(options_.pids_limit) + " cannot be had here: " + pids_reason_ + "; pids.limit=0 does without");
}

std::vector<std::string> HostProcess::limit_directories() const {
  auto directories = limits_.directories();
  std::erase(directories, cgroup_);
  return directories;
}

void HostProcess::add_limits(RoleStart& start) const {
  for (const os::Controller controller : os::controllers)
    start.arguments.insert(start.arguments.end(), {"--limit", limits_.to_text(controller)});
}

void HostProcess::add_settings(RoleStart& start) const {
  for (const std::string& setting : options_.settings) {
    start.arguments.push_back("--set");
    start.arguments.push_back(setting);
  }
  if (options_.key_files.empty()) return;
  const std::string keys = directory_->path + "/keys";
  start.arguments.insert(start.arguments.end(), {"--set", "keys.directory=" + keys, "--set", "keys.own=" + keys + "/own.key"});
}

Result<void> HostProcess::start_keeper() {
  auto pair = os::make_packet_pair();
  if (!pair) return fail(pair.error());
  agents_keeper_fd_ = std::move(pair->first);
  RoleStart start;
  start.program = libexec_ / "meshbus-keeper";
  start.arguments = {"--agent-fd",    std::to_string(pair->second.get()),
                     "--run-dir",     directory_->path,
                     "--containment", pid_namespace_ ? "pidns" : cgroup_.empty() ? "sweep" : "cgroup",
                     "--mark",        std::to_string(mark_),
                     "--lock-fd",     std::to_string(directory_->lock.get())};
  if (!cgroup_.empty()) start.arguments.insert(start.arguments.end(), {"--cgroup", cgroup_});
  add_limits(start);
  start.inherit = {pair->second.get(), directory_->lock.get()};
  if (pids_join_) start.joins = {pids_join_.get()};
  // It must outlive us to sweep, and hears of our end by its lifeline; in a pid namespace its own end is the sweep, also when it is frozen.
  start.death_signal = pid_namespace_ ? SIGKILL : 0;
  start.new_pid_namespace = pid_namespace_;
  auto started = start_role(keeper_, start, *spawner_);
  pids_join_.reset();
  return started;
}

// They hold nothing that the keeper does not clean up. With a cgroup they do that, too, in case that it is dead as well.
void HostProcess::end_with_us(RoleStart& start) const {
  start.death_signal = cgroup_.empty() ? SIGKILL : SIGCONT;
  if (!cgroup_.empty()) start.arguments.insert(start.arguments.end(), {"--cgroup", cgroup_});
}

Result<void> HostProcess::start_broker() {
  RoleStart start;
  start.program = libexec_ / "meshbus-broker";
  start.arguments = {"--secret-fd", std::to_string(secret_.get()),
                     "--advertise", address_,
                     "--bind",      local_,
                     "--monitor",   "unix:" + directory_->path + "/monitor",
                     "--tap",       "unix:" + directory_->path + "/tap"};
  for (const std::string& bind : binds_) start.arguments.insert(start.arguments.end(), {"--bind", bind});
  if (options_.insecure) start.arguments.push_back("--insecure");
  add_settings(start);
  start.inherit = {secret_.get()};
  end_with_us(start);
  return start_role(broker_, start, *spawner_);
}

Result<void> HostProcess::start_agent() {
  RoleStart start;
  start.program = libexec_ / "meshbus-agent";
  start.arguments = {"--secret-fd",   std::to_string(secret_.get()),
                     "--keeper-fd",   std::to_string(agents_keeper_fd_.get()),
                     "--host",        address_,
                     "--broker",      local_,
                     "--containment", containment(),
                     "--events",      events_path()};
  add_limits(start);
  add_settings(start);
  start.arguments.insert(start.arguments.end(), {"--ledger-fd", std::to_string(ledger_.get()), "--spool-fd", std::to_string(spool_.get())});
  start.inherit = {secret_.get(), agents_keeper_fd_.get(), ledger_.get(), spool_.get()};
  end_with_us(start);
  auto started = start_role(agent_, start, *spawner_);
  agents_keeper_fd_.reset();  // else the keeper would not notice the agent's end
  return started;
}

Result<void> HostProcess::restart_agent() {
  auto pair = os::make_packet_pair();
  if (!pair) return fail(pair.error());
  if (!keeper_.lifeline.send("agent", pair->second.get())) return fail(ErrorCode::io_error, "the keeper takes no new agent");
  agents_keeper_fd_ = std::move(pair->first);
  return start_agent();
}

}  // namespace meshbus::warden
