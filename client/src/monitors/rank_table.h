#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include <flatbuffers/vector.h>

#include "meshbus/proc_mesh_ref.h"
#include "meshbus/rank_report.h"
#include "wire/forward.h"
#include "wire/ranks_generated.h"

namespace meshbus {

/// What is known about the ranks of one mesh, and which failures are still to be told. Pure: no
/// clock, thread or socket; times come from the caller.
///
/// News may come late, twice and in any order (a stream, answers to questions, a lost host): the
/// larger generation wins, and nothing leaves a terminal state but by begin_incarnation().
///
/// Large because: what may follow on what for a rank is decided here alone.
class RankTable {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// A failure is told when its exit report has come, or so long after the end.
  static constexpr std::chrono::milliseconds kFailureLimit{300};
  /// While a mesh starts, ranks that fail by themselves at the same time look like a sequence. So a
  /// failure is told only when every rank has been up for so long (kFailureLimit after the end at
  /// the latest); in a mesh that is up, at once.
  static constexpr std::chrono::milliseconds kStartLimit{50};
  /// An ended mesh waits so long for the exit reports that are still missing.
  static constexpr std::chrono::milliseconds kExitReportLimit{2000};

  explicit RankTable(const ProcMeshRef& mesh);

  /// Exited 0, and nobody had asked for that.
  static bool is_done(const RankReport& rank) noexcept {
    return rank.state == ProcState::stopped && rank.exit_code == 0 && rank.signal == 0 &&
           rank.step == StopStep::none;
  }

  /// What a host tells in one message; null is none.
  struct Update {
    const flatbuffers::Vector<const wire::RankState*>* ranks = nullptr;
    const flatbuffers::Vector<flatbuffers::Offset<wire::ExitReport>>* exit_reports = nullptr;
    const flatbuffers::Vector<const wire::LaunchTimes*>* launch = nullptr;
  };
  struct Changes {
    bool is_news = false;
    /// Ranks that have ended, each once, with their exit reports if these came in the same message.
    std::vector<RankReport> ended;
    /// One for each change of a rank, in their order: the rank as it was then. An end has its exit
    /// report, if that came with it.
    std::vector<RankReport> reports;
  };
  /// All of it. A message may tell several changes of one rank. `with_reports`: Changes::reports is
  /// wanted.
  Changes apply(const HostAddr& from, const Update& update, Time now, bool with_reports);
  /// True when it was news. Ranks that are not in the mesh, or not on that host, are ignored: peers
  /// may say anything.
  bool apply(const HostAddr& from, const wire::RankState& state, Time now);
  /// True when it was news.
  bool apply(const HostAddr& from, const wire::ExitReport& exit_report);
  /// The times of its start, as far as they are known.
  void apply(const HostAddr& from, const wire::LaunchTimes& times);
  /// True when it was news.
  bool apply(const HostAddr& from, const wire::RankTrouble& trouble,
             const wire::StuckHandlerT* stuck = nullptr);
  /// The host is lost, by proof: its ranks that are not terminal are failed, and no exit report of
  /// the others is waited for. The ranks that changed.
  std::vector<RankReport> lose(std::uint64_t host_index, const std::string& reason, Time now,
                               std::chrono::system_clock::time_point ended);

  /// The mesh has ranks at its end that it did not have: nothing is known of them yet.
  void grow(const ProcMeshRef& mesh);
  /// The mesh has no such ranks any more; all of them have ended. Their reports, which outcome()
  /// has among the former lives from now on.
  std::vector<RankReport> shrink(const ProcMeshRef& mesh);
  /// Failures of ranks from that one on are not for take_failures(): somebody else looks at them.
  /// Nothing: of no ranks.
  void hold_from(std::optional<std::uint64_t> rank) noexcept { held_from_ = rank; }
  bool is_held(std::uint64_t rank) const noexcept { return held_from_ && rank >= *held_from_; }

  /// Another owner restarts ranks from now on: an incarnation that a host tells of has begun.
  void follow_restarts() noexcept { follows_restarts_ = true; }
  /// Somebody else judges failures: only what decide() was told is one for outcome().
  void set_judged() noexcept { is_judged_ = true; }
  /// The failure of that rank is final. The first one stays.
  void decide(std::uint64_t rank);
  /// It has ended, or is to end, and begins a new life after that.
  void set_restarting(std::uint64_t rank, bool is_restarting) {
    ranks_[rank].is_restarting = is_restarting;
  }
  /// Its failure, which take_failures() has handed out, is handed out again: another owner decides
  /// now whether it is final.
  void retell(std::uint64_t rank);
  /// A rank that has ended is ordered to be started anew: from here on it counts as starting.
  void begin_incarnation(std::uint64_t rank);
  /// It was not started after all: its former life is its last one.
  void cancel_incarnation(std::uint64_t rank, Time now);
  /// It could not be: that is a failure.
  void fail_incarnation(std::uint64_t rank, const Error& error, Time now,
                        std::chrono::system_clock::time_point ended);
  /// Hosts have taken the places of others in the mesh. Reports name the host of an incarnation,
  /// and move_in() that of the next one.
  void replace_hosts(const ProcMeshRef& mesh) { hosts_ = mesh.hosts(); }
  /// The incarnation that begin_incarnation() has begun is on the host that the rank has now, which
  /// has told nothing of it yet.
  void move_in(std::uint64_t rank);
  /// Where its next incarnation is started.
  const HostAddr& home_of(std::uint64_t rank) const { return hosts_[ranks_[rank].host_index]; }
  /// Adds to the reason of an end.
  void add_reason(std::uint64_t rank, const std::string& words) { ranks_[rank].reason += words; }
  /// Terminal, and its exit report has come or is too late.
  bool is_over(std::uint64_t rank, Time now) const;
  /// Whether there are failures that take_failures() has not handed out.
  bool has_untold() const noexcept { return !untold_.empty(); }

  /// Failures that are due, each once, the earlier end first (see first_failure in rank_report.h).
  /// When the mesh has ended and all its exit reports are there, all are: nothing that is still to
  /// come could change their order.
  std::vector<RankReport> take_failures(Time now);
  /// When take_failures() or is_complete() should be asked again although no news came.
  std::optional<Time> next_due(Time now) const;

  const std::vector<RankReport>& ranks() const noexcept { return ranks_; }
  const RankReport& rank(std::uint64_t rank) const { return ranks_[rank]; }
  std::uint64_t size() const noexcept { return ranks_.size(); }
  /// How that rank has ended, also one that the mesh has no more; nothing when it has not.
  std::optional<RankReport> end_of(std::uint64_t rank) const;
  /// Whether take_failures() has handed out one.
  bool has_told_failure() const noexcept { return is_judged_ ? decided_.has_value() : told_ != 0; }
  bool is_ended() const noexcept { return ended_ == ranks_.size(); }
  /// Every rank is terminal and its exit report has come, or is too late: no news are expected.
  bool has_exit_reports(Time now) const noexcept;
  /// has_exit_reports(), and take_failures() has handed out every failure.
  bool is_complete(Time now) const noexcept { return has_exit_reports(now) && untold_.empty(); }
  /// Whether a host has ranks that are not terminal.
  bool is_alive_on(std::uint64_t host_index) const noexcept { return alive_on_[host_index] != 0; }
  /// Whether a host has ranks whose exit report has not come.
  bool has_unreported_on(std::uint64_t host_index) const noexcept {
    return unreported_on_[host_index] != 0;
  }
  /// Ranks of that set (empty = all) that are not terminal.
  std::vector<std::uint64_t> not_ended(const RankSet& set) const;
  /// Failures so far, told or not, the earlier end first.
  std::vector<RankReport> failures() const;
  /// Ranks that have been ready, or have exited 0 (a plain proc that was quick).
  std::uint64_t created() const noexcept { return created_; }
  MeshOutcome outcome() const;
  /// "rank 3 (…): exit 2; ranks 4-6: the same; rank 7 (…): starting": ranks with what is to be said
  /// of them, at most eight different things. For errors.
  std::string describe(const std::vector<std::uint64_t>& ranks) const;
  /// Their reports, for an error that is about them.
  std::shared_ptr<const std::vector<RankReport>> reports_of(
      const std::vector<std::uint64_t>& ranks) const;

 private:
  struct Extra {
    std::optional<Time> ended;
    bool has_exit_report = false;
    bool is_started = false;
    bool is_created = false;
  };
  static constexpr std::size_t kMostPrevious = 1000;
  /// Where the ranks are that the mesh has, of which those from `first` on are new.
  void place_ranks(const ProcMeshRef& mesh, std::uint64_t first);
  void add_previous(RankReport report);
  void on_end(std::uint64_t rank, Time now);
  void note_progress(std::uint64_t rank, Time now);
  Time due_of(std::uint64_t rank) const;

  /// As the mesh has them, by index.
  std::vector<HostAddr> hosts_;
  std::vector<RankReport> ranks_;
  std::vector<Extra> extra_;
  /// Lives that were followed by another, by end.
  std::deque<RankReport> previous_;
  bool is_judged_ = false;
  bool follows_restarts_ = false;
  std::optional<std::uint64_t> decided_;
  std::vector<std::uint64_t> alive_on_;
  std::vector<std::uint64_t> unreported_on_;
  std::optional<std::uint64_t> held_from_;
  /// Failed ranks that were not told yet.
  std::vector<std::uint64_t> untold_;
  std::uint64_t told_ = 0;
  std::uint64_t started_ = 0;
  /// When the last rank was up.
  std::optional<Time> all_started_;
  std::uint64_t ended_ = 0;
  std::uint64_t created_ = 0;
  std::uint64_t exit_reports_ = 0;
  std::optional<Time> last_end_;
};

}  // namespace meshbus
