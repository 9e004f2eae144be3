#pragma once

#include <functional>

#include "agent/host/model/mesh.h"
#include "common/loop/reactor.h"

namespace meshbus::host {

/// Writes into the stdin of procs, without ever blocking: one piece at a time per proc
/// (schemas/lifecycle.fbs: WriteInput). Lives on the reactor's thread. The process must ignore
/// SIGPIPE.
class InputWriter {
 public:
  /// `on_closed`: nothing more is written to that proc; the keeper may hold its pipe, too.
  InputWriter(Reactor& reactor, std::function<void(Proc&)> on_closed)
      : reactor_(reactor), on_closed_(std::move(on_closed)) {}

  /// Writes `data`, then closes when `end`. `done` is called once, perhaps from inside: no error
  /// when the pipe has taken all; refused: stdin is no pipe, or a piece is still under way;
  /// not_exist: it is closed, or the proc has ended.
  void write(Proc& proc, Bytes data, bool end, std::function<void(Result<void>)> done);
  /// The proc is born.
  void attach(Proc& proc, UniqueFd fd);
  /// The proc has ended.
  void close(Proc& proc);

 private:
  void push(Proc& proc);
  void finish(Proc& proc, Result<void> result);

  Reactor& reactor_;
  std::function<void(Proc&)> on_closed_;
};

}  // namespace meshbus::host
