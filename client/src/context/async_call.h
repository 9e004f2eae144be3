#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "common/bus/bus.h"
#include "meshbus/context.h"
#include "meshbus/result.h"

namespace meshbus {

class ContextCore;

/// An asynchronous call to one proc or to the ranks of a view: hands each answer to the user's
/// handler, once, on the handlers' thread or directly, and ends early when the user's stop token
/// says so. It keeps neither the core nor a connection: when these go, the Bus answers for the
/// ranks that are left. Any thread, unless it says otherwise.
class AsyncCall : public std::enable_shared_from_this<AsyncCall> {
 public:
  using Handler = std::function<void(std::uint64_t ordinal, Result<std::string>)>;

  /// The options say how answers are handed over; the rest of them is for others.
  AsyncCall(ContextCore& core, std::size_t ranks, const AsyncOptions& options, Handler handler);
  /// Ranks that have no answer yet get fate_unknown.
  ~AsyncCall();
  AsyncCall(const AsyncCall&) = delete;
  AsyncCall& operator=(const AsyncCall&) = delete;

  /// The answer of a rank; a second one is ignored.
  void fill(std::uint64_t ordinal, Result<std::string> answer);
  /// The same error for every rank that has no answer yet.
  void fail_all(const Error& error);
  /// From now on `stop` ends it. Once, before begin().
  void watch(std::stop_token stop);
  /// Within a visit or a turn: calls `start`, which sends the call and returns its number on `bus`,
  /// unless the call was stopped before.
  void begin(Bus& bus, const std::function<std::uint64_t()>& start);

 private:
  /// Any thread: the token was triggered.
  void on_stop();
  /// In a turn.
  void cancel();
  void tell(std::uint64_t ordinal, Result<std::string> answer);

  ContextCore& core_;
  const bool is_direct_;
  const std::shared_ptr<const Handler> handler_;
  std::mutex mutex_;
  std::vector<bool> is_open_;  // guarded by mutex_
  std::size_t left_;           // guarded by mutex_
  // In turns and visits only. The Bus is there as long as a rank has no answer.
  bool is_cancelled_ = false;
  Bus* bus_ = nullptr;
  std::uint64_t id_ = 0;
  std::optional<std::stop_callback<std::function<void()>>> stop_;
};

}  // namespace meshbus
