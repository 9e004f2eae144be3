#include "agent/warden/role_starter.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <system_error>
#include <utility>

#include "agent/os/daemon_protection.h"
#include "agent/os/packet.h"
#include "agent/warden/exit_codes.h"
#include "common/base/os_error.h"

namespace meshbus::warden {
namespace {

/// A broker has a few addresses. Others are bound anew when it is restarted.
constexpr std::size_t kMostListeners = 32;

/// The number of a socket, which no other one has.
ino_t inode_of(const UniqueFd& socket) {
  struct stat info{};
  return ::fstat(socket.get(), &info) == 0 ? info.st_ino : 0;
}

}  // namespace

Started RoleStarter::prepare() {
  const auto failed = [](std::string why) {
    return tl::unexpected(StartFailure{kExitOsError, std::move(why)});
  };
  libexec_ = options_.libexec;
  if (libexec_.empty()) {
    std::error_code error;
    libexec_ = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
    if (error) return failed("cannot find our own directory: /proc/self/exe: " + error.message());
  }
  auto spawner = os::Spawner::make();
  if (!spawner) return failed(spawner.error().detail());
  spawner_.emplace(std::move(*spawner));
  auto secret = make_secret();
  if (!secret) return failed(secret.error().detail());
  secret_ = std::move(*secret);
  // In memory only, because environments are in it. They outlive each agent, and go with us.
  ledger_ = UniqueFd(::memfd_create("meshbus-ledger", MFD_CLOEXEC));
  spool_ = UniqueFd(::memfd_create("meshbus-spool", MFD_CLOEXEC));
  if (!ledger_ || !spool_)
    return failed(os_error("memfd_create for what one agent leaves to the next"));
  procs_oom_score_ = os::lower_oom_score();
  return {};
}

void RoleStarter::choose_address() {
  binds_ = options_.binds;
  address_ = !options_.advertise.empty() ? options_.advertise
             : binds_.empty()            ? site_.socket()
                                         : binds_.front();
}

void RoleStarter::set_served_address(const std::string& address) {
  if (!binds_.empty() && binds_.front() == address_) binds_.front() = address;
  address_ = address;
  is_served_ = true;
}

void RoleStarter::add_limits(RoleStart& start) const {
  for (const os::Controller controller : os::kControllers)
    start.add({"--limit", site_.limits().to_text(controller)});
}

void RoleStarter::add_settings(RoleStart& start) const {
  for (const std::string& setting : options_.settings) start.add({"--set", setting});
  if (options_.key_files.empty()) return;
  const std::string keys = site_.directory().path + "/keys";
  start.add({"--set", "keys.directory=" + keys, "--set", "keys.own=" + keys + "/own.key"});
}

// Broker and agent end with us (os::arm_warden_end). With a cgroup they kill what is in it as well,
// in case the keeper is dead, too.
void RoleStarter::end_with_us(RoleStart& start) const {
  const std::string& cgroup = site_.cgroup();
  start.death_signal = SIGCONT;
  if (!cgroup.empty()) start.add({"--cgroup", cgroup});
}

Result<void> RoleStarter::start_keeper(Role& keeper) {
  auto pair = os::make_packet_pair();
  if (!pair) return fail(pair.error());
  agents_keeper_fd_ = std::move(pair->first);
  const HostDir& directory = site_.directory();
  const std::string& cgroup = site_.cgroup();
  const bool has_namespace = site_.has_pid_namespace();
  RoleStart start;
  start.program = libexec_ / "meshbus-keeper";
  start.add({"--agent-fd", std::to_string(pair->second.get())});
  start.add({"--run-dir", directory.path});
  start.add({"--containment", has_namespace ? "pidns" : cgroup.empty() ? "sweep" : "cgroup"});
  start.add({"--process-tag", std::to_string(site_.process_tag())});
  start.add({"--lock-fd", std::to_string(directory.lock.get())});
  if (!cgroup.empty()) start.add({"--cgroup", cgroup});
  if (procs_oom_score_) start.add({"--oom-score", std::to_string(*procs_oom_score_)});
  add_limits(start);
  start.inherit = {pair->second.get(), directory.lock.get()};
  const UniqueFd join = site_.take_pids_join();
  if (join) start.joins = {join.get()};
  // The keeper must outlive us to sweep, and learns of our end by its lifeline. In a pid namespace
  // its own end is the sweep, also when it is frozen.
  start.death_signal = has_namespace ? SIGKILL : 0;
  start.new_pid_namespace = has_namespace;
  return start_role(keeper, start, *spawner_);
}

Result<void> RoleStarter::start_broker(Role& broker) {
  const std::string& run_dir = site_.directory().path;
  RoleStart start;
  start.program = libexec_ / "meshbus-broker";
  start.add({"--secret-fd", std::to_string(secret_.get())});
  start.add({"--advertise", address_});
  start.add({"--bind", site_.socket()});
  if (!site_.procs_socket().empty()) start.add({"--bind-procs", site_.procs_socket()});
  start.add({"--monitor", "unix:" + run_dir + "/monitor"});
  start.add({"--tap", "unix:" + run_dir + "/tap"});
  start.add({"--audit", site_.audit_path()});
  for (const std::string& bind : binds_) start.add({"--bind", bind});
  if (options_.insecure) start.add({"--insecure"});
  if (!options_.broker_user.empty()) start.add({"--user", options_.broker_user});
  add_settings(start);
  start.inherit = {secret_.get()};
  for (const UniqueFd& listener : listeners_) {
    start.add({"--listener-fd", std::to_string(listener.get())});
    start.inherit.push_back(listener.get());
  }
  end_with_us(start);
  return start_role(broker, start, *spawner_);
}

void RoleStarter::keep_listener(UniqueFd listener) {
  if (!listener || listeners_.size() >= kMostListeners) return;
  // A broker that goes on with one gives it again.
  const auto is_same = [number = inode_of(listener)](const UniqueFd& kept) {
    return inode_of(kept) == number;
  };
  if (std::none_of(listeners_.begin(), listeners_.end(), is_same))
    listeners_.push_back(std::move(listener));
}

Result<void> RoleStarter::start_agent(Role& agent) {
  RoleStart start;
  start.program = libexec_ / "meshbus-agent";
  start.add({"--secret-fd", std::to_string(secret_.get())});
  start.add({"--keeper-fd", std::to_string(agents_keeper_fd_.get())});
  // Without it the agent waits until the broker serves, and hears the address then.
  if (is_served_) start.add({"--host", address_});
  start.add({"--broker", site_.socket()});
  start.add({"--containment", site_.containment()});
  start.add({"--events", site_.events_path()});
  start.add({"--progress", site_.directory().path + "/progress"});
  add_limits(start);
  add_settings(start);
  start.add({"--ledger-fd", std::to_string(ledger_.get())});
  start.add({"--spool-fd", std::to_string(spool_.get())});
  start.inherit = {secret_.get(), agents_keeper_fd_.get(), ledger_.get(), spool_.get()};
  end_with_us(start);
  auto started = start_role(agent, start, *spawner_);
  agents_keeper_fd_.reset();  // else the keeper would not notice the agent's end
  return started;
}

Result<void> RoleStarter::start_exporter(Role& exporter) {
  RoleStart start;
  start.program = libexec_ / "meshbus-exporter";
  start.add({"--listen-fd", std::to_string(options_.metrics_fd)});
  start.add({"--listen", options_.metrics_address});
  start.add({"--host", address_});
  start.add({"--broker", site_.socket()});
  start.add({"--monitor", "unix:" + site_.directory().path + "/monitor"});
  if (procs_oom_score_) start.add({"--oom-score", std::to_string(*procs_oom_score_)});
  add_settings(start);
  start.inherit = {options_.metrics_fd};
  start.death_signal = SIGKILL;
  return start_role(exporter, start, *spawner_);
}

Result<void> RoleStarter::restart_agent(Role& agent, const Role& keeper) {
  auto pair = os::make_packet_pair();
  if (!pair) return fail(pair.error());
  if (!keeper.lifeline.send("agent", pair->second.get()))
    return fail(ErrorCode::io_error, "the keeper takes no new agent");
  agents_keeper_fd_ = std::move(pair->first);
  return start_agent(agent);
}

}  // namespace meshbus::warden
