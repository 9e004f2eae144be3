#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "agent/os/terminal_records.h"
#include "common/base/bytes.h"
#include "common/base/unique_fd.h"
#include "common/loop/reactor.h"
#include "meshbus/result.h"

namespace meshbus::host {

/// The stdin of an exec, written without ever blocking: one piece at a time (schemas/hands.fbs:
/// ExecInput). Lives on the reactor's thread. The process must ignore SIGPIPE.
class ExecInput {
 public:
  using Done = std::function<void(Result<void>)>;

  /// `on_closed`: nothing more is written; the keeper may hold the pipe, too.
  ExecInput(Reactor& reactor, bool is_terminal, std::function<void()> on_closed)
      : reactor_(reactor), is_terminal_(is_terminal), on_closed_(std::move(on_closed)) {}
  ~ExecInput();
  ExecInput(const ExecInput&) = delete;
  ExecInput& operator=(const ExecInput&) = delete;

  void attach(UniqueFd pipe);
  /// `offset`: of all bytes of input; what was written before is left out. `done` is called once,
  /// perhaps from inside, when the process has taken the bytes. Errors: not_exist (stdin is
  /// closed), too_large, out_of_range (bytes are missing before these), refused (other bytes are on
  /// their way; these were sent again and have another request now).
  void write(std::uint64_t offset, Bytes data, bool end, Done done);
  /// The terminal has another size.
  void resize(const os::TerminalSize& size);
  /// The process is gone, or is to hear nothing more.
  void close(const std::string& why);

 private:
  void push();
  void finish(Result<void> how);

  Reactor& reactor_;
  bool is_terminal_;
  std::function<void()> on_closed_;
  UniqueFd pipe_;
  bool is_closed_ = false;
  bool is_ended_ = false;  ///< Nothing follows `pending_`.
  std::uint64_t taken_ = 0;
  std::string pending_;
  std::optional<os::TerminalSize> next_size_;
  Done done_;
};

}  // namespace meshbus::host
