#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "meshbus/events.h"

namespace meshbus::cli {

/// What an event is in the story of how a mesh ended.
enum class StoryRole {
  first,        ///< What all began with.
  consequence,  ///< A consequence of it, as the host says.
  also,         ///< Another end, order or refusal that follows from nothing that is known.
  former,       ///< The end of an attempt of a rank that a later attempt followed.
  around,       ///< What happened to the host meanwhile.
};
/// "first". Never null.
std::string_view to_string(StoryRole role) noexcept;

struct StoryEntry {
  StoryRole role = StoryRole::also;
  HostEvent event;
  /// The same happened to all of these; its own rank among them. Empty: to the mesh, or the host.
  RankSet ranks;
  /// When: a rank's end, else when it was written down.
  std::chrono::system_clock::time_point time;
  /// The number of ends that this entry tells.
  std::size_t ends = 1;
  /// Some rank ended like that in several attempts.
  bool is_repeated = false;
  /// When the last of them was.
  std::chrono::system_clock::time_point last = time;
};

/// How one mesh ended, out of the event logs of its hosts. Meshes that share a uuid are roles of
/// one job, and their story is one. Pure.
struct Story {
  std::string mesh;
  /// The other roles of its job, by name; empty: there are none.
  std::vector<std::string> others;
  /// The first one, its consequences, then the others; each by time.
  std::vector<StoryEntry> entries;
};

/// Whether these are roles of one job.
bool is_one_job(const std::string& mesh, const std::string& other);

/// Splits what was asked for, "trainers_3-13Se1Maqzryj" or a ProcId, into mesh and rank; nothing
/// when it is no name of a proc.
struct NamedRank {
  std::string mesh;
  std::uint64_t rank;
};
std::optional<NamedRank> parse_proc(std::string_view word);

/// The names of the meshes in these events, the one that something happened to last in front.
std::vector<std::string> meshes_in(const std::vector<HostEvent>& events);

/// Takes from these events, by time, those of `mesh`, of the other roles of its job, and of their
/// hosts while they lived. `ranks`: the
/// ends of other ranks are left out, but for the first cause; empty: all.
Story tell(const std::vector<HostEvent>& events, const std::string& mesh, const RankSet& ranks);

/// One event in words, without time and place: "exit 3", "stopped: rank 2 failed: exit 3 (by
/// tcp:…); killed by SIGTERM". `with_asker`: with the "(by …)".
std::string words_of(const HostEvent& event, bool with_asker = true);

}  // namespace meshbus::cli
