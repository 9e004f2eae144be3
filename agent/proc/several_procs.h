#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "agent/os/process_link.h"
#include "agent/proc/process_streams.h"
#include "agent/proc/pseudo_proc.h"
#include "agent/proc/runtime/bootstrap.h"
#include "agent/proc/runtime/stop_signals.h"
#include "common/base/unique_fd.h"
#include "common/loop/reactor.h"
#include "meshbus/proc.h"
#include "meshbus/result.h"

namespace meshbus::mesh_proc {

/// A process of several procs (spec 4.4): runs the program once for each on threads, as its keeper
/// says (agent/os/process_link.h), tells it of their ends, and ends with the last one. Lives on the
/// thread that called bootstrap(), as long as the process.
class SeveralProcs {
 public:
  /// Throws std::system_error when there are no descriptors left.
  SeveralProcs(Bootstrap bootstrap, UniqueFd link, ProcProgram program);
  SeveralProcs(const SeveralProcs&) = delete;
  SeveralProcs& operator=(const SeveralProcs&) = delete;

  [[noreturn]] void run();
  /// Somebody has called exit(): the others' threads go on using what that is about to destroy, so
  /// the process ends here.
  void on_exit(int code) const;

 private:
  struct Live {
    std::shared_ptr<PseudoProc> proc;
    /// Empty: those of the process, at first or by now.
    UniqueFd out;
    UniqueFd err;
    /// It was killed or cut off: what is written from now on is not for it.
    bool is_leaving = false;
  };

  void on_link();
  /// `message`: with its streams.
  void start(std::uint32_t place, Result<Bootstrap> bootstrap, os::process_link::Message message);
  /// One that comes later.
  void join(os::process_link::Message message);
  void on_signal(const os::process_link::Record& record);
  void on_news();
  /// It has ended and is not counted any more.
  void tell(std::uint32_t place, Live live, const PseudoProc::End& end);
  /// The last one has.
  [[noreturn]] void end_with(const PseudoProc::End& end);
  /// Those that are left are cut off, and do not return: the process waits no longer for them.
  void limit_end();
  /// stdout and stderr of the process become those of the lowest rank that stays, when they are
  /// nobody's.
  void pass_streams();

  Bootstrap bootstrap_;
  UniqueFd link_;
  ProcProgram program_;
  const pid_t pid_;
  sigset_t mask_{};
  Reactor reactor_;
  std::optional<StopSignals> signals_;
  std::shared_ptr<EndNotices> notices_;
  /// How many the keeper will have named in all.
  std::optional<std::size_t> announced_;
  std::size_t named_ = 0;
  /// Came before somebody was there to take it.
  std::optional<int> early_signal_;
  std::map<std::uint64_t, Live> live_;  // by place
  ProcessStreams streams_;
  Reactor::TimerId end_timer_ = 0;
  bool is_over_ = false;
};

}  // namespace meshbus::mesh_proc
