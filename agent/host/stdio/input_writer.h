#pragma once

#include "agent/host/procs/proc.h"
#include "common/reactor.h"

namespace meshbus::host {

/// Writes into the stdin of procs, without ever blocking: one piece at a time per proc (schemas/lifecycle.fbs: WriteInput). Lives on the
/// reactor's thread. The process must ignore SIGPIPE.
class InputWriter {
 public:
  explicit InputWriter(Reactor& reactor) : reactor_(reactor) {}

  /// Writes `data`, then closes when `end`; `done` is called once, maybe from inside: fine when the pipe has taken all; refused: stdin is
  /// no pipe, or a piece is still under way; not_exist: closed, or the proc has ended.
  void write(Proc& proc, Bytes data, bool end, std::function<void(Result<void>)> done);
  /// The proc is born.
  void attach(Proc& proc, UniqueFd fd);
  /// The proc has ended.
  void close(Proc& proc);

 private:
  void push(Proc& proc);
  void finish(Proc& proc, Result<void> result);

  Reactor& reactor_;
};

}  // namespace meshbus::host
