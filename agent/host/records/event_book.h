#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/host/model/mesh.h"
#include "common/base/event_log.h"
#include "common/base/log.h"
#include "wire/forward.h"

namespace meshbus::host {

/// What happened on this host: collects a turn's events, writes them down, finds them again
/// (spec 4.9). What is written may be written twice when an agent dies in between: readers tell the
/// ends of a rank apart by its incarnation. Lives on the agent's thread.
class EventBook {
 public:
  explicit EventBook(EventLog log) : log_(std::move(log)) {}
  ~EventBook() { write(); }
  EventBook(const EventBook&) = delete;
  EventBook& operator=(const EventBook&) = delete;

  /// An event that happens now.
  void add(wire::EventT event);
  void add(wire::EventKind kind, std::string mesh, std::string by, std::string text);
  /// The exit report of this proc is made.
  void add_end(const Proc& proc);
  /// The same for an event that any peer can cause as often as it likes: ten a second are written
  /// down.
  void add_limited(wire::EventT event);

  /// Writes what was collected. Call it at the end of each turn, before anything is sent.
  void write();

  /// The position of the next entry (wire::HostState.events_end).
  std::uint64_t end() const { return log_.end(); }
  /// See wire::GetEvents. At most `bytes`, and a bounded share of the log is looked at.
  wire::EventListT find(std::string_view mesh, std::uint64_t from, std::size_t bytes) const;

 private:
  EventLog log_;
  std::string lines_;
  log::LineLimit limit_{10};
};

}  // namespace meshbus::host
