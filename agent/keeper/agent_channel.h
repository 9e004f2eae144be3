#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>

#include <sys/types.h>

#include "agent/keeper/event_set.h"
#include "agent/keeper/protocol.h"
#include "agent/keeper/replay_registry.h"
#include "agent/os/packet.h"
#include "common/base/unique_fd.h"

namespace meshbus::keeper {

/// The keeper's end of the socket to its agent, and what the next agent must be told when this one
/// is gone. Agents may change; procs and reports stay. One thread.
class AgentChannel {
 public:
  using Clock = std::chrono::steady_clock;
  using FindPidfd = std::function<int(pid_t)>;  ///< The pidfd of a running process, or -1.

  /// `source`: the number of the socket in `events`.
  AgentChannel(EventSet& events, std::uint64_t source, FindPidfd find_pidfd)
      : events_(events), source_(source), find_pidfd_(std::move(find_pidfd)) {}

  /// Talks to this agent from now on. False with errno: the socket cannot be watched.
  bool connect(UniqueFd socket);
  /// The same with another agent, which is told everything that the last one has not said Forget
  /// about. Call drop() first.
  void adopt(UniqueFd socket);
  /// Stops talking to the agent.
  void drop();
  /// Takes the socket away: this agent hears nothing more, but is not told that either.
  UniqueFd release();
  bool is_connected() const noexcept { return static_cast<bool>(socket_); }

  /// Receives one packet and hands out what is in it. False: there is none now, or the agent is
  /// gone.
  bool receive(const RequestHandlers& handlers);

  /// Tell the agent, now or by the replay.
  void report(Birth birth) { pack(std::move(birth)); }
  void report(const Exit& exit);
  void report(const Gone& gone);
  void report(const Signalled& signalled) { pack(signalled); }
  void report_replayed() { pack(Replayed{}); }
  /// Keeps copies of the pipes for the next agent. False with errno: no descriptors for that.
  bool keep(const Birth& birth) { return registry_.add(birth); }
  bool knows(std::uint64_t id) const { return registry_.knows(id); }
  void forget(std::uint64_t id) { registry_.forget(id); }
  void close_input(std::uint64_t id) { registry_.close_input(id); }

  /// Sends what is packed as far as the socket takes it. `may_hold`: more reports are to come, so
  /// the last packet may wait for company.
  void flush(bool may_hold);
  /// Whether the agent takes packets: spawning waits while it does not.
  bool has_room() const noexcept;
  /// Whether the replay waits for descriptors, which tell nobody when they are there again.
  bool is_short_of_descriptors() const noexcept {
    return registry_.is_replaying() && !wants_write_;
  }

 private:
  template <typename Event>
  void pack(Event event);
  void replay();

  EventSet& events_;
  std::uint64_t source_;
  FindPidfd find_pidfd_;
  UniqueFd socket_;
  ReplayRegistry registry_;
  EventPacker packer_;
  Clock::time_point packing_since_{};
  std::deque<os::Packet> outbox_;
  bool wants_write_ = false;
};

}  // namespace meshbus::keeper
