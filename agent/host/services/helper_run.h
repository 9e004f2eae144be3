#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/loop/reactor.h"
#include "meshbus/result.h"

namespace meshbus::host {

/// Runs a program of ours, beside this one or at an absolute path, and collects what it writes to
/// its stdout. Lives on the reactor's thread; its end ends the program.
class HelperRun {
 public:
  /// What the program wrote, when it ended with 0. Errors: io_error (it ended otherwise), timeout.
  using Done = std::function<void(Result<std::string>)>;

  /// `done` is called once, from a later turn, and may destroy this object. Errors: refused (there
  /// is no such program), io_error.
  static Result<std::unique_ptr<HelperRun>> start(Reactor& reactor, const std::string& program,
                                                  const std::vector<std::string>& arguments,
                                                  std::chrono::milliseconds limit, Done done);
  ~HelperRun();
  HelperRun(const HelperRun&) = delete;
  HelperRun& operator=(const HelperRun&) = delete;

 private:
  HelperRun(Reactor& reactor, pid_t pid, UniqueFd process, UniqueFd output, Done done);
  /// Takes what is there now.
  void read_output();
  void on_exit();
  void close();
  void end(bool is_late);

  Reactor& reactor_;
  pid_t pid_;
  UniqueFd process_;  ///< A pidfd: readable when the program has ended.
  UniqueFd output_;
  Done done_;
  Reactor::TimerId timer_ = 0;
  std::string text_;
};

}  // namespace meshbus::host
