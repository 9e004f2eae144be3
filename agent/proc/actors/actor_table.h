#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "agent/proc/actors/actor_cell.h"

namespace meshbus::mesh_proc {

/// The actors of one proc by name and by port: those that live, and the last ones that have ended.
/// Holds no lock: its owner's mutex guards it.
class ActorTable {
 public:
  using Key = std::pair<std::string, std::uint64_t>;  ///< Name and pid.
  using Cell = std::shared_ptr<ActorCell>;
  using Cells = std::map<Key, Cell>;

  /// Null when there is none.
  Cell find(const Key& key) const;
  ActorCell* find_port(std::uint32_t port) const;
  const Cells& all() const noexcept { return cells_; }
  std::size_t live() const noexcept { return live_; }

  /// The pid of the next child of that name.
  std::uint64_t next_pid(const std::string& name) { return ++next_pid_[name]; }
  /// An actor that lives from now on, in place of one of its name, pid or port that has ended.
  void add(const Cell& cell);
  /// It has ended: it is remembered until too many others have ended since.
  void note_end(const ActorCell& cell);
  /// Removes all, without forgetting what was counted.
  Cells take_all();

 private:
  void forget(std::deque<Key>& ended, std::size_t most);

  Cells cells_;
  std::unordered_map<std::uint32_t, Cell> by_port_;
  std::map<std::string, std::uint64_t> next_pid_;
  std::size_t live_ = 0;
  std::deque<Key> ended_roots_;
  std::deque<Key> ended_children_;
};

}  // namespace meshbus::mesh_proc
