#include "broker/router/waiting_room.h"

#include "wire/frame_generated.h"

namespace meshbus {

bool WaitingRoom::add(const wire::Envelope& envelope, Bytes body, MessagePart* detached, Time now) {
  const std::size_t size = sizeof envelope + body.size();
  // dues_ may hold entries of messages that are gone: it counts, so that it is bounded too.
  if (limits_.wait.count() == 0 || dues_.size() + 1 > limits_.count ||
      bytes_ + size > limits_.bytes)
    return false;
  const Time due = now + limits_.wait;
  procs_[envelope.destination_proc()].push_back(Waiting{
      envelope, detached != nullptr ? std::move(*detached) : MessagePart(body.data(), body.size()),
      due});
  dues_.push_back({due, envelope.destination_proc()});
  bytes_ += size;
  ++count_;
  return true;
}

void WaitingRoom::take_out(Waiting waiting, const Taker& take) {
  bytes_ -= sizeof waiting.envelope + waiting.body.size();
  --count_;
  take(waiting.envelope, bytes_of(waiting.body.data(), waiting.body.size()), waiting.body);
}

void WaitingRoom::release(std::uint64_t proc, const Taker& take) {
  const auto found = procs_.find(proc);
  if (found == procs_.end()) return;
  auto waiting = std::move(found->second);
  procs_.erase(found);
  for (auto& one : waiting) take_out(std::move(one), take);
}

void WaitingRoom::expire(Time now, const Taker& take) {
  while (!dues_.empty() && dues_.front().time <= now) {
    const std::uint64_t proc = dues_.front().proc;
    dues_.pop_front();
    const auto found = procs_.find(proc);
    if (found == procs_.end() || found->second.front().due > now) continue;
    Waiting waiting = std::move(found->second.front());
    found->second.pop_front();
    if (found->second.empty()) procs_.erase(found);
    take_out(std::move(waiting), take);
  }
}

std::optional<WaitingRoom::Time> WaitingRoom::next_due() const {
  return dues_.empty() ? std::nullopt : std::optional(dues_.front().time);
}

}  // namespace meshbus
