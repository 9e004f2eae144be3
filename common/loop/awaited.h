#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

namespace meshbus {

/// One answer, for a thread that waits for it, mostly by turning the loop that brings it. Like
/// std::promise and its future, without the system call that these take for each answer.
template <typename Answer>
class Awaited {
 public:
  /// Brings the answer, once. Any thread.
  class Bringer {
   public:
    using Otherwise = Answer (*)();
    /// `otherwise` makes the answer when this ends without one.
    Bringer(std::shared_ptr<Awaited> awaited, Otherwise otherwise)
        : awaited_(std::move(awaited)), otherwise_(otherwise) {}
    ~Bringer() {
      if (awaited_ != nullptr) awaited_->bring(otherwise_());
    }
    Bringer(const Bringer&) = delete;
    Bringer& operator=(const Bringer&) = delete;

    void bring(Answer answer) {
      if (const auto awaited = std::exchange(awaited_, nullptr)) awaited->bring(std::move(answer));
    }

   private:
    std::shared_ptr<Awaited> awaited_;
    Otherwise otherwise_;
  };

  bool is_here() const noexcept { return is_here_.load(std::memory_order_acquire) != 0; }
  /// Waits for the answer, and takes it.
  Answer take() {
    is_here_.wait(0, std::memory_order_acquire);
    return std::move(*answer_);
  }

 private:
  void bring(Answer answer) {
    answer_.emplace(std::move(answer));
    is_here_.store(1, std::memory_order_release);
    is_here_.notify_one();
  }

  std::optional<Answer> answer_;
  /// No bool: what is as wide as a futex is waited for without a lock in between.
  std::atomic<int> is_here_{0};
};

}  // namespace meshbus
