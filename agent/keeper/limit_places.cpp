#include "agent/keeper/limit_places.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "agent/keeper/cgroup.h"

namespace meshbus::keeper {

namespace {

constexpr const char* advice =
    "; start the host as root, or in a cgroup that is delegated to its user with the controllers memory, pids and cpu (systemd: "
    "Delegate=yes), or do without this limit";

bool has_word(const std::string& file, std::string_view wanted) {
  std::ifstream words(file);
  for (std::string word; words >> word;) {
    if (word == wanted) return true;
  }
  return false;
}

// cgroup v2: a cgroup other than the root that has processes in it may not hand controllers on to those below.
bool cannot_hand_on(const std::string& parent, std::string_view controller) {
  if (::access((parent + "/cgroup.type").c_str(), F_OK) != 0 || has_word(parent + "/cgroup.subtree_control", controller)) return false;
  std::string pid;
  return static_cast<bool>(std::ifstream(parent + "/cgroup.procs") >> pid);
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<std::pair<unsigned, const char*>, 3> units{{{30, "GiB"}, {20, "MiB"}, {10, "KiB"}}};
  for (const auto& [shift, name] : units) {
    if (bytes >> shift != 0 && (bytes >> shift) << shift == bytes) return std::to_string(bytes >> shift) + name;
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
    case Controller::memory: return limits.memory == 0 ? "" : "limit of " + bytes_text(limits.memory) + " of memory";
    case Controller::pids: return limits.pids == 0 ? "" : "limit of " + std::to_string(limits.pids) + " processes";
    case Controller::cpu: return limits.cpu_milli == 0 ? "" : "limit of " + cpus_text(limits.cpu_milli) + " CPUs";
  }
  return {};
}

LimitPlaces LimitPlaces::find(const std::string& name) {
  LimitPlaces places;
  const auto v2 = find_own_cgroup();
  for (const Controller controller : controllers) {
    const std::string word(to_string(controller));
    LimitPlace& place = places.at(controller);
    if (v2 && has_word(*v2 + "/cgroup.controllers", word)) {
      place = {2, *v2 + "/meshbus-" + name};
    } else if (const auto v1 = find_v1_cgroup(word)) {
      place = {1, *v1 + "/meshbus-" + name};
    } else {
      place = {0, "no hierarchy of cgroup v1 with the controller `" + word + "` is mounted, and " +
                      (v2 ? "`" + word + "` is not in " + *v2 + "/cgroup.controllers" : v2.error().detail())};
    }
  }
  return places;
}

std::vector<std::string> LimitPlaces::directories() const {
  std::vector<std::string> found;
  for (const LimitPlace& place : places_) {
    if (place.version != 0 && std::find(found.begin(), found.end(), place.path) == found.end()) found.push_back(place.path);
  }
  return found;
}

std::string LimitPlaces::to_text(Controller controller) const {
  const LimitPlace& place = at(controller);
  return std::string(to_string(controller)) + ":" + std::to_string(place.version) + ":" + place.path;
}

bool LimitPlaces::read_text(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos || text.size() < colon + 4 || text[colon + 2] != ':') return false;
  const char version = text[colon + 1];
  const auto* const known =
      std::find_if(controllers.begin(), controllers.end(), [&](Controller one) { return to_string(one) == text.substr(0, colon); });
  if (known == controllers.end() || version < '0' || version > '2') return false;
  at(*known) = {version - '0', std::string(text.substr(colon + 3))};
  return true;
}

Result<void> LimitPlaces::check(const GroupLimits& limits) const {
  for (const Controller controller : controllers) {
    const std::string wanted = words_of(limits, controller);
    if (wanted.empty()) continue;
    const LimitPlace& place = at(controller);
    std::string why = place.path;
    if (place.version != 0) {
      const std::string parent = place.path.substr(0, place.path.rfind('/'));
      if (place.version == 2 && cannot_hand_on(parent, to_string(controller)))
        return fail(ErrorCode::configuration_error,
                    "a " + wanted + " cannot be kept here: this host's own processes are in " + parent +
                        ", and cgroup v2 allows no limits below a cgroup that has processes, unless it is the root; do without this limit, "
                        "or limit the whole host from outside (systemd: MemoryMax=, TasksMax=, CPUQuota=)");
      if (::access(parent.c_str(), W_OK) == 0) continue;
      why = "cannot make a cgroup in " + parent + ": " + std::strerror(errno);
    }
    return fail(ErrorCode::configuration_error, "a " + wanted + " cannot be kept here: " + why + advice);
  }
  return {};
}

}  // namespace meshbus::keeper
