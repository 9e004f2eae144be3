#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <unordered_map>

#include "agent/keeper/protocol.h"

namespace meshbus::keeper {

/// What a new agent must be told: every proc that the last one has not said Forget about, with
/// descriptors of ours for its pipes, so that they stay open when an agent dies. Pure bookkeeping.
class ReplayRegistry {
 public:
  /// A proc was started, or could not be. Keeps copies of its pipes. False with errno: there are no
  /// descriptors for that.
  bool add(const Birth& birth);
  /// Each of these does nothing when the proc is unknown.
  void on_exit(const Exit& exit);
  void on_gone(const Gone& gone);
  void forget(std::uint64_t id) { records_.erase(id); }
  void close_input(std::uint64_t id);
  bool knows(std::uint64_t id) const { return records_.contains(id); }

  /// There is a new agent: it will be told of everything by pack_next().
  void start_replay();
  bool is_replaying() const noexcept { return !replay_.empty(); }
  /// What happens to this one now is told by the replay, when its turn comes.
  bool is_waiting(std::uint64_t id) const;
  /// Packs what is known of the next one; `find_pidfd` says the pidfd of a living one, or -1.
  /// False: its descriptors could not be copied now; try again later.
  bool pack_next(EventPacker& packer, const std::function<int(pid_t)>& find_pidfd);

 private:
  struct Record {
    Birth birth;
    std::optional<Exit> exit;
    bool gone = false;
    bool waiting = false;
  };
  std::unordered_map<std::uint64_t, Record> records_;
  std::deque<std::uint64_t> replay_;
};

}  // namespace meshbus::keeper
