#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::cli {

/// A command of meshbus that another one runs beside itself, and whose output it reads, stdout and
/// stderr together. Ends the command when it goes.
class SideCommand {
 public:
  /// `words`: behind "meshbus". Errors: io_error.
  static Result<SideCommand> start(const std::vector<std::string>& words);
  SideCommand(SideCommand&& other) noexcept;
  SideCommand& operator=(SideCommand&&) = delete;
  ~SideCommand();

  /// Readable when there is output, or the end.
  int fd() const noexcept { return output_.get(); }
  /// Appends the whole lines that are there, without their ends. False: it has ended, and these
  /// were the last.
  bool read_lines(std::vector<std::string>& lines);

 private:
  SideCommand(pid_t pid, UniqueFd output) : pid_(pid), output_(std::move(output)) {}

  pid_t pid_;
  UniqueFd output_;
  std::string rest_;
};

}  // namespace meshbus::cli
