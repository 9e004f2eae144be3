#pragma once

#include <memory>
#include <string>

#include "agent/host/lifecycle/rank_folder.h"
#include "agent/host/model/proc.h"

namespace meshbus::host {

/// The files in which ranks say why they fail. Each rank finds the path of its own in
/// TORCHELASTIC_ERROR_FILE, as below torchrun. Such a file is gone when its rank has ended.
class ErrorFiles {
 public:
  /// The variable that has the path.
  static constexpr const char* kVariable = "TORCHELASTIC_ERROR_FILE";

  /// Null: ranks find no path.
  explicit ErrorFiles(std::shared_ptr<RankFolder> folder) : folder_(std::move(folder)) {}

  /// Empty: this rank has none, because it was given another one or there is no directory.
  std::string path_of(const Proc& proc) const;
  /// What the rank has written, in one line (error_note()), empty when it has written nothing.
  /// Reads 64 KiB at most, and removes the file.
  std::string take(const Proc& proc) const;

 private:
  std::shared_ptr<RankFolder> folder_;
};

}  // namespace meshbus::host
