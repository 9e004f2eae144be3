#include "agent/host/lifecycle/progress_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "agent/host/model/mesh.h"
#include "common/base/log.h"

namespace meshbus::host {

ProgressFiles::ProgressFiles(std::string directory) {
  if (directory.empty()) return;
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    log::warn(directory + " cannot be made: " + std::strerror(errno) +
              "; progress beats of ranks are not seen");
    return;
  }
  folder_ = std::make_shared<RankFolder>(std::move(directory));
}

std::string ProgressFiles::path_of(const Proc& proc) const {
  return folder_->path() + "/" + proc.mesh.name + "." + std::to_string(proc.rank());
}

std::uint32_t ProgressFiles::last_beat(const Proc& proc) const {
  struct stat status{};
  if (!is_kept() || folder_->is_empty() || ::stat(path_of(proc).c_str(), &status) != 0) return 0;
  return static_cast<std::uint32_t>(status.st_mtim.tv_sec);
}

void ProgressFiles::remove(const Proc& proc) const {
  if (is_kept() && !folder_->is_empty()) ::unlink(path_of(proc).c_str());
}

}  // namespace meshbus::host
