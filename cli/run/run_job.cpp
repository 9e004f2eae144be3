#include "cli/run/run_job.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <future>
#include <iostream>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cli/run/hang_watch.h"
#include "cli/run/job_hosts.h"
#include "cli/run/job_signals.h"
#include "cli/run/job_start.h"
#include "cli/run/launch_report.h"
#include "cli/run/mpi_trouble.h"
#include "cli/run/run_report.h"
#include "cli/run/stop_ladder.h"
#include "cli/support/exit_codes.h"

namespace meshbus::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using Stop = StopLadder::Step;

/// How long stdin may still be on its way to a rank when all have ended.
constexpr milliseconds kPumpLimit{500};
/// What the hosts are given to say which ranks are left.
constexpr milliseconds kLastQuestion{1000};
/// So often, in milliseconds, we look at the ranks ourselves while nobody reads our output.
constexpr int kLookAgain = 250;

bool is_end_signal(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
}

int end_code(int signal) {
  return signal == SIGINT ? 130 : 143;
}

/// Whether the rank ended because its host did, or the process there that held it.
bool is_host_lost(const RankReport& rank) {
  return rank.cause == Cause::host_lost || rank.cause == Cause::keeper_lost ||
         rank.cause == Cause::frozen;
}

/// The exit code of the first failure. A lost host has its own: the job did nothing wrong.
int code_of(const MeshOutcome& outcome) {
  const auto& failure = outcome.first_failure;
  return failure && is_host_lost(*failure) ? kHostLost : outcome.exit_code();
}

/// What the attempts of a run have in common.
struct Run {
  const RunArguments& arguments;
  JobSignals signals;
  JobHosts hosts;
  /// The end of --timeout, which counts for all attempts together.
  std::optional<Clock::time_point> timeout_at;
  HangWatch hang = {};
};

/// One attempt of a run, from its start to its end; the first one starts the hosts, and the last
/// one ends them. Decides on the main thread; the library's threads only bring events.
class Job {
 public:
  explicit Job(Run& run) : run_(run), arguments_(run.arguments), signals_(run.signals) {}
  /// The exit code of the run; nothing when a host was lost and another attempt is to be made.
  std::optional<int> run();

 private:
  void loop();
  void on_signal(int signal);
  void on_events();
  void on_failure(const RankReport& failure);
  void on_mpi();
  void on_time();
  void on_blocked();
  void begin_stop(int code, const std::string& reason, bool at_once,
                  std::optional<std::uint64_t> because = {});
  void on_not_ended();
  void drop_output();
  std::optional<int> finish();
  bool begin_next_attempt(const MeshOutcome& outcome);
  void on_start_failed(const Error& error);
  bool write_report(const std::string& report) const;
  bool write_trace(const MeshOutcome& outcome) const;

  Run& run_;
  const RunArguments& arguments_;
  JobSignals& signals_;
  RunEvents events_;
  std::future<Result<void>> starting_;
  /// start_job() is over.
  std::atomic<bool> is_started_ = false;
  /// Signals that came in between: they are for the ranks.
  std::vector<int> early_signals_;
  JobParts parts_;
  bool is_up_ = false;
  bool is_over_ = false;
  bool is_stopped_elsewhere_ = false;
  /// A thread waits for a reader of our output that does not come: it cannot be joined.
  bool is_stuck_ = false;
  /// Set by the first reason to stop that is not a rank's own failure.
  std::optional<int> code_;
  /// What MPI helpers tell of the ranks.
  MpiTrouble mpi_;
  StopLadder stop_;
};

std::optional<int> Job::run() {
  // Hosts may take a while to start; signals must work meanwhile.
  starting_ = std::async(std::launch::async, [this] {
    // Told also when start_job() throws: the exception comes out on the main thread.
    struct Told {
      Job& job;
      ~Told() {
        job.is_started_ = true;
        job.events_.wake();
      }
    } told{*this};
    return start_job(arguments_, events_, run_.hosts, parts_);
  });
  loop();
  return finish();
}

void Job::loop() {
  while (!is_over_) {
    int wait = -1;
    const auto hang_at = is_up_ && !stop_.has_begun() ? run_.hang.due() : std::nullopt;
    for (const auto& when : {run_.timeout_at, stop_.due(), hang_at}) {
      if (!when) continue;
      const auto left = static_cast<int>(std::clamp<std::int64_t>(
          std::chrono::ceil<milliseconds>(*when - Clock::now()).count(), 0, 3'600'000));
      wait = wait < 0 ? left : std::min(wait, left);
    }
    const bool is_blocked = is_up_ && stop_.step() != Stop::gracefully && events_.is_blocked();
    if (is_blocked) wait = wait < 0 ? kLookAgain : std::min(wait, kLookAgain);
    pollfd fds[2] = {{signals_.fd(), POLLIN, 0}, {events_.fd(), POLLIN, 0}};
    ::poll(fds, 2, wait);
    if (fds[0].revents != 0) {
      while (const auto signal = signals_.next()) on_signal(*signal);
    }
    if (fds[1].revents != 0) {
      events_.clear();
      on_events();
    }
    if (is_blocked) on_blocked();
    on_time();
  }
}

void Job::on_blocked() {
  // Handlers run one after the other: all events wait behind output without a reader.
  const auto outcome = parts_.mesh->known();
  if (stop_.step() == Stop::at_once) {
    if (outcome.is_ended()) drop_output();
  } else if (outcome.first_failure) {
    events_.failed(*outcome.first_failure);
    on_events();
  }
}

void Job::on_signal(int signal) {
  const bool is_end = is_end_signal(signal);
  const int code = end_code(signal);
  const std::string name = signal == SIGINT ? "Ctrl-C" : signal == SIGTERM ? "SIGTERM" : "hang-up";
  const auto first_end = std::find_if(early_signals_.begin(), early_signals_.end(), is_end_signal);
  const bool is_second_end = is_end && first_end != early_signals_.end();
  if (!is_up_ && parts_.is_spawning && !is_second_end) {
    early_signals_.push_back(signal);
    if (is_end)
      say(name + " while the ranks are being started: they are stopped as soon as that is over");
  } else if (!is_up_ && is_end) {
    // No mesh that could be stopped in order. The hosts hold a lifeline of this process: they end
    // with it.
    say(name + " while starting");
    ::_exit(is_second_end ? end_code(*first_end) : code);
  } else if (is_end) {
    // Ranks that a third one finds were told to end at once, if their hosts hear anything.
    if (stop_.step() == Stop::at_once) stop_.hurry(Clock::now());
    begin_stop(code, name, /*at_once=*/stop_.has_begun());
  } else if (signal == SIGQUIT) {
    if (is_up_) run_.hang.look(run_.hosts, parts_, "Ctrl-\\");
  } else {
    const int forwarded = signal == SIGTSTP ? SIGSTOP : signal;
    if (is_up_) {
      if (auto sent = parts_.mesh->signal({}, forwarded, std::chrono::seconds(2));
          !sent && sent.error().code() != ErrorCode::not_exist)
        say("cannot forward " + signal_name(signal) + ": " + sent.error().to_string());
    }
    if (signal == SIGTSTP) JobSignals::stop_self();
  }
}

void Job::on_events() {
  if (!is_up_) {
    if (!is_started_) return;
    if (auto started = starting_.get(); !started) {
      on_start_failed(started.error());
      return;
    }
    is_up_ = true;
    // The time of the ranks: how long hosts may take to start has its own limit.
    if (arguments_.timeout && run_.hosts.attempt() == 0)
      run_.timeout_at = Clock::now() + *arguments_.timeout;
    run_.hang.begin(arguments_.stall_after, Clock::now());
    for (const int signal : std::exchange(early_signals_, {})) on_signal(signal);
  }
  if (const auto frozen = events_.take_frozen(); frozen && !stop_.has_begun())
    run_.hang.on_frozen(run_.hosts, parts_, *frozen, Clock::now());
  if (parts_.mpi) on_mpi();
  if (const auto failure = events_.failure();
      failure && !arguments_.keep_going && !stop_.has_begun())
    on_failure(*failure);
  if (const int error = events_.output_error(); error != 0 && !stop_.has_begun()) {
    begin_stop(error == EPIPE ? kBrokenPipe : kOwnFailure,
               error == EPIPE
                   ? "nobody reads the output"
                   : std::string("the output cannot be written: ") + std::strerror(error),
               /*at_once=*/false);
  }
  if (const auto lost = events_.input_error(); !lost.empty() && !stop_.has_begun())
    begin_stop(kOwnFailure, lost, /*at_once=*/false);
  if (const auto rank = events_.first_stopped();
      rank && !stop_.has_begun() && !arguments_.keep_going) {
    is_stopped_elsewhere_ = true;
    begin_stop(kStopped, "rank " + std::to_string(*rank) + " was stopped, not by this run",
               /*at_once=*/false);
  }
  if (events_.is_ended()) is_over_ = true;
}

void Job::on_failure(const RankReport& failure) {
  // The code is that of the failure itself: see finish().
  stop_.begin(/*at_once=*/false, parts_.grace, Clock::now());
  parts_.mesh->request_stop(
      {.reason = mpi_.words_of(failure).value_or("rank " + std::to_string(failure.rank) +
                                                 " failed: " + failure.words()),
       .grace = parts_.grace,
       .deadline = {},
       .ranks = {},
       .because = failure.rank});
}

void Job::on_mpi() {
  for (const auto& notice : events_.take_notices()) mpi_.add(notice);
  if (stop_.has_begun()) return;
  const auto outcome = parts_.mesh->known();
  const bool may_restart = arguments_.restart.on != RestartPolicy::On::never;
  if (const auto trouble = mpi_.decide(outcome.ranks, may_restart)) {
    begin_stop(trouble->code, trouble->words, /*at_once=*/false, trouble->rank);
  } else if (const auto helper = events_.lost_helper(); helper && !is_host_lost(*helper)) {
    begin_stop(kOwnFailure,
               "the MPI helper on " + helper->host.to_string() + " has ended: " + helper->words(),
               /*at_once=*/false);
  }
}

void Job::on_start_failed(const Error& error) {
  say(error.to_string());
  const bool is_mistake =
      !parts_.is_hosts_fault &&
      (error.code() == ErrorCode::configuration_error || error.code() == ErrorCode::parse_error);
  code_ = is_mistake ? kUsage : kOwnFailure;
  if (const auto end = std::find_if(early_signals_.begin(), early_signals_.end(), is_end_signal);
      end != early_signals_.end())
    code_ = end_code(*end);
  is_over_ = true;
  if (!arguments_.json.empty() && !write_report(json_report(error, *code_)))
    say("cannot write the report to " + arguments_.json + ": " + std::strerror(errno));
}

void Job::on_time() {
  const auto now = Clock::now();
  if (run_.timeout_at && now >= *run_.timeout_at) {
    run_.timeout_at.reset();
    // While they still are where they hang.
    if (!stop_.has_begun()) run_.hang.look(run_.hosts, parts_, "the --timeout is over");
    begin_stop(kTimedOut,
               "the --timeout of " + std::to_string(arguments_.timeout->count()) + " ms is over",
               /*at_once=*/false);
  }
  if (is_up_ && !stop_.has_begun()) {
    const auto stall = run_.hang.pass(run_.hosts, parts_, events_, now);
    if (stall && arguments_.stall_stop)
      begin_stop(kTimedOut, *stall, /*at_once=*/false);
    else if (stall)
      say(*stall);
  }
  if (stop_.pass(now)) {
    if (parts_.mesh->known().is_ended()) {
      // A user who pages through the output of a failed run has all the time. A user who
      // stopped the run does not wait.
      if (code_) drop_output();
    } else if (stop_.step() == Stop::gracefully) {
      begin_stop(code_.value_or(kOwnFailure), "the grace is over", /*at_once=*/true);
    } else {
      on_not_ended();
    }
  }
}

void Job::on_not_ended() {
  std::vector<RankReport> left;
  const auto ranks = parts_.mesh->status(kLastQuestion);
  for (const auto& rank : ranks ? *ranks : parts_.mesh->known().ranks) {
    if (!rank.is_terminal()) left.push_back(rank);
  }
  const auto is_silent = [](const RankReport& rank) { return rank.state == ProcState::unknown; };
  const bool is_silence = std::all_of(left.begin(), left.end(), is_silent);
  // Hosts of this run end with it, whatever they hear: nothing is gained by waiting for them.
  const bool is_standing = arguments_.from == RunArguments::From::addresses;
  if (left.empty()) return stop_.wait_on(Clock::now());
  if (is_standing && is_silence && stop_.wait_for_silent(Clock::now())) {
    say(words_of_silence(left) +
        "; waiting until its host finds out what is wrong there; Ctrl-C ends that");
    // An agent that was replaced has not heard the order.
    parts_.mesh->request_stop({.reason = "the grace is over",
                               .grace = milliseconds(0),
                               .deadline = {},
                               .ranks = {},
                               .because = {}});
    return;
  }
  say(words_of_left(left, is_standing));
  // The first reason to stop decides the exit code, a failure included.
  if (!code_ && !parts_.mesh->known().first_failure) code_ = kOwnFailure;
  is_over_ = true;
}

void Job::begin_stop(int code, const std::string& reason, bool at_once,
                     std::optional<std::uint64_t> because) {
  // The first reason to stop decides the exit code, a rank's own failure included.
  if (!code_ && !stop_.has_begun()) {
    code_ = code;
    say(reason + ": stopping the mesh");
  }
  if (!stop_.begin(at_once, parts_.grace, Clock::now())) return;
  parts_.mesh->request_stop({.reason = reason,
                             .grace = at_once ? milliseconds(0) : parts_.grace,
                             .deadline = {},
                             .ranks = {},
                             .because = because});
}

void Job::drop_output() {
  say("all ranks have ended, but nobody reads their last output: it is dropped");
  is_stuck_ = true;
  is_over_ = true;
}

bool Job::write_report(const std::string& report) const {
  if (arguments_.json == "-") return static_cast<bool>(std::cout << report << std::flush);
  std::ofstream file(arguments_.json);
  return static_cast<bool>(file << report << std::flush);
}

bool Job::write_trace(const MeshOutcome& outcome) const {
  std::ofstream file(arguments_.trace);
  return static_cast<bool>(file << launch_trace(parts_.mesh->ref(), outcome) << std::flush);
}

bool Job::begin_next_attempt(const MeshOutcome& outcome) {
  // What the user or another command wanted is not done again.
  if (code_ || is_stopped_elsewhere_ || is_stuck_ || !outcome.is_ended()) return false;
  if (!outcome.first_failure) return false;
  if (parts_.pump && !parts_.pump->stop_within(kPumpLimit)) return false;
  const auto words = run_.hosts.begin_next(parts_.mesh->ref(), outcome, parts_.grace);
  if (!words) return false;
  say(*words);
  if (parts_.mpi) parts_.mpi->stop();
  return true;
}

std::optional<int> Job::finish() {
  if (!is_up_) return code_.value_or(kOwnFailure);
  const MeshOutcome outcome = parts_.mesh->known();
  int exit_code = code_.value_or(code_of(outcome));
  // With --keep-going we stop nothing: the report names the command that did, and a job that is
  // half done is no success.
  is_stopped_elsewhere_ = is_stopped_elsewhere_ || (events_.first_stopped() && !stop_.has_begun());
  if (is_stopped_elsewhere_ && exit_code == 0) exit_code = kStopped;
  if (begin_next_attempt(outcome)) return std::nullopt;
  if (!outcome.is_ended()) {
    std::vector<std::uint64_t> left;
    for (const auto& rank : outcome.ranks) {
      if (!rank.is_terminal()) left.push_back(rank.rank);
    }
    say("not ended, or nobody can say: ranks " + to_string(to_rank_set(left)));
  }
  if (parts_.mpi && outcome.is_ended()) {
    parts_.mpi->stop();
    for (const auto& notice : events_.take_notices()) mpi_.add(notice);
    const bool may_restart = arguments_.restart.on != RestartPolicy::On::never;
    const auto trouble = mpi_.decide(outcome.ranks, may_restart);
    const bool is_first_cause = trouble && trouble->is_before_the_end && !code_ &&
                                outcome.first_failure &&
                                outcome.first_failure->rank == trouble->rank;
    if (trouble && (exit_code == 0 || is_first_cause)) exit_code = trouble->code;
  }
  if (outcome.is_ended() && arguments_.from != RunArguments::From::addresses) {
    if (auto down =
            run_.hosts.all().shutdown(std::chrono::seconds(10), milliseconds(0), "the run is over");
        !down) {
      say("the hosts of this run did not end in order: " + down.error().to_string());
      if (exit_code == 0) exit_code = kOwnFailure;
    }
  }
  if (!arguments_.json.empty() && !(is_stuck_ && arguments_.json == "-") &&
      !write_report(json_report(parts_.mesh->ref(), outcome, exit_code, run_.hosts.former(),
                                parts_.mesh->bindings(), run_.hang.json()))) {
    say("cannot write the report to " + arguments_.json + ": " + std::strerror(errno));
  }
  if (!arguments_.trace.empty() && !write_trace(outcome)) {
    say("cannot write the trace to " + arguments_.trace + ": " + std::strerror(errno));
  }
  // All is done, only words are left: a signal may interrupt the wait until they are read.
  signals_.release();
  if (outcome.first_failure && is_stuck_)
    say("first failure: " + outcome.first_failure->describe());
  if (!is_stuck_) {
    const auto words =
        (arguments_.report ? launch_report(parts_.mesh->ref(), outcome) : std::string()) +
        (is_stopped_elsewhere_ ? words_of_a_stop(outcome) : std::string()) + last_words(outcome) +
        mpi_.last_words(outcome.first_failure);
    [[maybe_unused]] const auto n = ::write(STDERR_FILENO, words.data(), words.size());
  }
  // What waits for a rank or a reader that does not come cannot be joined; hosts that are left see
  // our lifeline end.
  if (!outcome.is_ended() || is_stuck_ || (parts_.pump && !parts_.pump->stop_within(kPumpLimit))) {
    std::cout.flush();
    ::_exit(exit_code);
  }
  parts_.pump.reset();
  parts_.mesh.reset();
  return exit_code;
}

}  // namespace

int run_job(const RunArguments& arguments) {
  Run run{.arguments = arguments, .signals = {}, .hosts = {}, .timeout_at = {}, .hang = {}};
  while (true) {
    if (const auto code = Job(run).run()) return *code;
  }
}

}  // namespace meshbus::cli
