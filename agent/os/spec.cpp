#include "agent/os/spec.h"

#include <array>
#include <cstring>

namespace meshbus::os {

std::string_view to_string(SpawnStage stage) noexcept {
  switch (stage) {
    case SpawnStage::none: return "none";
    case SpawnStage::spec: return "spec";
    case SpawnStage::lookup: return "lookup";
    case SpawnStage::descriptors: return "descriptors";
    case SpawnStage::cgroup: return "cgroup";
    case SpawnStage::clone: return "clone";
    case SpawnStage::session: return "session";
    case SpawnStage::limits: return "limits";
    case SpawnStage::parent_death: return "parent_death";
    case SpawnStage::subreaper: return "subreaper";
    case SpawnStage::working_directory: return "working_directory";
    case SpawnStage::stdio: return "stdio";
    case SpawnStage::signals: return "signals";
    case SpawnStage::exec: return "exec";
    case SpawnStage::interpreter: return "interpreter";
    case SpawnStage::cancelled: return "cancelled";
    case SpawnStage::nice: return "nice";
    case SpawnStage::affinity: return "affinity";
    case SpawnStage::credentials: return "credentials";
    case SpawnStage::oom_score: return "oom_score";
    case SpawnStage::copy: return "copy";
    case SpawnStage::memory_policy: return "memory_policy";
  }
  return "unknown";
}

std::string rlimit_name(std::uint32_t resource) {
  static constexpr std::array names{"CPU",      "FSIZE",  "DATA",    "STACK", "CORE",  "RSS",
                                    "NPROC",    "NOFILE", "MEMLOCK", "AS",    "LOCKS", "SIGPENDING",
                                    "MSGQUEUE", "NICE",   "RTPRIO",  "RTTIME"};
  if (resource >= names.size()) return "RLIMIT " + std::to_string(resource);
  return std::string("RLIMIT_") + names[resource];
}

std::string describe(const SpawnFailure& failure) {
  std::string text;
  if (!failure.file.empty()) text = failure.file + ": ";
  text += failure.error != 0 ? std::strerror(failure.error) : "not possible";
  text += " (step: ";
  text += to_string(failure.stage);
  return text + ")";
}

}  // namespace meshbus::os
