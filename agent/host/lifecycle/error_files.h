#pragma once

#include <string>

#include "agent/host/model/proc.h"

namespace meshbus::host {

/// The files in which ranks say why they fail. Each rank finds the path of its own in
/// TORCHELASTIC_ERROR_FILE, as below torchrun. Such a file is gone when its rank has ended.
class ErrorFiles {
 public:
  /// The variable that has the path.
  static constexpr const char* kVariable = "TORCHELASTIC_ERROR_FILE";

  /// A directory that is there, only for us; empty: ranks find no path.
  explicit ErrorFiles(std::string directory) : directory_(std::move(directory)) {}

  /// Empty: this rank has none, because it was given another one or there is no directory.
  std::string path_of(const Proc& proc) const;
  /// What the rank has written, in one line (error_note()), empty when it has written nothing.
  /// Reads 64 KiB at most, and removes the file.
  std::string take(const Proc& proc) const;

 private:
  std::string directory_;
};

}  // namespace meshbus::host
