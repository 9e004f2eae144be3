#include "cli/run/job_end.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <utility>

#include "cli/run/launch_report.h"
#include "cli/run/say.h"
#include "cli/support/exit_codes.h"
#include "cli/support/terminal_text.h"
#include "cli/support/text_error.h"

namespace meshbus::cli {
namespace {

using std::chrono::milliseconds;

/// How long stdin may still be on its way to a rank when all have ended.
constexpr milliseconds kPumpLimit{500};

}  // namespace

void write_report(const std::string& path, const std::string& report) {
  if (path == "-") {
    if (std::cout << report << std::flush) return;
  } else {
    std::ofstream file(path);
    if (file << report << std::flush) return;
  }
  say("cannot write the report to " + path + ": " + std::strerror(errno));
}

JobEnd::JobEnd(Run& run, const JobRoles& roles, const JobOrder& order, Facts facts)
    : run_(run), arguments_(run.arguments), roles_(roles), order_(order), facts_(facts) {}

bool JobEnd::stop_pumps() {
  return std::all_of(roles_.begin(), roles_.end(), [](const auto& role) {
    return !role->parts().pump || role->parts().pump->stop_within(kPumpLimit);
  });
}

bool JobEnd::begin_next_attempt(const std::vector<RoleOutcome>& roles) {
  // What the user or another command wanted is not done again, unless it was a drain: then the job
  // moves. Jobs of several roles have no spares.
  const auto& outcome = roles.front().ranks;
  if (facts_.is_given_up || facts_.is_stuck || !outcome.is_ended() || roles.size() > 1)
    return false;
  if (!facts_.is_stopped_elsewhere && (facts_.code || !outcome.first_failure)) return false;
  if (!stop_pumps()) return false;
  auto& parts = roles_[0]->parts();
  const auto words = run_.hosts.begin_next(parts.mesh->ref(), outcome, parts.grace);
  if (!words) return false;
  say(*words);
  if (parts.mpi) parts.mpi->stop(*parts.mpi_hosts);
  return true;
}

void JobEnd::tell_what_is_left(const std::vector<RoleOutcome>& roles) {
  for (std::size_t number = 0; number < roles.size(); ++number) {
    const auto& role = roles[number];
    if (!role.mesh) {
      const auto wait = order_.words_of_wait(number);
      say("role " + role.name + " was not started" +
          (wait.empty() ? "" : ": it waited for " + wait));
      continue;
    }
    std::vector<std::uint64_t> left;
    for (const auto& rank : role.ranks.ranks) {
      if (!rank.is_terminal()) left.push_back(rank.rank);
    }
    if (!left.empty())
      say((role.name.empty() ? "" : role.name + ": ") + "not ended, or nobody can say: ranks " +
          to_string(to_rank_set(left)));
  }
}

void JobEnd::write_reports(const std::vector<RoleOutcome>& roles, int exit_code) {
  if (!arguments_.json.empty() && !(facts_.is_stuck && arguments_.json == "-")) {
    const auto report = arguments_.has_roles ? json_report(roles, exit_code, run_.hang.json())
                                             : json_report(roles.front(), exit_code,
                                                           run_.hosts.former(), run_.hang.json());
    write_report(arguments_.json, report);
  }
  if (arguments_.trace.empty()) return;
  std::ofstream file(arguments_.trace);
  if (!(file << launch_trace(*roles.front().mesh, roles.front().ranks) << std::flush))
    say("cannot write the trace to " + arguments_.trace + ": " + std::strerror(errno));
}

std::optional<int> JobEnd::finish() {
  std::vector<RoleOutcome> roles;
  bool are_ended = !facts_.is_starting;
  for (const auto& role : roles_) {
    roles.push_back(role->outcome());
    // A failure may be told later than one that came after it.
    roles.back().ends_job =
        facts_.cause && (role.get() == facts_.cause || role->ends_job_by_failure());
    are_ended = are_ended && (!role->is_up() || roles.back().ranks.is_ended());
  }
  const auto first = first_failure(roles);
  // A lost host has its own code: the job did nothing wrong.
  int exit_code =
      facts_.code.value_or(!first                         ? 0
                           : is_host_lost(*first->report) ? kHostLost
                                                          : first->report->shell_code());
  // With --keep-going we stop nothing: the report names the command that did, and a job that is
  // half done is no success.
  for (const auto& role : roles_)
    facts_.is_stopped_elsewhere =
        facts_.is_stopped_elsewhere ||
        (role->is_up() && !facts_.has_stopped && role->events().first_stopped());
  if (facts_.is_stopped_elsewhere && exit_code == 0) exit_code = kStopped;
  if (begin_next_attempt(roles)) return std::nullopt;
  tell_what_is_left(roles);
  for (std::size_t number = 0; number < roles.size() && are_ended; ++number) {
    if (!roles[number].mesh) continue;
    if (const auto code =
            roles_[number]->code_after_end(roles[number].ranks, exit_code, facts_.code.has_value()))
      exit_code = *code;
  }
  if (are_ended && arguments_.from != RunArguments::From::addresses) {
    if (auto down =
            run_.hosts.all().shutdown(std::chrono::seconds(10), milliseconds(0), "the run is over");
        !down) {
      say("the hosts of this run did not end in order: " + down.error().to_string());
      if (exit_code == 0) exit_code = kOwnFailure;
    }
  }
  write_reports(roles, exit_code);
  // All is done, only words are left: a signal may interrupt the wait until they are read.
  run_.signals.release();
  if (first && facts_.is_stuck) say("first failure: " + words_of(*first));
  if (!facts_.is_stuck) {
    std::string words;
    for (const auto& role : roles) {
      if (arguments_.report && role.mesh) words += launch_report(*role.mesh, role.ranks);
    }
    if (facts_.is_stopped_elsewhere) words += words_of_a_stop(roles);
    // The failure stands last.
    if (first && first->report->os_error == ENOENT)
      words += not_found_hint(
          arguments_.roles.at(static_cast<std::size_t>(first->role - roles.data())).command);
    words += last_words(roles, facts_.is_stopped_elsewhere);
    for (std::size_t number = 0; number < roles.size(); ++number) {
      if (roles[number].mesh) words += roles_[number]->mpi_words(roles[number].ranks);
    }
    words = shown_lines(words);
    if (has_colours(STDERR_FILENO)) words = own_lines_in_colour(words);
    [[maybe_unused]] const auto n = ::write(STDERR_FILENO, words.data(), words.size());
  }
  // What waits for a rank or a reader that does not come cannot be joined; hosts that are left see
  // our lifeline end.
  if (!are_ended || facts_.is_stuck || !stop_pumps()) {
    std::cout.flush();
    ::_exit(exit_code);
  }
  for (const auto& role : roles_) {
    role->parts().pump.reset();
    role->parts().mesh.reset();
  }
  return exit_code;
}

}  // namespace meshbus::cli
