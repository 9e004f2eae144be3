#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "meshbus/address.h"
#include "wire/control_generated.h"

namespace meshbus {

/// Something that a controller has to say.
struct WatchEvent {
  enum class Kind {
    state,             ///< A rank is in another state than was said before.
    host_unreachable,  ///< A host does not answer. That is no death: its procs may be well.
    host_back,         ///< It answers again.
  };
  Kind kind = Kind::state;
  std::string mesh;
  HostAddr host = HostAddr::local(0);
  wire::RankState rank;
  std::shared_ptr<const wire::CertificateT> certificate;
  std::string point;    ///< Of the rank: "host=0/2,gpu=1/4".
  std::string problem;  ///< Of a host.
};

/// Turns what hosts answer to polls into what is worth saying: each change once, each end of a rank once and with its certificate. Pure: no
/// clock, thread or socket.
///
/// It remembers what the agents still list, and nothing else.
class MeshWatch {
 public:
  /// `mesh`: only that one, by name or base; empty = all.
  explicit MeshWatch(std::string mesh = {}) : only_(std::move(mesh)) {}

  struct Answer {
    std::vector<WatchEvent> events;
    /// Meshes about which that host has to be asked for all that it knows (GetState): a rank has ended, or the list was too short.
    std::vector<std::string> wanted;
    /// There are more meshes behind this one (ListMeshes.after); empty: that was all.
    std::string next;
  };
  /// A host answered to ListMeshes.
  Answer on_list(const HostAddr& host, const wire::MeshList& list);
  /// A host answered to GetState. An end whose certificate is not there yet is told at the next answer, with it or without.
  std::vector<WatchEvent> on_state(const HostAddr& host, const wire::MeshState& state);
  /// A host did not answer.
  std::vector<WatchEvent> on_silence(const HostAddr& host, const std::string& problem);

  /// All that is known of a mesh (empty = all), as `state` events: for late subscribers.
  std::vector<WatchEvent> known(const std::string& mesh) const;

 private:
  struct Rank {
    wire::RankState state;
    std::shared_ptr<const wire::CertificateT> certificate;
    std::string point;
    /// The state that was told.
    std::uint64_t told_generation = 0;
    std::uint64_t told_incarnation = 0;
    /// The end was seen in a full answer that had no certificate.
    bool was_late = false;
  };
  using Ranks = std::map<std::uint64_t, Rank>;

  bool is_wanted(std::string_view mesh) const;
  /// Takes the ranks of an answer over. Returns whether an end is still to be told.
  bool take(Ranks& known, const wire::MeshState& state);
  static bool is_told(const Rank& rank);
  WatchEvent tell(const std::string& mesh, const HostAddr& host, Rank& rank) const;

  std::string only_;
  std::map<HostAddr, std::map<std::string, Ranks>> hosts_;
  std::map<HostAddr, bool> is_silent_;
};

/// Whether nothing comes after that state.
bool is_terminal(wire::ProcState state);

/// Events of kind `state` as messages to a subscriber, one mesh and host each, each well below the limit of a message.
std::vector<wire::MeshEventT> to_messages(const std::vector<WatchEvent>& events, std::uint64_t poll);

}  // namespace meshbus
