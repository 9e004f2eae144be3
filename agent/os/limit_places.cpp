#include "agent/os/limit_places.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "agent/os/cgroup.h"
#include "agent/os/cgroup_placement.h"

namespace meshbus::os {

namespace {

using namespace std::chrono_literals;

constexpr const char* kAdvice =
    "; start the host in a cgroup of its own that is delegated with the controllers memory, pids "
    "and cpu (`systemd-run --user --scope -p "
    "Delegate=yes meshbus ...`; a service with Delegate=yes; the first process of a container with "
    "a cgroup namespace and a writable "
    "/sys/fs/cgroup), or as root, or do without this limit";

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<std::pair<unsigned, const char*>, 3> units{
      {{30, "GiB"}, {20, "MiB"}, {10, "KiB"}}};
  for (const auto& [shift, name] : units) {
    if (bytes >> shift != 0 && (bytes >> shift) << shift == bytes)
      return std::to_string(bytes >> shift) + name;
  }
  return std::to_string(bytes) + " bytes";
}

std::string cpus_text(std::uint32_t milli) {
  std::string text = std::to_string(milli / 1000);
  if (milli % 1000 == 0) return text;
  text += "." + std::to_string(1000 + milli % 1000).substr(1);
  return text.substr(0, text.find_last_not_of('0') + 1);
}

}  // namespace

std::string_view to_string(Controller controller) noexcept {
  switch (controller) {
    case Controller::memory: return "memory";
    case Controller::pids: return "pids";
    case Controller::cpu: return "cpu";
  }
  return "unknown";
}

std::string words_of(const GroupLimits& limits, Controller controller) {
  switch (controller) {
    case Controller::memory:
      return limits.memory == 0 ? "" : "limit of " + bytes_text(limits.memory) + " of memory";
    case Controller::pids:
      return limits.pids == 0 ? "" : "limit of " + std::to_string(limits.pids) + " processes";
    case Controller::cpu:
      return limits.cpu_milli == 0 ? "" : "limit of " + cpus_text(limits.cpu_milli) + " CPUs";
  }
  return {};
}

LimitPlaces LimitPlaces::find(const std::string& name, const CgroupPlacement& host) {
  LimitPlaces places;
  for (const Controller controller : kControllers) {
    const std::string word(to_string(controller));
    LimitPlace& place = places.at(controller);
    const bool is_in_v2 = !host.base.empty() && has_word(host.base + "/cgroup.controllers", word);
    if (is_in_v2 && host.problem.empty()) {
      place = {2, host.base + "/meshbus-" + name};
    } else if (const auto v1 = find_v1_cgroup(word)) {
      place = {1, *v1 + "/meshbus-" + name};
    } else if (is_in_v2) {
      place = {0, host.problem};
    } else {
      place = {0, "no hierarchy of cgroup v1 with the controller `" + word + "` is mounted, and " +
                      (host.base.empty()
                           ? host.problem
                           : "`" + word + "` is not in " + host.base + "/cgroup.controllers")};
    }
  }
  return places;
}

std::string LimitPlaces::v2_path() const {
  const auto* const found = std::find_if(
      places_.begin(), places_.end(), [](const LimitPlace& place) { return place.version == 2; });
  return found == places_.end() ? std::string() : found->path;
}

void LimitPlaces::claim_v2(const CgroupPlacement& host) {
  const std::string path = v2_path();
  if (path.empty()) return;
  auto made = enter_roles_leaf(host);
  if (made) made = make_limiting_cgroup(host, path);
  if (!made) leave_roles_leaf(0ms);
  for (const Controller controller : kControllers) {
    LimitPlace& place = at(controller);
    const std::string word(to_string(controller));
    if (place.version != 2 || (made && has_word(path + "/cgroup.subtree_control", word))) continue;
    place = {0, made ? "the kernel does not let `" + word + "` be used below " + path
                     : made.error().detail()};
  }
}

std::vector<std::string> LimitPlaces::directories() const {
  std::vector<std::string> found;
  for (const LimitPlace& place : places_) {
    if (place.version != 0 && std::find(found.begin(), found.end(), place.path) == found.end())
      found.push_back(place.path);
  }
  return found;
}

std::string LimitPlaces::to_text(Controller controller) const {
  const LimitPlace& place = at(controller);
  return std::string(to_string(controller)) + ":" + std::to_string(place.version) + ":" +
         place.path;
}

bool LimitPlaces::read_text(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos || text.size() < colon + 4 || text[colon + 2] != ':')
    return false;
  const char version = text[colon + 1];
  const auto* const known =
      std::find_if(kControllers.begin(), kControllers.end(),
                   [&](Controller one) { return to_string(one) == text.substr(0, colon); });
  if (known == kControllers.end() || version < '0' || version > '2') return false;
  at(*known) = {version - '0', std::string(text.substr(colon + 3))};
  return true;
}

Result<void> LimitPlaces::check(const GroupLimits& limits) const {
  for (const Controller controller : kControllers) {
    const std::string wanted = words_of(limits, controller);
    if (wanted.empty()) continue;
    const LimitPlace& place = at(controller);
    std::string why = place.path;
    if (place.version != 0) {
      const std::string parent = place.path.substr(0, place.path.rfind('/'));
      if (::access(parent.c_str(), W_OK) == 0) continue;
      why = "cannot make a cgroup in " + parent + ": " + std::strerror(errno);
    }
    return fail(ErrorCode::configuration_error,
                "a " + wanted + " cannot be kept here: " + why + kAdvice);
  }
  return {};
}

}  // namespace meshbus::os
