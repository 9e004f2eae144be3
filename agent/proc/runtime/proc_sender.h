#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "agent/proc/runtime/bootstrap.h"
#include "agent/proc/runtime/world.h"
#include "common/base/forks.h"
#include "common/bus/bus.h"
#include "common/bus/cast.h"
#include "common/bus/outgoing.h"
#include "common/loop/awaited.h"
#include "common/loop/reactor.h"
#include "meshbus/body_parts.h"
#include "meshbus/proc.h"

namespace meshbus::mesh_proc {

/// Sends the calls, messages and casts of a proc's program, from any of its threads. Nothing leaves
/// once the proc is cut off.
class ProcSender {
 public:
  /// Whether this thread may wait for an answer of that proc; see Runtime::check_caller.
  using CheckCaller = std::function<Result<void>(const ProcId& to)>;
  ProcSender(Reactor& reactor, const Bootstrap& bootstrap, const World& world,
             const std::atomic<bool>& is_cut, CheckCaller check_caller);
  ProcSender(const ProcSender&) = delete;
  ProcSender& operator=(const ProcSender&) = delete;

  /// Errors: refused, in a child of fork().
  Result<void> check_fork() const;
  /// Nothing leaves any more.
  bool is_cut() const noexcept { return is_cut_; }
  bool is_forked() const noexcept { return count_forks() != forks_; }
  std::future<Result<std::string>> call(const ProcId& to, std::uint32_t port, const BodyParts& body,
                                        std::chrono::milliseconds deadline);
  using AwaitedAnswer = std::shared_ptr<Awaited<Result<std::string>>>;
  /// The same for a caller that waits for the answer at once: the call leaves now.
  AwaitedAnswer call_for(const ProcId& to, std::uint32_t port, const BodyParts& body,
                         std::chrono::milliseconds deadline);
  /// The same; `is_last`: it leaves now. `answer` is called on the reactor's thread, once, unless
  /// the process ends first.
  void call(const ProcId& to, std::uint32_t port, const BodyParts& body,
            std::chrono::milliseconds deadline, Bus::CallAnswer answer, bool is_last = false);
  Result<void> send(const ProcId& to, std::uint32_t port, const BodyParts& body,
                    std::chrono::milliseconds patience);
  Result<void> send(std::uint64_t rank, std::uint32_t port, const BodyParts& body,
                    std::chrono::milliseconds patience);
  Result<void> cast(const ProcMeshRef& to, std::uint32_t port, const BodyParts& body,
                    std::chrono::milliseconds patience);
  /// The caller waits for the answers at once. Errors: would_block (see CheckCaller), and those of
  /// the whole.
  Result<std::future<CastAnswers::Answers>> call_all(const ProcMeshRef& to, std::uint32_t port,
                                                     const BodyParts& body,
                                                     std::chrono::milliseconds deadline);
  /// See Bus::check_size(). For what is to be copied.
  Result<void> check_size(std::size_t bytes);
  Outgoing& outgoing() noexcept { return outgoing_; }

 private:
  /// What a program may have waiting to leave before send() waits. The number bounds how long an
  /// answer waits behind small messages.
  static constexpr Bus::Most kSendMost{.bytes = 16 * 1024 * 1024, .queued = 16 * 1024};

  /// Sends a body above kBodyLimit, and waits until it has arrived.
  Result<void> send_large(const ProcId& to, std::uint32_t port, const BodyParts& body,
                          std::chrono::milliseconds patience);
  /// Lets `begin` send a large body, and waits until it has arrived.
  template <typename Begin>
  Result<void> wait_for_arrival(std::size_t bytes, std::chrono::milliseconds patience, Begin begin);
  /// How HeldBody has to hold a call's body for a proc of our host, or of another. Errors:
  /// too_large.
  Result<std::optional<bool>> how_to_hold(const BodyParts& body, bool is_here);
  /// A proc of the view for check_caller_: this one, when it is in it.
  ProcId owner_of(const CastPlan& plan) const;
  /// Errors: refused (after fork).
  Result<std::shared_ptr<const CastPlan>> plan_cast(const ProcMeshRef& to);

  static inline std::atomic<std::uint64_t> next_number_{1};

  const Bootstrap& bootstrap_;
  const World& world_;
  const std::atomic<bool>& is_cut_;
  const CheckCaller check_caller_;
  const unsigned forks_ = count_forks();
  /// The senders that this process has had.
  const std::uint64_t number_ = next_number_++;
  Outgoing outgoing_;
  std::mutex plans_mutex_;
  CastPlans plans_;
};

}  // namespace meshbus::mesh_proc
