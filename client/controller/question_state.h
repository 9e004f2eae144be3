#pragma once

#include <utility>

namespace meshbus {

/// Whether something that is asked once has been asked, and answered. Pure.
class QuestionState {
 public:
  /// To be asked.
  bool is_open() const noexcept { return state_ == State::open; }
  bool is_asked() const noexcept { return state_ == State::asked; }
  bool is_done() const noexcept { return state_ == State::done; }
  void ask() noexcept { state_ = State::asked; }
  /// An answer to the question before reopen() changes nothing.
  void on_answer(bool is_done) noexcept {
    if (is_asked()) state_ = is_done ? State::done : State::open;
  }
  void reopen() noexcept { state_ = State::open; }

 private:
  enum class State { open, asked, done };
  State state_ = State::open;
};

}  // namespace meshbus
