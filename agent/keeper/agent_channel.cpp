#include "agent/keeper/agent_channel.h"

#include <cstdio>
#include <utility>

namespace meshbus::keeper {

namespace {

using namespace std::chrono_literals;

constexpr auto kHoldLimit = 20ms;  // how long reports wait for company in a packet
constexpr std::size_t kOutboxLimit = 64;
constexpr std::size_t kReplayPackets = 4;  // each has up to 250 descriptors of ours in it

}  // namespace

bool AgentChannel::connect(UniqueFd socket) {
  socket_ = std::move(socket);
  return events_.add(socket_.get(), source_);
}

void AgentChannel::adopt(UniqueFd socket) {
  if (!connect(std::move(socket))) {
    std::fprintf(stderr, "meshbus-keeper: no memory to listen to the new agent\n");
    socket_.reset();  // the agent sees the end of the socket, and the warden its end
    return;
  }
  registry_.start_replay();
  if (!registry_.is_replaying()) report_replayed();
}

void AgentChannel::drop() {
  if (socket_) events_.remove(socket_.get());
  socket_.reset();
  wants_write_ = false;
  outbox_.clear();
  packer_.take();
}

UniqueFd AgentChannel::release() {
  UniqueFd socket = std::move(socket_);
  drop();
  return socket;
}

bool AgentChannel::receive(const RequestHandlers& handlers) {
  if (!socket_) return false;
  os::Packet packet;
  const os::Transfer received = os::receive_packet(socket_.get(), packet);
  if (received == os::Transfer::would_block) return false;
  if (received == os::Transfer::lost) return drop(), false;
  if (auto done = decode_requests(std::move(packet), handlers); !done) {
    // An agent of another build, or bad memory: do not take orders from it. It sees the end of the
    // socket.
    std::fprintf(stderr, "meshbus-keeper: %s: no longer listening to this agent\n",
                 done.error().to_string().c_str());
    return drop(), false;
  }
  return true;
}

void AgentChannel::report(const Exit& exit) {
  registry_.on_exit(exit);
  if (!registry_.is_waiting(exit.id)) pack(exit);
}

void AgentChannel::report(const Gone& gone) {
  registry_.on_gone(gone);
  if (!registry_.is_waiting(gone.id)) pack(gone);
}

template <typename Event>
void AgentChannel::pack(Event event) {
  if (!socket_) return;
  if (packer_.full()) outbox_.push_back(packer_.take());
  if (packer_.empty()) packing_since_ = Clock::now();
  packer_.add(std::move(event));
}

void AgentChannel::replay() {
  while (registry_.is_replaying() && outbox_.size() < kReplayPackets) {
    if (packer_.full()) {
      outbox_.push_back(packer_.take());
      continue;
    }
    // No descriptors now: those under way will be back.
    if (!registry_.pack_next(packer_, find_pidfd_)) return;
    if (!registry_.is_replaying()) packer_.add(Replayed{});
  }
}

bool AgentChannel::has_room() const noexcept {
  return outbox_.size() < kOutboxLimit;
}

// Each packet wakes the agent, which takes the CPU from the spawning.
void AgentChannel::flush(bool may_hold) {
  if (!socket_) return;
  bool is_blocked = false;
  for (;;) {
    replay();
    const bool holds = may_hold && Clock::now() - packing_since_ < kHoldLimit;
    if (!packer_.empty() && !holds && has_room()) outbox_.push_back(packer_.take());
    if (outbox_.empty()) break;
    const os::Transfer sent = os::send_packet(socket_.get(), outbox_.front());
    if (sent == os::Transfer::lost) return drop();
    is_blocked = sent == os::Transfer::would_block;
    if (is_blocked) break;
    outbox_.pop_front();
  }
  if (is_blocked == wants_write_) return;
  wants_write_ = is_blocked;
  events_.modify(socket_.get(), source_, EPOLLIN | (is_blocked ? EPOLLOUT : 0u));
}

}  // namespace meshbus::keeper
