#include "agent/host/lifecycle/progress_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "agent/host/model/mesh.h"
#include "common/base/log.h"

namespace meshbus::host {

ProgressFiles::ProgressFiles(std::string directory) : directory_(std::move(directory)) {
  if (directory_.empty() || ::mkdir(directory_.c_str(), 0700) == 0 || errno == EEXIST) return;
  log::warn(directory_ + " cannot be made: " + std::strerror(errno) +
            "; progress beats of ranks are not seen");
  directory_.clear();
}

std::string ProgressFiles::path_of(const Proc& proc) const {
  return directory_ + "/" + proc.mesh.name + "." + std::to_string(proc.rank());
}

std::uint32_t ProgressFiles::last_beat(const Proc& proc) const {
  struct stat status{};
  if (!is_kept() || ::stat(path_of(proc).c_str(), &status) != 0) return 0;
  return static_cast<std::uint32_t>(status.st_mtim.tv_sec);
}

void ProgressFiles::remove(const Proc& proc) const {
  if (is_kept()) ::unlink(path_of(proc).c_str());
}

}  // namespace meshbus::host
