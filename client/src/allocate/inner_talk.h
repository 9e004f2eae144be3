#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "meshbus/address.h"

namespace meshbus {

/// What hosts inside of procs say while they start, by rank: lines of JSON (`meshbus host
/// --ready-fd`, `--remote`). The handlers of their mesh write into it; the thread that starts them
/// waits for it. Any thread.
class InnerTalk {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Wanted : std::uint8_t { address, host };

  explicit InnerTalk(std::size_t count) : ranks_(count) {}

  /// Bytes of its stdout.
  void hear(std::uint64_t rank, std::string_view bytes);
  /// It will not become ready; the first reason counts.
  void note_problem(std::uint64_t rank, std::string problem);
  /// They have started, or never will: nothing that comes later is kept.
  void close();

  /// Waits until all of them have said that; ends early when one has failed. Whether all have.
  bool wait(Wanted wanted, Clock::time_point deadline);
  /// By which it is reached; empty before it has said so.
  std::string address(std::uint64_t rank) const;
  /// Nothing before it is ready.
  std::optional<HostAddr> host(std::uint64_t rank) const;
  /// Empty: none is known.
  std::string problem(std::uint64_t rank) const;

 private:
  struct Rank {
    std::string text;  ///< Less than a line.
    std::string address;
    std::optional<HostAddr> host;
    std::string problem;

    bool has(Wanted wanted) const {
      return wanted == Wanted::host ? host.has_value() : !address.empty();
    }
  };

  static void take_line(Rank& rank, const std::string& line);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Rank> ranks_;  // guarded by mutex_
  bool is_closed_ = false;   // guarded by mutex_
};

}  // namespace meshbus
