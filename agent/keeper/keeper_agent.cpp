// What the keeper and its agent say to each other; the agent may change.
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include "agent/keeper/keeper.h"

namespace meshbus::keeper {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto hold_limit = 20ms;  // with more to start or to signal: how long births and exits wait for company in a packet
constexpr int agent_packets_per_turn = 4;
constexpr auto wave_limit = 2ms;
constexpr std::size_t most_asked_signals = 1u << 14;  // that wait; who asks for more gets them at once
constexpr std::size_t replay_packets = 4;             // under way to a new agent: each has up to 250 descriptors of ours in it

bool ends_a_process(int signal) {
  return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

}  // namespace

void Keeper::on_agent() {
  for (int i = 0; i < agent_packets_per_turn && agent_; ++i) {
    if (!hear_agent()) return;
  }
}

// One packet. False: nothing is there now, or the agent is gone.
bool Keeper::hear_agent() {
  const RequestHandlers handlers{.on_spawn = [this](os::SpawnBatch batch) { on_spawn(std::move(batch)); },
                                 .on_signal = [this](const Signal& signal) { on_signal(signal); },
                                 .on_kill_mesh = [this](const KillMesh& request) { on_kill_mesh(request); },
                                 .on_forget = [this](const Forget& proc) { replay_registry_.forget(proc.id); },
                                 .on_close_input = [this](const CloseInput& proc) { replay_registry_.close_input(proc.id); }};
  os::Packet packet;
  const os::Transfer received = os::receive_packet(agent_.get(), packet);
  if (received == os::Transfer::would_block) return false;
  if (received == os::Transfer::lost) return drop_agent(), false;
  if (auto done = decode_requests(std::move(packet), handlers); !done) {
    // An agent of another build, or memory gone bad: not somebody to take orders from. It sees the end of the socket.
    std::fprintf(stderr, "meshbus-keeper: %s: no longer listening to this agent\n", done.error().to_string().c_str());
    return drop_agent(), false;
  }
  return true;
}

// The procs stay, and what was asked for is still done: the warden says whether there will be another agent, who is told everything.
void Keeper::drop_agent() {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, agent_.get(), nullptr);
  agent_.reset();
  agent_wants_write_ = false;
  outbox_.clear();
  packer_.take();
}

void Keeper::adopt_agent(UniqueFd socket) {
  // The last words of the one before count: it is dead, so this ends.
  while (agent_ && hear_agent()) {
  }
  if (agent_) drop_agent();
  agent_ = std::move(socket);
  if (!watch(agent_.get(), EPOLL_CTL_ADD, EPOLLIN, agent_source)) {
    std::fprintf(stderr, "meshbus-keeper: no memory to listen to the new agent\n");
    agent_.reset();  // it sees the end of the socket, and the warden its end
    return;
  }
  replay_registry_.start_replay();
  if (!replay_registry_.is_replaying()) report(Replayed{});
}

void Keeper::replay() {
  const auto find_pidfd = [this](pid_t pid) {
    const auto known = procs_.find(pid);
    return known == procs_.end() ? -1 : known->second.pidfd.get();
  };
  while (replay_registry_.is_replaying() && outbox_.size() < replay_packets) {
    if (packer_.full()) {
      outbox_.push_back(packer_.take());
      continue;
    }
    if (!replay_registry_.pack_next(packer_, find_pidfd)) return;  // no descriptors now: those under way will be back
    if (!replay_registry_.is_replaying()) packer_.add(Replayed{});
  }
}

void Keeper::on_spawn(os::SpawnBatch batch) {
  const auto prepared = std::make_shared<const PreparedSpec>(std::move(batch.shared));
  Queued* process = nullptr;  // that of the proc before, when it is a new one
  for (os::ProcSpec& proc : batch.procs) {
    if (proc.place == 0) process = nullptr;
    // A new agent asks again for what it does not know to be born.
    if (replay_registry_.knows(proc.id) || !queued_.insert(proc.id).second) continue;
    if (proc.place == 0) {
      process = &queue_.emplace_back(Queued{prepared, {}, false});
    } else if (process == nullptr) {
      queued_.erase(proc.id);
      report_unborn(proc.id, {os::SpawnStage::spec, EINVAL, "the process that it was to share was started before"});
      continue;
    } else {
      process->shares = true;
    }
    process->procs.push_back(std::move(proc));
  }
}

void Keeper::on_signal(const Signal& signal) {
  const auto known = pids_.find(signal.id);
  if (known != pids_.end()) return asked_signals_.push_back(signal);
  if (!ends_a_process(signal.signal) || queued_.erase(signal.id) == 0) return;
  for (auto queued = queue_.begin(); queued != queue_.end(); ++queued) {
    auto& procs = queued->procs;
    const auto found = std::find_if(procs.begin(), procs.end(), [&](const os::ProcSpec& each) { return each.id == signal.id; });
    if (found == procs.end()) continue;
    if (found == procs.begin() && procs.size() > 1) procs[1].bootstrap = std::move(found->bootstrap);
    procs.erase(found);
    if (procs.empty()) queue_.erase(queued);
    return report_cancelled(signal.id);
  }
}

// In the order in which they were asked for. Who is told to end needs a CPU for it, and a thousand of them at once would keep everybody
// else from theirs: so many at a time, and the next when most of these are gone, or do not go.
void Keeper::signal_some() {
  const auto now = Clock::now();
  if (asked_signals_.empty() || (wave_left_ > procs_per_wave_ / 2 && now < next_wave_ && asked_signals_.size() < most_asked_signals))
    return;
  ++wave_;
  wave_left_ = 0;
  next_wave_ = now + wave_limit;
  while (!asked_signals_.empty() && (wave_left_ < procs_per_wave_ || asked_signals_.size() >= most_asked_signals)) {
    const Signal signal = asked_signals_.front();
    asked_signals_.pop_front();
    const auto known = pids_.find(signal.id);
    if (known == pids_.end()) continue;  // it has ended
    Proc& proc = procs_.at(known->second);
    if (proc.shared && proc.shared->aim(signal) == SharedProcess::Aim::none) continue;
    ::kill(signal.group ? -known->second : known->second, signal.signal);  // not reaped: the number is its own
    if (!ends_a_process(signal.signal) || proc.wave == wave_) continue;
    proc.wave = wave_;
    ++wave_left_;
  }
}

void Keeper::report_cancelled(std::uint64_t id) {
  queued_.erase(id);
  report_unborn(id, {os::SpawnStage::cancelled, ECANCELED, {}});
}

void Keeper::report_unborn(std::uint64_t id, os::SpawnFailure failure) {
  Birth birth;
  birth.id = id;
  birth.failure = std::move(failure);
  replay_registry_.add(birth);
  report(std::move(birth));
}

void Keeper::on_kill_mesh(const KillMesh& request) {
  const auto is_of_mesh = [&](const Queued& queued) { return queued.prepared->spec().mesh == request.mesh; };
  for (const Queued& queued : queue_) {
    if (!is_of_mesh(queued)) continue;
    for (const os::ProcSpec& proc : queued.procs) report_cancelled(proc.id);
  }
  std::erase_if(queue_, is_of_mesh);
  const auto mesh = meshes_.find(request.mesh);
  if (mesh != meshes_.end() && mesh->second.cgroup) os::kill_cgroup(mesh->second.cgroup->path());
  for (const auto& [pid, proc] : procs_) {
    if (proc.mesh == request.mesh) ::kill(-pid, SIGKILL);
  }
}

void Keeper::report(Birth birth) {
  pack(std::move(birth));
}

void Keeper::report(const Exit& exit) {
  replay_registry_.on_exit(exit);
  if (!replay_registry_.is_waiting(exit.id)) pack(exit);
}

void Keeper::report(const Gone& gone) {
  replay_registry_.on_gone(gone);
  if (!replay_registry_.is_waiting(gone.id)) pack(gone);
}

void Keeper::report(Replayed replayed) {
  pack(replayed);
}

template <typename Event>
void Keeper::pack(Event event) {
  if (!agent_) return;
  if (packer_.full()) outbox_.push_back(packer_.take());
  if (packer_.empty()) packing_since_ = Clock::now();
  packer_.add(std::move(event));
}

void Keeper::flush() {
  if (!agent_) return;
  bool blocked = false;
  for (;;) {
    replay();
    // Each packet wakes the agent, which takes the CPU from the spawning: with a queue, a few at a time.
    const bool hold = (!queue_.empty() || !asked_signals_.empty()) && Clock::now() - packing_since_ < hold_limit;
    if (!packer_.empty() && !hold && outbox_.size() < outbox_limit) outbox_.push_back(packer_.take());
    if (outbox_.empty()) break;
    const os::Transfer sent = os::send_packet(agent_.get(), outbox_.front());
    if (sent == os::Transfer::lost) return drop_agent();
    blocked = sent == os::Transfer::would_block;
    if (blocked) break;
    outbox_.pop_front();
  }
  if (blocked == agent_wants_write_) return;
  agent_wants_write_ = blocked;
  watch(agent_.get(), EPOLL_CTL_MOD, EPOLLIN | (blocked ? EPOLLOUT : 0u), agent_source);
}

}  // namespace meshbus::keeper
