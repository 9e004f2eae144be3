#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "client/src/restart/restart_plan.h"
#include "meshbus/restart_policy.h"

namespace meshbus {

/// Decides which ranks of one mesh begin a new life, and when
/// (docs/decisions/0051-restarts-go-with-the-mesh.md). Pure: it holds no clock, thread or socket;
/// ends and times come in, what is to be done comes out.
/// Large because: groups, accounts and ranks change together with each end.
class Restarter {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Decision {
    std::uint64_t cause = 0;
    std::vector<std::uint64_t> ranks;  ///< Ascending.
    std::uint64_t restart = 0;         ///< Counts those of the budget, from 1.
    std::chrono::milliseconds delay{0};
    std::vector<std::uint64_t> to_stop;  ///< Those of them that live.
  };
  struct Actions {
    std::vector<Decision> decided;
    /// These begin their next life now.
    std::vector<std::uint64_t> starts;
    /// These failures are for good, the cause before its consequences.
    std::vector<std::uint64_t> given_up;
    /// Those of them whose budget is used up.
    std::vector<std::uint64_t> exhausted = {};
  };

  /// `seed`: of the jitter.
  Restarter(RestartPolicy policy, std::uint64_t ranks, std::uint64_t seed);
  /// Goes on with what an owner before has used.
  Restarter(const RestartPlan& plan, std::uint64_t ranks, std::uint64_t seed);
  /// For the owner that follows: what was used, by rank. Restarts that have not begun are left out:
  /// that owner decides about these ends anew.
  RestartPlan plan(Time now) const;
  const RestartPolicy& policy() const noexcept { return policy_; }
  /// Whether the policy restarts a rank because of that end.
  bool counts(const RankReport& end) const;

  /// Whether an owner before has told which ranks its gangs had begun to restart: then on_end()
  /// knows what they have left behind, and resume() is not needed.
  bool knows_begun() const noexcept { return !left_.empty(); }
  /// These ranks have ended and are over, and an owner before had begun to restart them with a gang
  /// of which others run already: they begin their next life now, on the same budget.
  Actions resume(const std::vector<RankReport>& ends, Time now);

  /// A life has ended. Once for each life.
  Actions on_end(const RankReport& end, Time now);
  /// A life has ended with its host, and the rank can move to another one: it begins its next life
  /// when on_over() was said. No budget is charged. False: no other life of it is wanted.
  bool on_lost(const RankReport& end, Time now);
  /// What was over is not, after all: the rank has to move first.
  void hold(std::uint64_t rank) { ranks_[rank].is_over = false; }
  /// Nothing more will come of the life that has ended.
  void on_over(std::uint64_t rank);
  /// Time has passed, or something was over.
  Actions turn(Time now);
  /// Somebody wants these ranks (empty = all) to end: no new life of them begins. Failures that
  /// were to be mended are for good then.
  Actions stop(const RankSet& ranks);
  bool is_stopped(std::uint64_t rank) const { return ranks_[rank].is_out; }
  /// The mesh has so many ranks now. Those that it has no more have ended and begin no life.
  void resize(std::uint64_t ranks);

  /// Whether some ranks are between two lives, or on their way there; whether that one is.
  bool is_busy() const noexcept { return !groups_.empty(); }
  bool is_waiting(std::uint64_t rank) const;
  /// When turn() has something to do, as far as time is what it waits for.
  std::optional<Time> next_due() const;

 private:
  struct Rank {
    bool has_ended = false;
    bool has_failed = false;
    bool is_over = false;
    /// No life follows: stopped by somebody, given up, or wanted to end.
    bool is_out = false;
    /// When this incarnation began; nothing for the first one.
    std::optional<Time> begun = {};
    /// Those before the last life that has ended.
    std::uint64_t restarts = 0;
  };
  /// Ranks that begin their next life together.
  struct Group {
    std::uint64_t cause = 0;
    std::set<std::uint64_t> ranks;
    std::uint64_t restart = 0;
    Time due{};
    /// When its account was charged for it.
    std::vector<Time> charged = {};
  };
  /// What is counted together: a rank, or the mesh.
  struct Account {
    std::deque<Time> spent;  ///< Only with a budget.
    std::uint64_t all = 0;
    unsigned in_a_row = 0;
  };

  std::uint64_t account_of(std::uint64_t rank) const {
    return policy_.gang == Gang::one ? rank : 0;
  }
  static bool is_hopeless(const RankReport& end);
  /// Whether nobody can prove that it is over, or it would only happen again.
  static bool is_beyond_restart(const RankReport& end);
  /// Whether that rank was ordered to begin another life since that end, with its gang.
  bool is_left_behind(const RankReport& end) const;
  std::set<std::uint64_t> gang_of(std::uint64_t rank) const;
  Group* find_group(std::uint64_t rank);
  void give_up(std::uint64_t rank, Actions& actions);
  void drop_group(const Group& group, Actions& actions);
  std::chrono::milliseconds next_delay(Account& account, const Rank& rank, Time now);
  void decide(std::uint64_t cause, Time now, Actions& actions);

  RestartPolicy policy_;
  std::vector<Rank> ranks_;
  std::deque<Group> groups_;
  std::map<std::uint64_t, Account> accounts_;
  /// See RestartPlan: as the owner before has left it, without what has begun since.
  std::map<std::uint64_t, std::uint64_t> left_;
  /// The same, for the owner that follows.
  std::map<std::uint64_t, std::uint64_t> begun_;
  std::minstd_rand random_;
};

}  // namespace meshbus
