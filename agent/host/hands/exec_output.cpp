#include "agent/host/hands/exec_output.h"

#include <algorithm>
#include <utility>

namespace meshbus::host {
namespace {

/// A message that holds few bytes costs more than these.
constexpr std::size_t kOverhead = 128;

}  // namespace

void ExecOutput::push(wire::ExecOutputT message) {
  message.sequence = ++last_;
  bytes_ += message.data.size() + kOverhead;
  kept_.push_back(std::move(message));
}

void ExecOutput::add(wire::Stream stream, Bytes bytes) {
  if (bytes.empty()) return;
  wire::ExecOutputT message;
  message.stream = stream;
  message.data.assign(bytes.begin(), bytes.end());
  push(std::move(message));
}

void ExecOutput::end(wire::Stream stream) {
  wire::ExecOutputT message;
  message.stream = stream;
  message.end = true;
  push(std::move(message));
}

const wire::ExecOutputT* ExecOutput::next() {
  return sent_ == kept_.size() ? nullptr : &kept_[sent_++];
}

void ExecOutput::taken(std::uint64_t sequence) {
  while (!kept_.empty() && kept_.front().sequence <= sequence) {
    bytes_ -= kept_.front().data.size() + kOverhead;
    kept_.pop_front();
    sent_ -= std::min<std::size_t>(sent_, 1);
  }
}

}  // namespace meshbus::host
