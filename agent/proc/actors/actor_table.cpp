#include "agent/proc/actors/actor_table.h"

namespace meshbus::mesh_proc {
namespace {

/// Those that have ended are remembered up to these numbers.
constexpr std::size_t kEndedRoots = 1000;
constexpr std::size_t kEndedChildren = 256;

}  // namespace

ActorTable::Cell ActorTable::find(const Key& key) const {
  const auto found = cells_.find(key);
  return found == cells_.end() ? nullptr : found->second;
}

ActorCell* ActorTable::find_port(std::uint32_t port) const {
  const auto found = by_port_.find(port);
  return found == by_port_.end() ? nullptr : found->second.get();
}

void ActorTable::add(const Cell& cell) {
  cells_.insert_or_assign(Key(cell->id.name().to_string(), cell->id.pid()), cell);
  by_port_.insert_or_assign(cell->port, cell);
  ++live_;
}

void ActorTable::note_end(const ActorCell& cell) {
  (cell.id.pid() == 0 ? ended_roots_ : ended_children_)
      .emplace_back(cell.id.name().to_string(), cell.id.pid());
  forget(ended_roots_, kEndedRoots);
  forget(ended_children_, kEndedChildren);
  --live_;
}

void ActorTable::forget(std::deque<Key>& ended, std::size_t most) {
  while (ended.size() > most) {
    if (const auto found = cells_.find(ended.front()); found != cells_.end()) {
      const auto port = by_port_.find(found->second->port);
      if (port != by_port_.end() && port->second == found->second) by_port_.erase(port);
      cells_.erase(found);
    }
    ended.pop_front();
  }
}

ActorTable::Cells ActorTable::take_all() {
  by_port_.clear();
  return std::exchange(cells_, {});
}

}  // namespace meshbus::mesh_proc
