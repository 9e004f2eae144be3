#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/host/ownership/pair_terms.h"
#include "client/controller/candidacy.h"
#include "client/controller/supervisor.h"

namespace meshbus::test {

/// Controllers of one pair, hosts that grant them terms and have meshes, and a launcher that takes
/// meshes over and gives them back, under virtual time. Controllers are killed, frozen and cut off,
/// hosts die, messages are late and lost. A host takes orders as its agent does: in the present
/// term, and from the owner that it knows.
class SupervisedPairWorld {
 public:
  using Time = Supervisor::Time;
  using Duration = std::chrono::milliseconds;
  static constexpr Duration kTerm{1000};
  static constexpr Duration kLease{20'000};

  SupervisedPairWorld(std::uint64_t seed, std::size_t hosts, std::size_t seats);

  /// A mesh with a rank on each of these hosts, owned by the controller that acts.
  std::string make_mesh(std::vector<std::size_t> hosts);
  void run(Duration length);
  void kill_seat(std::size_t seat);
  void begin_seat(std::size_t seat);
  void freeze(std::size_t seat, bool is_frozen);
  /// Between that controller and that host.
  void cut(std::size_t seat, std::size_t host, bool is_cut) { cuts_[{seat, host}] = is_cut; }
  /// For good.
  void kill_host(std::size_t host) { hosts_[host].is_dead = true; }
  void kill_rank(const std::string& mesh, std::size_t host);
  /// The launcher asks the controller that acts for it.
  void take_over(const std::string& mesh);
  /// It hands the mesh to the controller that acts, on the hosts that name the launcher.
  void give_back(const std::string& mesh);
  /// Whatever may happen, for a while; but at most `most_dead` hosts die in all.
  void torment(Duration length, std::size_t most_dead);
  void heal();

  std::optional<std::size_t> actor() const;
  bool is_owned_by(std::size_t seat, const std::string& mesh) const;
  /// As its agent knows it, in truth.
  std::string owner_on(std::size_t host, const std::string& mesh) const;
  bool is_live_on(std::size_t host, const std::string& mesh) const;
  std::uint64_t restarts_on(std::size_t host, const std::string& mesh) const;
  static std::string name_of(std::size_t seat);
  /// How often a controller that acts has come to answer for a mesh.
  std::size_t gains() const noexcept { return gains_; }
  /// The number of those meshes of which a host could not say so.
  std::size_t blind_gains() const noexcept { return blind_gains_; }
  std::size_t restarts() const noexcept { return restarts_; }
  std::size_t launcher_meshes() const noexcept { return launcher_meshes_; }
  /// The first invariant that was broken, in words; nothing when all is well.
  const std::string& problem() const noexcept { return problem_; }
  /// When all has been well for a while: what the controller that acts has to answer for is its
  /// own on all hosts that live, and is renewed there.
  void check_quiet();

 private:
  struct MeshHere {
    std::string owner;
    std::uint64_t incarnation = 0;
    Time due{};
    wire::RankState rank;
    std::shared_ptr<wire::ExitReportT> exit_report = {};
    RestartPlan plan = {};
  };
  struct Host {
    HostAddr address = HostAddr::local(0);
    std::optional<host::PairTerm> term;
    bool is_dead = false;
    std::uint64_t incarnation = 1;
    std::map<std::string, MeshHere> meshes;
    std::map<std::string, std::set<std::size_t>> streams;
    /// Mesh -> the last term in which a rank was restarted, and by which incarnation.
    std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> orders;
  };
  struct Seat {
    std::unique_ptr<Supervisor> supervisor;
    std::optional<Candidacy> candidacy;
    std::uint64_t life = 0;
    std::uint64_t incarnation = 0;
    bool is_frozen = false;
    std::uint64_t wake = 0;
    std::vector<std::function<void()>> unread;
    std::map<std::uint64_t, Supervisor::Question> open;
    /// Those that it answers for while it acts.
    std::set<std::string> owned;
  };
  struct Answer {
    Candidacy::HostTerm said;
    std::vector<PairFormer> former;
  };

  void at(Time time, std::function<void()> task);
  void send(std::size_t seat, std::size_t host, bool is_back, std::function<void()> deliver);
  Duration any(int from, int to) {
    return Duration(std::uniform_int_distribution<int>(from, to)(random_));
  }
  bool is_cut(std::size_t seat, std::size_t host) const {
    const auto found = cuts_.find({seat, host});
    return found != cuts_.end() && found->second;
  }
  void wrong(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }
  void misfortune(std::size_t most_dead);

  // Hosts.
  Answer on_claim(std::size_t seat, std::size_t host, std::uint64_t incarnation,
                  const Candidacy::Claim& claim);
  HostAnswer on_question(std::size_t seat, std::size_t host, std::uint64_t incarnation,
                         const Supervisor::Question& question, std::uint64_t term,
                         const std::optional<RestartPlan>& plan);
  Result<void> on_restart(std::size_t seat, Host& here, std::uint64_t incarnation,
                          const Supervisor::Question& question, std::uint64_t term,
                          const RestartPlan& plan);
  Result<void> on_hand_over(std::size_t seat, std::size_t host, std::uint64_t incarnation,
                            std::uint64_t term, const std::string& mesh);
  MeshUpdate describe(const Host& here, const std::string& mesh) const;
  /// Its owner and those that stream it hear the state.
  void push(std::size_t host, const std::string& mesh);
  void set_owner(std::size_t host, const std::string& mesh, const std::string& owner);
  void end_rank(std::size_t host, const std::string& mesh, wire::Cause cause);
  void look_at_lease(std::size_t host, const std::string& mesh);

  // Controllers.
  void at_seat(std::size_t seat, std::uint64_t life, std::function<void()> task);
  void turn(std::size_t seat);
  void wake(std::size_t seat);
  void carry_out(std::size_t seat, const Candidacy::Actions& actions);
  void act(std::size_t seat, Supervisor::Actions actions);
  void ask(std::size_t seat, const Supervisor::Question& question);
  void answer(std::size_t seat, std::uint64_t id, const HostAnswer& answer);
  bool may_act(std::size_t seat) const;
  void note_owned(std::size_t seat);

  // Both, and the launcher.
  void check();
  void finish_take_over(std::size_t seat, const std::string& mesh, bool is_done,
                        std::uint64_t gifts);

  std::mt19937_64 random_;
  Time now_{std::chrono::hours(1)};
  std::multimap<std::pair<Time, std::uint64_t>, std::function<void()>> queue_;
  std::uint64_t next_ = 0;
  std::vector<Host> hosts_;
  std::vector<Seat> seats_;
  std::map<std::string, std::vector<std::size_t>> meshes_;
  std::map<std::tuple<std::size_t, std::size_t, bool>, Time> last_;
  std::map<std::pair<std::size_t, std::size_t>, bool> cuts_;
  int loss_ = 0;
  int longest_ = 5;
  /// Meshes of the launcher, where a host has named it at some time.
  std::set<std::pair<std::string, std::size_t>> handed_;
  /// How often the launcher has given the mesh back.
  std::map<std::string, std::uint64_t> gifts_;
  /// Since then the launcher answers for the mesh: all hosts have confirmed it.
  std::map<std::string, Time> launchers_;
  /// Since then a controller that could know better takes such a mesh for its own.
  std::map<std::string, Time> disputed_;
  std::size_t gains_ = 0;
  std::size_t blind_gains_ = 0;
  std::size_t restarts_ = 0;
  std::size_t launcher_meshes_ = 0;
  std::string problem_;
};

}  // namespace meshbus::test
