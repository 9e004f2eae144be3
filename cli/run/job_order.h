#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/run/role_arguments.h"
#include "meshbus/result.h"

namespace meshbus::cli {

/// Which role of a job may be started when, and when the job is over. Pure: it is told how far each
/// role is.
class JobOrder {
 public:
  /// How far a role is. `done`: all ranks have ended, none of them failed. `unready`: the same, but
  /// one never wrote its ready-text. `failed`: they have ended, and one failed.
  enum class State { waiting, started, ready, done, unready, failed };

  /// Errors: configuration_error: a role waits for one that is not there, for itself, or in a
  /// circle. `roles` have their names (name_roles()).
  static Result<JobOrder> make(const std::vector<RoleArguments>& roles);

  void set(std::size_t role, State state) { states_[role] = state; }
  State state(std::size_t role) const { return states_[role]; }
  /// Roles that wait, and need not any longer.
  std::vector<std::size_t> startable() const;

  /// A role that can never be started: another one has ended in another way than it waits for.
  struct Stuck {
    std::size_t role;
    std::size_t because;
  };
  std::optional<Stuck> stuck() const;

  /// Whether nothing more is to be waited for: the roles that end the job have ended or, when none
  /// does, all have.
  bool is_over() const;
  /// Whether it is over, and none of the roles that end the job has failed.
  bool is_done() const;
  /// Whether the end of the role is waited for, for the job to be over.
  bool is_ending(std::size_t role) const;
  /// The roles whose end is the end of the job.
  const std::vector<std::size_t>& ending() const { return ending_; }
  /// What a waiting role waits for, in words: "store to be ready, prepare to be done".
  std::string words_of_wait(std::size_t role) const;

 private:
  struct Wait {
    std::size_t role;
    State until;
  };

  bool is_met(const Wait& wait) const;
  /// Whether it cannot be met any more.
  bool is_missed(const Wait& wait) const;
  std::optional<std::vector<std::size_t>> find_circle() const;

  std::vector<std::string> names_;
  std::vector<std::vector<Wait>> waits_;
  std::vector<std::size_t> ending_;
  std::vector<State> states_;
};

}  // namespace meshbus::cli
