#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include "agent/os/packet.h"
#include "agent/os/spec.h"
#include "common/base/unique_fd.h"
#include "meshbus/result.h"

/// What keeper and agent say to each other: batches of records over a SOCK_SEQPACKET pair,
/// descriptors by SCM_RIGHTS. Both ends are of one build on one machine, so numbers travel in
/// native layout behind a magic and a version. Spawn requests travel in a memfd because an
/// environment may be larger than any datagram. The keeper trusts the agent, but garbage must not
/// crash it: every length is checked.
namespace meshbus::keeper {

inline constexpr std::size_t kMaxProcsPerBatch =
    60;  ///< One memfd + 60 bootstraps, or 60 births × 4 descriptors, < SCM_MAX_FD.
inline constexpr std::size_t kMaxSpecBytes =
    16u << 20;  ///< The size of one encoded batch; Linux takes 6 MiB of argv + env at most.
inline constexpr std::size_t kMaxStringsPerSpec = 1u << 16;  ///< argv or env entries.

/// Keeper → agent: a proc was started, or could not be. One per ProcSpec, and again for each new
/// agent. Owns its descriptors.
struct Birth {
  std::uint64_t id = 0;
  std::optional<os::SpawnFailure> failure;  ///< Set: nothing below is.
  pid_t pid = -1;
  UniqueFd pidfd;
  UniqueFd stdin_pipe;   ///< Write end, when asked for.
  UniqueFd stdout_pipe;  ///< Read end, when asked for.
  UniqueFd stderr_pipe;
  std::int64_t spawned_realtime_ns = 0;   ///< CLOCK_REALTIME, just before there was a process.
  std::int64_t started_realtime_ns = 0;   ///< CLOCK_REALTIME, when it executed its command.
  std::int64_t started_monotonic_ns = 0;  ///< CLOCK_MONOTONIC.
};

/// Keeper → agent: a proc ended. Sent in the turn its pidfd became readable, after its Birth,
/// before its Gone.
struct Exit {
  std::uint64_t id = 0;
  bool signaled = false;  ///< true: `code` is a signal number; false: an exit code.
  int code = 0;
  bool core_dumped = false;
  std::int64_t ended_realtime_ns = 0;
  std::int64_t ended_monotonic_ns = 0;
  std::int64_t user_us = 0;    ///< CPU time in user mode, µs, waited-for children included.
  std::int64_t system_us = 0;  ///< CPU time in the kernel, µs.
  std::int64_t max_rss_kib = 0;
  std::uint32_t memory_kills = 0;  ///< Processes in the cgroup of the memory limit that the
                                   ///< kernel has killed for want of memory.
  bool memory_limit_hit = false;   ///< The memory limit was reached.
};

/// Keeper → agent: no descendant of that proc is alive any more. Its pipes now come to an end.
struct Gone {
  std::uint64_t id = 0;
};

/// Agent → keeper: kill(2) a proc, or its whole process group. A proc that is reaped is never
/// signalled; a queued one is cancelled by any signal that ends a process (Birth with stage
/// cancelled).
struct Signal {
  std::uint64_t id = 0;
  int signal = 0;
  bool group = false;
};

/// Agent → keeper: stop a proc with all its descendants on purpose, for a time. The keeper ends
/// that by itself, whatever becomes of the agent, and earlier when the proc is told to end or to go
/// on. The next Signalled says why one was not begun: ESRCH, EBUSY (`most` procs are held),
/// EALREADY, EINVAL, EOPNOTSUPP (it shares its process).
struct Hold {
  std::uint64_t id = 0;
  std::uint32_t for_ms = 0;
  std::uint8_t percent = 100;  ///< The part of the time in which it is stopped.
  std::uint32_t most = 0;      ///< So many procs may be held at a time, with this one.
};

/// Agent → keeper: answer with Signalled when each Signal before this one has been sent.
struct Mark {
  std::uint64_t token = 0;  ///< Comes back in the answer.
};

/// Keeper → agent: each Signal before that Mark has been sent, or its proc has ended.
struct Signalled {
  std::uint64_t token = 0;
  std::uint64_t id = 0;    ///< The first proc since the mark before that could not be signalled.
  std::int32_t error = 0;  ///< Why: errno of kill(2); 0: there is no such proc.
};

/// Agent → keeper: SIGKILL for every proc of a mesh, by cgroup where there is one; queued spawns of
/// it are cancelled.
struct KillMesh {
  std::string mesh;
};

/// Agent → keeper: what became of that proc is written down: forget it. Until then everything about
/// it is told to each new agent.
struct Forget {
  std::uint64_t id = 0;
};

/// Agent → keeper: nothing more is written to that proc's stdin. Its end is seen when both have
/// closed theirs.
struct CloseInput {
  std::uint64_t id = 0;
};

/// Keeper → agent: all that is known from before this agent's time has been told. Every agent hears
/// it once.
struct Replayed {};

/// Packs keeper → agent records, in order, into one packet.
class EventPacker {
 public:
  void add(Birth birth);
  void add(const Exit& exit);
  void add(const Gone& gone);
  void add(Replayed replayed);
  void add(const Signalled& signalled);
  bool empty() const noexcept { return count_ == 0; }
  /// No room for one more Birth with all its descriptors: take() first.
  bool full() const noexcept;
  /// The packet; the packer is empty again.
  os::Packet take();

 private:
  os::Packet packet_;
  std::uint32_t count_ = 0;
};

/// Receivers of decoded events; each must be set.
struct EventHandlers {
  std::function<void(Birth)> on_birth;
  std::function<void(const Exit&)> on_exit;
  std::function<void(const Gone&)> on_gone;
  std::function<void()> on_replayed;
  std::function<void(const Signalled&)> on_signalled;
};

/// Checks a packet from the keeper and hands out what is in it. Errors: malformed_message (records
/// before the bad one were handed out).
Result<void> decode_events(os::Packet packet, const EventHandlers& handlers);

/// Encodes a batch for its memfd. Errors: too_large, naming the limit; configuration_error for
/// strings with a NUL inside.
Result<std::vector<std::byte>> encode_batch(const os::SpawnSpec& shared,
                                            std::span<const os::ProcSpec> procs);

/// The opposite; `bootstraps` are the descriptors that came along, one per proc that announced one.
/// Errors: malformed_message.
Result<os::SpawnBatch> decode_batch(std::span<const std::byte> bytes,
                                    std::vector<UniqueFd> bootstraps);

/// A packet that carries the batch: memfd, then the bootstrap descriptors, which it takes over.
/// Errors: as encode_batch, io_error.
Result<os::Packet> make_spawn_packet(const os::SpawnSpec& shared, std::span<os::ProcSpec> procs);
os::Packet make_signal_packet(std::span<const Signal> signals);
os::Packet make_hold_packet(const Hold& hold);
os::Packet make_mark_packet(Mark mark);
os::Packet make_kill_mesh_packet(const KillMesh& request);
os::Packet make_forget_packet(std::span<const Forget> ids);
os::Packet make_close_input_packet(std::span<const CloseInput> ids);

/// Receivers of decoded requests; each must be set.
struct RequestHandlers {
  std::function<void(os::SpawnBatch)> on_spawn;
  std::function<void(const Signal&)> on_signal;
  std::function<void(const Hold&)> on_hold;
  std::function<void(Mark)> on_mark;
  std::function<void(const KillMesh&)> on_kill_mesh;
  std::function<void(const Forget&)> on_forget;
  std::function<void(const CloseInput&)> on_close_input;
};

/// The versions of the packets in both directions: "4.2". A keeper of another one takes nothing
/// from this build, and the other way round.
std::string protocol_version();

/// Checks a packet from the agent and hands out what is in it. Errors: malformed_message, io_error.
Result<void> decode_requests(os::Packet packet, const RequestHandlers& handlers);

}  // namespace meshbus::keeper
