#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "meshbus/address.h"
#include "meshbus/rank_report.h"

/// The event logs of hosts: ends and their reasons. Plain values.
namespace [[gnu::visibility("default")]] meshbus {

/// What happened.
enum class EventKind : std::uint8_t {
  unknown = 0,        ///< A kind that this release does not know.
  agent_started = 1,  ///< A host agent began its work, the first one or one that took over.
  role_ended = 2,     ///< Broker, agent or keeper of the host has ended.
  spawn_refused = 3,  ///< The host refused to start procs.
  stop_asked = 4,     ///< A stop of procs was requested.
  signal_asked = 5,   ///< A signal that ends processes was requested.
  owner_gone = 6,     ///< The launcher of a mesh was gone.
  lease_lapsed = 7,   ///< The lease of a mesh was not renewed in time.
  host_stopping = 8,  ///< The host was asked to end.
  proc_ended = 9,     ///< HostEvent::end.
  handed_over = 10,   ///< A mesh has another owner from then on.
  owner_away = 11,    ///< The connection of the owner of a mesh has ended; its lease counts.
  chaos = 12,         ///< A fault was made on purpose: meshbus chaos.
  moved = 13,         ///< Ranks of a lost host were started here (ProcSpec::spares).
  // Those of controllers are in a Site only; HostEvent::by is the controller.
  controller_up = 128,     ///< A controller answers at HostEvent::host.
  controller_lost = 129,   ///< The controller does not answer any more.
  controller_late = 130,   ///< The controller polls its hosts later than it has to.
  host_unreachable = 131,  ///< The controller cannot reach the host that `text` names.
  host_back = 132,         ///< The controller reaches that host again.
};
/// "owner_gone". Never null.
std::string_view to_string(EventKind kind) noexcept;

/// One entry of the event log of a host.
struct HostEvent {
  EventKind kind = EventKind::unknown;         ///< What happened.
  HostAddr host = HostAddr::local(0);          ///< The host that wrote it.
  std::chrono::system_clock::time_point time;  ///< When it was written.
  std::string mesh;                            ///< With its uuid; empty: it is about the host.
  RankSet ranks;     ///< Empty: all ranks of the mesh on that host, or that of `end`.
  std::string by;    ///< The requester.
  std::string text;  ///< For people.
  std::optional<std::uint64_t> because;  ///< stop_asked: the rank whose end is the reason.
  std::optional<RankReport>
      end;  ///< proc_ended. (The last lines of stderr may be fewer than they were.)
};

}  // namespace meshbus
