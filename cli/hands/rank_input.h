#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>

#include "client/src/context/connection.h"
#include "meshbus/rank_report.h"

namespace meshbus {
class ContextCore;
}

namespace meshbus::cli {

/// Carries our stdin to the stdin of one rank, only as fast as the rank reads it, on a thread of
/// its own. The end of ours leaves that of the rank open, unless `closes`. The thread may wait for
/// the rank for ever: a program that has one ends by _exit().
class RankInput {
 public:
  struct Options {
    bool closes = false;  ///< The end of our stdin is that of the rank's.
    /// Nothing more is read, and why, for people. On that thread.
    std::function<void(const std::string& why)> on_stopped;
  };
  /// Errors: unroutable.
  static Result<std::unique_ptr<RankInput>> start(const std::shared_ptr<ContextCore>& core,
                                                  std::string mesh, const RankReport& rank,
                                                  Options options);
  RankInput(const RankInput&) = delete;
  RankInput& operator=(const RankInput&) = delete;

 private:
  RankInput(ConnectionUse way, std::string mesh, const RankReport& rank, Options options)
      : way_(std::move(way)),
        mesh_(std::move(mesh)),
        host_(rank.host),
        rank_(rank.rank),
        options_(std::move(options)) {}
  void run();
  Result<void> write(std::string_view bytes, bool end);

  ConnectionUse way_;
  std::string mesh_;
  HostAddr host_;
  std::uint64_t rank_;
  Options options_;
  std::future<void> thread_;
};

}  // namespace meshbus::cli
