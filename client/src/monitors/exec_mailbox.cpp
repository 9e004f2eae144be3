#include "client/src/monitors/exec_mailbox.h"

#include <sys/eventfd.h>

#include <utility>

namespace meshbus {
namespace {

constexpr std::size_t kPieceCost = 64;

}  // namespace

ExecMailbox::ExecMailbox() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void ExecMailbox::clear() const {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto n = ::read(event_.get(), &count, sizeof count);
}

void ExecMailbox::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(event_.get(), &one, sizeof one);
}

bool ExecMailbox::is_started() const {
  const std::scoped_lock lock(mutex_);
  return is_started_;
}

std::optional<ExecPiece> ExecMailbox::take() {
  const std::scoped_lock lock(mutex_);
  if (pieces_.empty()) return std::nullopt;
  auto piece = std::move(pieces_.front());
  pieces_.pop_front();
  held_ -= kPieceCost + piece.bytes.size();
  return piece;
}

bool ExecMailbox::may_write() const {
  const std::scoped_lock lock(mutex_);
  return is_started_ && !is_writing_ && !is_input_closed_ && !end_;
}

bool ExecMailbox::is_input_closed() const {
  const std::scoped_lock lock(mutex_);
  return is_input_closed_;
}

std::optional<Result<ExecEnd>> ExecMailbox::end() const {
  const std::scoped_lock lock(mutex_);
  return pieces_.empty() ? end_ : std::nullopt;
}

void ExecMailbox::set_started() {
  const std::scoped_lock lock(mutex_);
  is_started_ = true;
  wake();
}

void ExecMailbox::push(ExecPiece piece) {
  const std::scoped_lock lock(mutex_);
  held_ += kPieceCost + piece.bytes.size();
  pieces_.push_back(std::move(piece));
  wake();
}

std::size_t ExecMailbox::held() const {
  const std::scoped_lock lock(mutex_);
  return held_;
}

void ExecMailbox::set_writing(bool is_writing) {
  const std::scoped_lock lock(mutex_);
  is_writing_ = is_writing;
  if (!is_writing) wake();
}

void ExecMailbox::set_input_closed() {
  const std::scoped_lock lock(mutex_);
  is_input_closed_ = true;
  wake();
}

void ExecMailbox::set_end(Result<ExecEnd> end) {
  const std::scoped_lock lock(mutex_);
  if (!end_) end_ = std::move(end);
  wake();
}

}  // namespace meshbus
