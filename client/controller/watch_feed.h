#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/controller/watch_event.h"
#include "wire/forward.h"
#include "wire/ranks_generated.h"

namespace meshbus {

/// Turns the messages of a controller into events: each once, even if messages are repeated or
/// lost. Pure: messages and times come in, events go out.
class WatchFeed {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// What was asked again, and not answered, is asked again after so long.
  static constexpr std::chrono::seconds kAskLimit{2};

  std::vector<WatchEvent> on_event(const wire::MeshEventT& event, Time now);
  void on_heartbeat(const wire::MeshHeartbeatT& heartbeat, Time now);
  /// We subscribe again, to this controller or another one: it counts from 1.
  void restart();
  /// Our Subscribe (again) was answered: the present state follows.
  void on_subscribed();
  /// Something was lost: Subscribe.again is to be sent. True once for each time that it is to be.
  bool should_ask_again(Time now);
  /// The controller, or the way to it, is in trouble: heartbeats are overdue.
  bool is_silent(Time now) const;
  std::uint64_t heartbeats() const noexcept { return heartbeats_; }

 private:
  struct Told {
    std::uint64_t incarnation;
    std::uint64_t generation;
    bool is_ready;
    std::uint32_t restarts;
    std::string host;
    /// Whether that state is what was told, or a later one of this rank was: another controller may
    /// be behind the one before.
    bool covers(const wire::RankState& state, const wire::MeshEventT& event) const;
  };
  struct Troubled {
    wire::RankTrouble known;
    std::shared_ptr<const wire::StuckHandlerT> stuck;
    wire::Trouble told = wire::Trouble::none;
    std::uint64_t sequence = 0;
  };
  struct Standing {
    wire::MeshEventKind kind;
    std::uint64_t sequence;
  };
  /// Whether that message has not been here yet.
  bool note(std::uint64_t sequence);
  void miss(std::uint64_t first, std::uint64_t last);
  void note_trouble(const wire::MeshEventT& event, const wire::RankTrouble& trouble);
  /// What there is to tell of the troubles of that rank: nothing before it is ready, and nothing
  /// after that.
  const Troubled* take_trouble(const std::string& mesh, std::uint64_t rank);
  /// Those ranks whose restart no controller has told yet.
  RankSet new_restarts(const wire::MeshEventT& event, const RankSet& ranks);
  void forget(const std::string& mesh, const RankBlock& ranks);
  std::vector<WatchEvent> on_other(const wire::MeshEventT& event, WatchEvent one);

  std::uint64_t sequence_ = 0;
  /// What was sent and did not come; it may have been overtaken only.
  std::set<std::uint64_t> missing_;
  std::optional<Time> asked_;
  std::uint64_t asked_upto_ = 0;
  std::map<std::pair<std::string, std::uint64_t>, Told> told_;
  std::map<std::pair<std::string, std::uint64_t>, Troubled> troubles_;
  /// How often a rank was started before the incarnation whose restart was told last, and one.
  std::map<std::pair<std::string, std::uint64_t>, std::uint64_t> restarts_told_;
  /// Whether that was told already, by the controller before.
  bool is_repeated(const wire::MeshEventT& event);
  /// Mesh, kind, ranks and words of what was told of restarts and sizes.
  std::set<std::string> told_once_;
  /// Mesh and words of what was given up.
  std::set<std::pair<std::string, std::string>> given_up_;
  /// Hosts that were reported as unreachable, meshes that were reported as ended.
  std::map<std::pair<std::string, std::string>, Standing> standing_;
  std::optional<Time> heard_;
  std::chrono::milliseconds interval_{0};
  std::uint64_t heartbeats_ = 0;
};

}  // namespace meshbus
