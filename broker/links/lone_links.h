#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "common/loop/reactor.h"

namespace meshbus {

/// Links that one principal with few rights alone has introduced. Those that nobody uses are
/// forgotten after a while, so that what they cost does not stay. Lives on the reactor's thread.
class LoneLinks {
 public:
  /// Whether that link is idle, and never had an answer.
  using MayForget = std::function<bool(std::uint64_t key)>;
  using Forget = std::function<void(std::uint64_t key)>;

  /// A link is forgotten when it has been idle for between once and twice `after`.
  LoneLinks(Reactor& reactor, std::chrono::milliseconds after, MayForget may_forget, Forget forget)
      : reactor_(reactor),
        after_(after),
        may_forget_(std::move(may_forget)),
        forget_(std::move(forget)) {}
  ~LoneLinks() { reactor_.cancel(timer_); }
  LoneLinks(const LoneLinks&) = delete;
  LoneLinks& operator=(const LoneLinks&) = delete;

  /// A new link.
  void add(std::uint64_t key, const std::string& principal) {
    owners_.emplace(key, principal);
    if (timer_ == 0) timer_ = reactor_.after(after_, [this] { look(); });
  }
  /// It is introduced again; null: by a link or the broker itself. By another one than before it is
  /// nobody's alone.
  void introduce_again(std::uint64_t key, const std::string* principal) {
    const auto found = owners_.find(key);
    if (found != owners_.end() && (principal == nullptr || *principal != found->second))
      remove(key);
  }
  void note_use(std::uint64_t key) { quiet_.erase(key); }
  void remove(std::uint64_t key) {
    owners_.erase(key);
    quiet_.erase(key);
  }

 private:
  /// Forgets those that were idle the last time, and have been since.
  void look() {
    for (const auto key : std::exchange(quiet_, {})) {
      if (may_forget_(key)) forget_(key);
    }
    for (const auto& [key, principal] : owners_) {
      if (may_forget_(key)) quiet_.insert(key);
    }
    timer_ = owners_.empty() ? 0 : reactor_.after(after_, [this] { look(); });
  }

  Reactor& reactor_;
  const std::chrono::milliseconds after_;
  const MayForget may_forget_;
  const Forget forget_;
  std::unordered_map<std::uint64_t, std::string> owners_;
  std::unordered_set<std::uint64_t> quiet_;
  Reactor::TimerId timer_ = 0;
};

}  // namespace meshbus
