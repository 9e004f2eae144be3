#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "client/controller/subscriptions.h"
#include "client/controller/supervisor.h"
#include "client/controller/watch_feed.h"
#include "wire/actors_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus::test {

/// A controller, a subscriber, hosts and the links between them under virtual time, with faults
/// that a seed chooses: messages that are late, lost or overtaken, links that are cut, agents that
/// are replaced, hosts that die or come back empty, a controller that is stopped for a while, wall
/// clocks that step. Some meshes have an actor in each proc. Everything happens in one thread; the
/// same seed does the same again.
///
/// run() returns what is wrong, in words; nothing when all promises were kept.
class SupervisionWorld {
 public:
  explicit SupervisionWorld(std::uint64_t seed);

  std::vector<std::string> run();
  std::uint64_t messages() const noexcept { return messages_; }
  std::uint64_t failures() const noexcept { return failures_; }

 private:
  using Time = Supervisor::Time;
  using Duration = std::chrono::milliseconds;
  struct Rank {
    wire::RankState state;
    std::shared_ptr<wire::ExitReportT> exit_report;
    wire::RankTrouble trouble = {};
    std::shared_ptr<const wire::ActorStateT> actor =
        {};                     ///< Set in a mesh with actors, once it is ready.
    bool is_streaming = false;  ///< Its proc tells the controller of it.
  };
  struct Agent {
    HostAddr address = HostAddr::local(0);
    bool is_up = true;     ///< The agent.
    bool is_dead = false;  ///< The host.
    std::uint64_t incarnation = 1;
    std::int64_t clock_offset_ns = 0;
    std::map<std::string, std::map<std::uint64_t, Rank>> meshes;
    std::set<std::string> streams;
    std::map<std::string, Time> renewed;  ///< Leases.
  };
  /// How a life of a rank ended, in truth.
  struct Truth {
    Time ended;
    wire::ProcState state;
    wire::Cause cause;
    std::size_t host;
    bool is_record_lost;  ///< Its host was started anew since.
  };
  struct Report {
    Time told;
    wire::RankState state;
    std::shared_ptr<const wire::ExitReportT> exit_report;
  };
  /// One way of a connection.
  struct Link {
    bool is_cut = false;
    double loss = 0;
    Time last{};
  };
  using LifeKey = std::tuple<std::string, std::uint64_t, std::uint64_t>;  // mesh, rank, incarnation

  static constexpr std::chrono::seconds kFaults{25};
  /// Two polls and more.
  static constexpr std::chrono::seconds kQuiet{25};
  static constexpr Duration kAnswerLimit{3000};
  static constexpr Duration kLease{6000};
  static const std::string kOwner;
  /// A new mesh is known within so long: a probe, one more when its count was the same by chance,
  /// and the lists.
  static constexpr std::chrono::seconds kKnown{3};
  /// The exit report is behind the end, so long at most.
  static constexpr int kExitReportMs = 100;

  // Time.
  void at(Time time, std::function<void()> task);
  void after(Duration delay, std::function<void()> task) { at(now_ + delay, std::move(task)); }
  Duration any(int from, int to) {
    return Duration(std::uniform_int_distribution<int>(from, to)(random_));
  }
  bool chance(double probability) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
  }
  void send(Link& link, std::function<void()> deliver);

  // What there is.
  void make_meshes();
  void make_mesh();
  void plan_faults();
  void plan_rank(std::size_t host, const std::string& mesh, std::uint64_t rank);
  void plan_fault();
  void kill_last();
  /// Something is wrong with that host, or the way to it, until then.
  void trouble(std::size_t host, Time until) { trouble_[host] = std::max(trouble_[host], until); }
  void stop_mesh(const std::string& mesh);

  // Agents.
  void end_rank(std::size_t host, const std::string& mesh, std::uint64_t rank,
                wire::ProcState state, wire::Cause cause, int code);
  /// A live rank falls into trouble, or out of it.
  void set_trouble(std::size_t host, const std::string& mesh, std::uint64_t rank,
                   wire::Trouble trouble);
  void report_exit(std::size_t host, const std::string& mesh, std::uint64_t rank,
                   wire::Cause cause);
  void push(std::size_t host, const std::string& mesh, RankUpdate news);
  HostAnswer ask_agent(std::size_t host, const Supervisor::Question& question);
  MeshUpdate describe(const Agent& agent, const std::string& mesh, bool with_exit_reports) const;
  void replace_agent(std::size_t host);

  // Procs with actors (supervision_world_actors.cpp).
  void make_actor(std::size_t host, const std::string& mesh, std::uint64_t rank);
  void end_actor(std::size_t host, const std::string& mesh, std::uint64_t rank,
                 wire::StatusKind status);
  /// What becomes of the actor of a proc that has ended.
  void note_proc_end(std::size_t host, const std::string& mesh, const Rank& one, bool is_failure);
  void push_actor(std::size_t host, const std::string& mesh, const Rank& one);
  HostAnswer ask_proc(std::size_t host, const Supervisor::Question& question);
  void watch_actors(const std::string& mesh);
  void record_actor(const WatchEvent& event);
  void check_actors();
  void check_actor_statuses(const std::string& mesh);
  void kill_host(std::size_t host, bool comes_back);

  // The controller.
  void wake();
  void at_controller(std::function<void()> task);
  void stall(Duration length);
  void lose_session(Duration length);
  void act(Supervisor::Actions actions);
  void ask(const Supervisor::Question& question);
  void tell(const std::vector<WatchEvent>& events);
  void tell_subscriber(const std::vector<WatchEvent>& events, bool is_snapshot);
  void beat();
  void record(const WatchEvent& event);
  using Troubles = std::map<LifeKey, wire::Trouble>;
  /// What an event leaves of it.
  static void note_trouble(Troubles& troubles, const WatchEvent& event);

  // The subscriber.
  void subscribe(bool again);
  void subscriber_turn();

  // What must be so.
  void check_reports(const std::map<LifeKey, std::vector<Report>>& reports,
                     const std::set<LifeKey>& known, const std::string& who, bool is_controller);
  void check_end();
  /// Checks that exactly the ranks in trouble are reported as such.
  void check_troubles(const Troubles& troubles, const std::set<LifeKey>& known,
                      const std::string& who);
  /// What lives, and has for a while, is known: nobody has to wait for a poll
  /// (docs/decisions/0017).
  void check_known();
  /// All that is the controller's and lives on hosts that can be reached has been renewed within
  /// its lease.
  void check_leases();
  void complain(const std::string& what) { wrong_.push_back(what); }

  std::mt19937_64 random_;
  bool has_faults_;
  bool is_fifo_;
  int delay_;
  Time now_{std::chrono::hours(1)};
  Time quiet_;  ///< No faults any more.
  Time end_;
  std::multimap<std::pair<Time, std::uint64_t>, std::function<void()>> queue_;
  std::uint64_t next_ = 0;
  std::vector<Agent> agents_;
  std::vector<Link> to_agent_, from_agent_;
  std::vector<Time> trouble_;
  /// One that ends when all is well again: it must be told at once.
  std::optional<LifeKey> last_;
  bool is_last_ = false;
  Link to_subscriber_, from_subscriber_;
  struct Mesh {
    Region region;
    std::vector<std::size_t> hosts;
    Time made;
    /// The controller answers for it; else a launcher does.
    bool is_owned = false;
    bool has_actors = false;
    std::optional<Time> watched = {};  ///< Since then the controller is to know of its actors.
  };
  std::map<std::string, Mesh> meshes_;
  /// How actors ended, in truth, and as was told; and those of which anything was told.
  struct ActorEnd {
    Time ended;
    bool is_failure;
    bool is_own;  ///< It ended before its proc.
    std::size_t host;
  };
  std::map<LifeKey, ActorEnd> actor_ends_;
  std::map<LifeKey, std::vector<Report>> actor_reports_;
  std::set<LifeKey> known_actors_;
  std::map<LifeKey, Truth> truth_;
  std::set<std::string> stopped_;
  std::unique_ptr<Supervisor> supervisor_;
  std::uint64_t wake_ = 0;
  bool is_stalled_ = false;
  bool is_connected_ = true;
  std::map<std::uint64_t, Supervisor::Question> open_;
  std::uint64_t next_question_ = 0;
  void answer(std::uint64_t id, const HostAnswer& answer);
  std::vector<std::function<void()>> waiting_;
  Subscriptions subscriptions_;
  WatchFeed feed_;
  ProcId subscriber_;
  bool is_subscribed_ = false;
  std::map<LifeKey, std::vector<Report>> reports_;
  std::map<LifeKey, std::vector<Report>> heard_;
  Troubles troubles_, heard_troubles_;
  std::set<LifeKey> known_, heard_of_;  ///< Incarnations of which anything was told.
  std::uint64_t beats_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t failures_ = 0;
  /// When the controller could see last: not since it was stopped or cut off.
  Time blind_until_{};
  std::vector<std::string> wrong_;
};

}  // namespace meshbus::test
