#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/loop/reactor.h"

namespace meshbus {

/// Writes lines to a descriptor that may be a pipe with a slow reader, without ever blocking the
/// reactor: what cannot be written now waits, at most `limit` bytes of it; beyond that whole lines
/// are left out and counted. Lives on the reactor's thread.
class LineWriter {
 public:
  /// `on_lost` returns the line in place of those that were left out; `on_closed` says that nobody
  /// reads any more.
  LineWriter(Reactor& reactor, int fd, std::size_t limit,
             std::function<std::string(std::uint64_t)> on_lost, std::function<void()> on_closed);
  ~LineWriter() { reactor_.cancel(timer_); }
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  /// `line` without its end.
  void write(std::string_view line);
  /// Writes what it can now.
  void flush();

 private:
  Reactor& reactor_;
  int fd_;
  std::size_t limit_;
  std::function<std::string(std::uint64_t)> on_lost_;
  std::function<void()> on_closed_;
  std::string waiting_;
  std::uint64_t lost_ = 0;
  bool is_closed_ = false;
  Reactor::TimerId timer_ = 0;
};

}  // namespace meshbus
