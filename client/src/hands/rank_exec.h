#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "client/src/context/connection.h"
#include "client/src/monitors/exec_stream.h"

namespace meshbus {

/// An exec that runs beside a rank; its end ends the command. Any one thread.
class RankExec {
 public:
  /// Begins; the mailbox says what comes of it. Errors: unroutable (no host mesh of this Context
  /// has that host), io_error (no descriptor is left).
  static Result<RankExec> start(const std::shared_ptr<ContextCore>& core, ExecRequest request);
  RankExec(RankExec&& other) noexcept = default;
  RankExec& operator=(RankExec&& other) noexcept;
  ~RankExec() { drop(); }

  /// What came of it.
  ExecMailbox& news() noexcept { return stream_->mailbox(); }
  const ExecMailbox& news() const noexcept { return stream_->mailbox(); }
  /// Everything up to that piece is written: more may come.
  void taken(std::uint64_t sequence);
  /// Only when news().may_write().
  void write(std::string data, bool end);
  void resize(std::uint16_t rows, std::uint16_t columns);
  void signal(int signal);
  void hang_up();

 private:
  RankExec(ConnectionUse way, std::shared_ptr<ExecStream> stream)
      : way_(std::move(way)), stream_(std::move(stream)) {}
  void drop();

  ConnectionUse way_;
  std::shared_ptr<ExecStream> stream_;
};

}  // namespace meshbus
