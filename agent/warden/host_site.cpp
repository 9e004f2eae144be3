#include "agent/warden/host_site.h"

#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "agent/os/cgroup.h"
#include "agent/os/mpi_directory.h"
#include "agent/os/run_directory.h"
#include "agent/os/sweep.h"
#include "agent/warden/exit_codes.h"

namespace meshbus::warden {

namespace {

using namespace std::chrono_literals;

Started failed(int exit_code, std::string why) {
  return tl::unexpected(StartFailure{exit_code, std::move(why)});
}

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

/// The name of a host's audit trail in logs.directory. A host that is started again at its address
/// goes on with its trail; one without an address of its own has the name of its run directory.
std::string audit_name(const WardenOptions& options, const std::string& run_directory) {
  std::string name = options.advertise;
  if (name.empty() && !options.binds.empty()) name = options.binds.front();
  if (!name.starts_with("tcp:") || name.ends_with(":0")) return run_directory;
  for (char& one : name) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(one)) != 0;
    if (!is_plain && one != '.' && one != '-') one = '_';
  }
  return name;
}

}  // namespace

Started HostSite::prepare(const WardenOptions& options, os::Spawner& spawner, WardenLog& log) {
  const auto base = prepare_base_dir(options.run_dir);
  if (!base) return failed(kExitConfig, base.error().detail());
  if (const int cleaned = clean_stale_hosts(*base); cleaned != 0) {
    log.say("cleaned up after " + std::to_string(cleaned) + (cleaned == 1 ? " host" : " hosts") +
            " that had been killed as a whole");
  }
  auto directory = make_host_dir(*base);
  if (!directory) return failed(kExitOsError, directory.error().detail());
  directory_ = std::move(*directory);
  events_path_ = options.events_directory.empty()
                     ? directory_.path + "/events"
                     : options.events_directory + "/events-" + directory_.name;
  audit_path_ = options.events_directory.empty()
                    ? directory_.path + "/audit"
                    : options.events_directory + "/audit-" + audit_name(options, directory_.name);
  // In a folder that the broker can have for its own.
  if (!options.broker_user.empty()) audit_path_ += "/audit";
  log.set_event_log(events_path_);
  for (const auto& [path, text] : options.key_files) {
    if (auto written = write_host_file(directory_, "keys/" + path, text); !written)
      return failed(kExitOsFile, written.error().detail());
  }
  auto socket = socket_address(directory_);
  if (!socket) return failed(kExitConfig, socket.error().detail());
  socket_ = std::move(*socket);
  if (::geteuid() == 0) {
    auto procs_socket = make_bus_folder(directory_);
    if (!procs_socket) return failed(kExitOsFile, procs_socket.error().detail());
    procs_socket_ = std::move(*procs_socket);
  }
  process_tag_ = os::make_process_tag();
  place_ = os::plan_cgroup_placement();
  limits_ = os::LimitPlaces::find(directory_.name, place_);
  // Recorded before any of them is made, so that the next warden finds what a crash leaves.
  const std::string cgroup = place_.base.empty() ? "" : place_.base + "/meshbus-" + directory_.name;
  const auto recorded =
      record_host(directory_, cgroup, process_tag_, limits_.directories(), place_.base);
  if (!recorded) return failed(kExitOsError, recorded.error().detail());
  limits_.claim_v2(place_);
  return choose_containment(options.containment, spawner);
}

Started HostSite::choose_containment(Containment wanted, os::Spawner& spawner) {
  if (wanted == Containment::automatic) {
    std::string bad;
    wanted = containment_from_environment(bad).value_or(Containment::automatic);
    if (!bad.empty())
      return failed(kExitConfig,
                    "MESHBUS_CONTAINMENT='" + bad + "': expected auto, cgroup, pidns or sweep");
  }
  if (wanted == Containment::sweep) return {};
  if (wanted == Containment::pid_namespace) {
    if (const int error = spawner.probe_pid_namespace(); error != 0) {
      return failed(kExitUnavailable,
                    "containment pidns was asked for, but no pid namespace can be made here: " +
                        std::string(std::strerror(error)) +
                        " (it needs CAP_SYS_ADMIN); containment sweep needs nothing");
    }
    has_pid_namespace_ = true;
    return {};
  }
  auto made = place_.base.empty() ? fail(ErrorCode::not_exist, place_.problem)
                                  : os::make_host_cgroup(place_.base, directory_.name);
  if (made) {
    cgroup_ = std::move(*made);
    return {};
  }
  if (wanted == Containment::automatic) {
    containment_reason_ = "cgroup v2 cannot be used here: " + made.error().detail();
    return {};
  }
  return failed(kExitUnavailable,
                "containment cgroup was asked for, but cgroup v2 cannot be used here: " +
                    made.error().detail() + "; containment sweep needs nothing");
}

std::string HostSite::containment() const {
  return has_pid_namespace_ ? "pid namespace" : cgroup_.empty() ? "sweep" : "cgroup v2";
}

Result<void> HostSite::limit_pids(std::uint64_t limit, bool is_needed) {
  if (limit == 0) return {};
  const os::LimitPlace& place = limits_.at(os::Controller::pids);
  Result<void> limited;
  if (place.version == 0) limited = fail(ErrorCode::not_exist, place.path);
  if (place.version == 1) {
    auto made = os::make_pids_cgroup(place.path, limit);
    if (made) {
      pids_join_ = std::move(*made);
    } else {
      limited = fail(made.error());
    }
  }
  if (place.version == 2) limited = os::limit_pids(place.path, limit);
  if (limited) {
    pids_limit_ = limit;
    return {};
  }
  pids_reason_ = limited.error().detail();
  if (!is_needed) return {};
  return fail(ErrorCode::configuration_error, "pids.limit=" + std::to_string(limit) +
                                                  " cannot be had here: " + pids_reason_ +
                                                  "; pids.limit=0 does without");
}

std::vector<std::string> HostSite::limit_directories() const {
  auto directories = limits_.directories();
  std::erase(directories, cgroup_);
  return directories;
}

void HostSite::kill_contained() const {
  if (!cgroup_.empty()) os::kill_cgroup(cgroup_);
}

void HostSite::remove(const WardenLog& log) const {
  const auto complain = [&](const std::string& path) {
    log.say("cannot remove " + path + ": " + std::strerror(errno));
  };
  if (!cgroup_.empty()) {
    os::empty_cgroup(cgroup_, 500ms);
    if (!os::remove_cgroup_tree(cgroup_)) complain(cgroup_);
  }
  for (const std::string& directory : limit_directories()) {
    if (!os::clear_cgroup_tree(directory, 500ms)) complain(directory);
  }
  os::MpiDirectory::remove_left();
  os::leave_roles_leaf(50ms);
  if (!place_.base.empty()) os::clear_roles_leaf(place_.base);
  if (is_prepared()) os::remove_run_directory(directory_.path, 100ms);
}

}  // namespace meshbus::warden
