#include "agent/keeper/keeper_client.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <utility>

namespace meshbus::keeper {

namespace {
constexpr int kPacketsPerCall = 2;  // between them the agent hears others
constexpr std::size_t kRecordsPerPacket = 1024;
Error refused() {
  return {ErrorCode::refused, "the keeper is gone"};
}

template <typename Record, typename Maker>
void queue_in_pieces(std::deque<os::Packet>& queue, std::vector<Record>& records, Maker make) {
  const std::span<const Record> all(records);
  for (std::size_t first = 0; first < all.size(); first += kRecordsPerPacket)
    queue.push_back(make(all.subspan(first, std::min(kRecordsPerPacket, all.size() - first))));
  records.clear();
}
}  // namespace

KeeperClient::KeeperClient(UniqueFd socket, Events events)
    : socket_(std::move(socket)),
      events_(std::move(events)),
      // The keeper may still answer the agent before this one: no token is used twice.
      next_token_(
          static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count())) {
  handlers_ = {.on_birth = [this](Birth birth) { events_.on_birth(std::move(birth)); },
               .on_exit = [this](const Exit& exit) { events_.on_exit(exit); },
               .on_gone = [this](const Gone& gone) { events_.on_gone(gone); },
               .on_replayed = [this] { events_.on_replayed(); },
               .on_signalled = [this](const Signalled& what) { on_signalled(what); }};
}

Result<void> KeeperClient::spawn(os::SpawnBatch batch) {
  if (lost_) return fail(refused());
  queue_collected();  // what was asked for first goes first
  std::vector<os::Packet> packets;
  const std::span<os::ProcSpec> procs(batch.procs);
  for (std::size_t first = 0; first < procs.size();) {
    std::size_t end = std::min(first + kMaxProcsPerBatch, procs.size());
    while (end < procs.size() && end > first + 1 && procs[end].place != 0)
      --end;  // those of one process stay together
    auto packet = make_spawn_packet(batch.shared, procs.subspan(first, end - first));
    if (!packet) return fail(packet.error());
    packets.push_back(std::move(*packet));
    first = end;
  }
  for (os::Packet& packet : packets) queue_.push_back(std::move(packet));
  return {};
}

Result<void> KeeperClient::signal(const Signal& signal) {
  if (lost_) return fail(refused());
  signals_.push_back(signal);
  return {};
}

Result<void> KeeperClient::hold(const Hold& hold) {
  if (lost_) return fail(refused());
  queue_collected();
  queue_.push_back(make_hold_packet(hold));
  return {};
}

void KeeperClient::after_signals(AfterSignals after) {
  if (lost_) return after(fail(refused()));
  queue_collected();
  queue_.push_back(make_mark_packet({next_token_}));
  awaiting_.emplace_back(next_token_++, std::move(after));
}

void KeeperClient::on_signalled(const Signalled& signalled) {
  if (awaiting_.empty() || awaiting_.front().first != signalled.token) return;
  const auto after = std::move(awaiting_.front().second);
  awaiting_.pop_front();
  after(signalled);
}

Result<void> KeeperClient::kill_mesh(const KillMesh& request) {
  if (lost_) return fail(refused());
  queue_collected();
  queue_.push_back(make_kill_mesh_packet(request));
  return {};
}

void KeeperClient::forget(const Forget& proc) {
  if (!lost_) forgets_.push_back(proc);
}

void KeeperClient::close_input(const CloseInput& proc) {
  if (!lost_) closes_.push_back(proc);
}

void KeeperClient::queue_collected() {
  queue_in_pieces(queue_, signals_, make_signal_packet);
  queue_in_pieces(queue_, closes_, make_close_input_packet);
  queue_in_pieces(queue_, forgets_, make_forget_packet);
}

void KeeperClient::flush() {
  if (lost_) return;
  queue_collected();
  while (!queue_.empty()) {
    const os::Transfer sent = os::send_packet(socket_.get(), queue_.front());
    if (sent == os::Transfer::would_block) return;
    // The keeper's last words may still be waiting to be read: the end is noticed by the reading
    // side.
    if (sent == os::Transfer::lost) return queue_.clear();
    queue_.pop_front();
  }
}

void KeeperClient::on_ready() {
  for (int i = 0; i < kPacketsPerCall && !lost_; ++i) {
    os::Packet packet;
    const os::Transfer received = os::receive_packet(socket_.get(), packet);
    if (received == os::Transfer::would_block) break;
    if (received == os::Transfer::lost || !decode_events(std::move(packet), handlers_))
      return lose();
  }
}

void KeeperClient::lose() {
  if (std::exchange(lost_, true)) return;
  queue_.clear();
  signals_.clear();
  forgets_.clear();
  closes_.clear();
  for (const auto& [token, after] : std::exchange(awaiting_, {})) after(fail(refused()));
  events_.on_lost();
}

}  // namespace meshbus::keeper
