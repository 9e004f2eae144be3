#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshbus/site.h"

namespace meshbus {

/// What one host tells about one mesh.
struct SitePart {
  MeshReport mesh;                                  ///< `ranks`: those that have changed.
  std::map<std::uint64_t, std::string> lines = {};  ///< The last lines of ranks.
};

/// The state of a site, put together of what hosts tell. Numbers every change, so that what has
/// changed after any number can be told. Pure: holds no clock, socket or thread.
///
/// Bounded: SiteOptions::ranks ranks, SiteOptions::events events, the names of kMostGone meshes
/// that went.
class SiteTable {
 public:
  using Time = std::chrono::system_clock::time_point;
  static constexpr std::size_t kMostGone = 1000;
  static constexpr std::size_t kMostLine = 200;

  SiteTable(const std::vector<HostAddr>& hosts, const SiteOptions& options, Time now);

  /// The host answers: it is up.
  void on_up(const HostAddr& host, Time now);
  /// It does not. What it said is kept.
  void on_lost(const HostAddr& host, const Error& error, Time now);
  /// What a host says of itself: `told.report` and the fields behind it, but for the broker.
  void set_facts(const HostAddr& host, const SiteHost& told);
  /// What its broker counts; nothing: it does not tell.
  void set_broker(const HostAddr& host, std::optional<SiteBroker> broker, Time now);
  /// What the controller at that host says, `since` left out; nothing: there is none, or it does
  /// not answer. What changes is an event, too.
  void set_controller(const HostAddr& host, const std::optional<SiteController>& told, Time now);
  /// Whether a controller has answered there, and was not lost since.
  bool has_controller(const HostAddr& host) const;
  /// Ranks of a mesh on that host.
  void set_part(const HostAddr& host, SitePart part);
  /// The host knows these meshes and no others.
  void keep_only(const HostAddr& host, const std::set<std::string, std::less<>>& names);
  /// The host does not know that mesh any more.
  void forget(const HostAddr& host, const std::string& mesh);
  void add_events(std::vector<HostEvent> events);

  std::uint64_t sequence() const noexcept { return sequence_; }
  /// Whether each host has answered or is lost.
  bool is_settled() const noexcept;
  SiteView view(std::uint64_t since, Time now) const;

 private:
  using Ranks = std::map<std::uint64_t, std::shared_ptr<const SiteRank>>;
  struct Mesh {
    SiteMesh head;  ///< Without ranks.
    Ranks ranks;
    std::set<std::uint64_t> left_out;  ///< Ranks for which there was no room.
    std::set<HostAddr> told_by;
    std::uint32_t revision = 0;  ///< MeshReport::revision of the head.
  };
  struct Host {
    SiteHost shown;
    Time counted_at{};  ///< When the broker's counts came.
    /// What waits for procs of this host, by ProcId.
    std::map<std::string, SiteQueue, std::less<>> queues = {};
    std::optional<SiteController> controller = {};
  };

  Host* find(const HostAddr& host);
  void touch(Host& host) { host.shown.changed = ++sequence_; }
  void set_rank(Mesh& mesh, const Host& host, RankReport report, std::string line);
  void put(Mesh& mesh, std::uint64_t rank, std::shared_ptr<SiteRank> made);
  void set_queue(const std::string& peer, const SiteQueue& queue);
  /// The mesh was made smaller: it has no ranks from that one on.
  void drop_ranks(Mesh& mesh, std::uint64_t from);
  void drop_part(Mesh& mesh, const HostAddr& host);
  void note_gone(const std::string& mesh);
  void note(EventKind kind, const SiteController& controller, std::string text, Time now);

  SiteOptions options_;
  std::uint64_t sequence_ = 1;
  std::vector<Host> hosts_;
  std::map<HostAddr, std::size_t> index_;
  std::map<std::string, Mesh, std::less<>> meshes_;
  std::uint64_t num_ranks_ = 0;
  std::deque<SiteEvent> events_;
  std::deque<std::pair<std::uint64_t, std::string>> gone_;
  /// Views after an earlier number are complete: it is not known any more what went.
  std::uint64_t known_since_ = 0;
};

}  // namespace meshbus
