#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "agent/host/lifecycle/rank_folder.h"
#include "agent/host/model/proc.h"

namespace meshbus::host {

/// The files by which ranks say that they make progress. Each rank finds the path of its own in
/// MESHBUS_PROGRESS; a write to it, or a new time of it, is a progress beat. The file is there from
/// the first beat to the end of the rank.
class ProgressFiles {
 public:
  /// Makes the directory, with mode 0700; one that is there is that of an earlier agent of this
  /// host. When `directory` is empty or cannot be made, ranks find no MESHBUS_PROGRESS.
  explicit ProgressFiles(std::string directory);

  /// Null: there is none.
  const std::shared_ptr<RankFolder>& folder() const noexcept { return folder_; }
  bool is_kept() const noexcept { return folder_ != nullptr; }
  std::string path_of(const Proc& proc) const;
  /// The last beat, in seconds since 1970 UTC; 0 = none.
  std::uint32_t last_beat(const Proc& proc) const;
  void remove(const Proc& proc) const;

 private:
  std::shared_ptr<RankFolder> folder_;
};

}  // namespace meshbus::host
