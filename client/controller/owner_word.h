#pragma once

#include <cstdint>

namespace meshbus {

/// What one host has said of a mesh since some host has named its present owner. Until all hosts
/// have spoken, a handover that was done on one of them looks like one that was done on all. Pure.
class OwnerWord {
 public:
  /// The host has said something, or failed to when it was asked.
  bool is_heard() const noexcept { return word_ != Word::none; }
  /// The host does not know the mesh.
  bool is_denial() const noexcept { return word_ == Word::denial; }

  /// Some host has named another owner. A word from before counts only when `counts`: the host
  /// lists the mesh, or is silent.
  void on_new_owner(bool counts) noexcept {
    is_asked_ = false;
    word_ = counts ? Word::any : Word::none;
  }
  void on_listed() noexcept { word_ = Word::any; }
  /// The host is silent: nobody waits for its word.
  void on_silent() noexcept {
    if (word_ == Word::none) word_ = Word::any;
  }
  /// The host is asked about the mesh.
  void on_question() noexcept { is_asked_ = true; }
  /// Its answer, or that none came. An answer to a question from before the present owner says
  /// nothing.
  void on_answer(bool is_denial) noexcept {
    if (!is_asked_) return;
    if (is_denial) word_ = Word::denial;
    if (word_ == Word::none) word_ = Word::any;
  }
  /// A denial has to be heard once more.
  void forget_denial() noexcept {
    if (word_ == Word::denial) word_ = Word::any;
  }

 private:
  enum class Word : std::uint8_t { none, any, denial };
  Word word_ = Word::none;
  bool is_asked_ = false;
};

}  // namespace meshbus
