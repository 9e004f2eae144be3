#include "agent/proc/actors/mailbox.h"

#include <utility>

namespace meshbus::mesh_proc {

bool Mailbox::push(Letter letter) {
  if (!letters_.empty() &&
      (letters_.size() >= limits_.count || bytes_ + letter.size() > limits_.bytes))
    return false;
  push_always(std::move(letter));
  return true;
}

void Mailbox::push_always(Letter letter) {
  bytes_ += letter.size();
  letters_.push_back(std::move(letter));
}

std::optional<Letter> Mailbox::pop() {
  if (letters_.empty()) return std::nullopt;
  std::optional<Letter> letter(std::move(letters_.front()));
  letters_.pop_front();
  bytes_ -= letter->size();
  return letter;
}

std::deque<Letter> Mailbox::take_all() {
  bytes_ = 0;
  return std::exchange(letters_, {});
}

}  // namespace meshbus::mesh_proc
