#include "cli/run/job.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "cli/run/job_end.h"
#include "cli/run/say.h"
#include "cli/support/exit_codes.h"
#include "cli/support/text_error.h"

namespace meshbus::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using Stop = StopLadder::Step;

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

std::string name_of(int signal) {
  return signal == SIGINT ? "Ctrl-C" : signal == SIGTERM ? "SIGTERM" : "hang-up";
}

}  // namespace

Job::Job(Run& run, JobOrder order)
    : run_(run),
      arguments_(run.arguments),
      order_(std::move(order)),
      roles_(run.arguments, bell_) {}

std::optional<int> Job::run() {
  start(order_.startable());
  loop();
  return finish();
}

void Job::start(Roles roles) {
  starting_roles_ = std::move(roles);
  for (const auto number : starting_roles_) order_.set(number, JobOrder::State::started);
  is_started_ = false;
  // Hosts may take a while to start; signals must work meanwhile.
  starting_ = std::async(std::launch::async, [this]() -> Result<void> {
    // Told also when something throws: the exception comes out on the main thread.
    struct Told {
      Job& job;
      ~Told() {
        job.is_started_ = true;
        job.bell_.ring();
      }
    } told{*this};
    if (places_.empty()) {
      if (run_.hosts.attempt() == 0) {
        if (auto done = prepare_job(arguments_, run_.hosts, is_hosts_fault_); !done) return done;
      }
      is_hosts_fault_ = true;
      if (auto chosen = run_.hosts.choose(); !chosen) return chosen;
      std::vector<RoleParts*> parts;
      for (const auto& role : roles_) parts.push_back(&role->parts());
      auto places = place_roles(arguments_, run_.hosts, parts);
      if (!places) return fail(places.error());
      is_hosts_fault_ = false;
      places_ = std::move(*places);
    }
    for (const auto number : starting_roles_) {
      auto& role = *roles_[number];
      if (auto done =
              start_role(arguments_, number, places_, run_.hosts, role.events(), role.parts());
          !done)
        return role.name().empty() ? done : fail(done.error().within("role " + role.name()));
    }
    return {};
  });
}

void Job::loop() {
  while (!is_over_) {
    int wait = -1;
    const auto hang_at = roles_.is_up() && !stop_.has_begun() ? run_.hang.due() : std::nullopt;
    const auto look_at = stop_.has_begun() ? std::nullopt : roles_.due();
    for (const auto& when : {run_.timeout_at, stop_.due(), hang_at, look_at}) {
      if (!when) continue;
      const auto left = static_cast<int>(std::clamp<std::int64_t>(
          std::chrono::ceil<milliseconds>(*when - Clock::now()).count(), 0, 3'600'000));
      wait = wait < 0 ? left : std::min(wait, left);
    }
    const bool looks_again = stop_.step() != Stop::gracefully && roles_.is_blocked();
    if (looks_again) wait = wait < 0 ? kLookAgain : std::min(wait, kLookAgain);
    pollfd fds[2] = {{run_.signals.fd(), POLLIN, 0}, {bell_.fd(), POLLIN, 0}};
    ::poll(fds, 2, wait);
    if (fds[0].revents != 0) {
      while (const auto signal = run_.signals.next()) on_signal(*signal);
    }
    if (fds[1].revents != 0) {
      bell_.clear();
      on_events();
    }
    if (looks_again) on_blocked();
    on_time();
  }
}

void Job::on_blocked() {
  // Handlers run one after the other: all events wait behind output without a reader.
  if (stop_.step() == Stop::at_once) {
    if (!is_starting() && roles_.have_all_ended()) drop_output();
    return;
  }
  bool has_failed = false;
  for (const auto& role : roles_) {
    if (!role->is_up()) continue;
    const auto failure = role->known().first_failure;
    if (failure) role->events().failed(*failure);
    has_failed = has_failed || failure;
  }
  if (has_failed) on_events();
}

void Job::on_signal(int signal) {
  if (is_end_signal(signal)) {
    on_end_signal(signal);
  } else if (!roles_.is_up() && roles_.is_spawning()) {
    early_signals_.push_back(signal);
  } else if (signal == SIGQUIT) {
    if (roles_.is_up()) run_.hang.look(run_.hosts.context(), roles_.views(), "Ctrl-\\");
  } else {
    const int forwarded = signal == SIGTSTP ? SIGSTOP : signal;
    for (const auto& role : roles_) {
      if (!role->is_up() || role->is_over()) continue;
      if (auto sent = role->parts().mesh->signal({}, forwarded, std::chrono::seconds(2));
          !sent && sent.error().code() != ErrorCode::not_exist)
        say("cannot forward " + signal_name(signal) + ": " + sent.error().to_string());
    }
    if (signal == SIGTSTP) JobSignals::stop_self();
  }
}

void Job::on_end_signal(int signal) {
  const auto first_end = std::find_if(early_signals_.begin(), early_signals_.end(), is_end_signal);
  const bool is_second_end = first_end != early_signals_.end();
  if (!roles_.is_up() && roles_.is_spawning() && !is_second_end) {
    early_signals_.push_back(signal);
    say(name_of(signal) +
        " while the ranks are being started: they are stopped as soon as that is over");
  } else if (!roles_.is_up()) {
    // No mesh that could be stopped in order. The hosts hold a lifeline of this process: they end
    // with it.
    say(name_of(signal) + " while starting");
    ::_exit(is_second_end ? end_code(*first_end) : end_code(signal));
  } else {
    is_given_up_ = true;
    // Ranks that a third one finds were told to end at once, if their hosts hear anything.
    if (stop_.step() == Stop::at_once) stop_.hurry(Clock::now());
    begin_stop(end_code(signal), name_of(signal), /*at_once=*/stop_.has_begun());
  }
}

void Job::on_events() {
  if (is_starting()) {
    if (!is_started_ && !roles_.is_up()) return;
    if (is_started_) on_started();
    if (is_over_) return;
  }
  // First: what a role loses because the job is over is no trouble.
  note_states();
  const bool is_over = order_.is_over();
  for (std::size_t number = 0; number < roles_.size(); ++number) {
    const auto& role = roles_[number];
    if (!role->is_up()) continue;
    if (const auto frozen = role->events().take_frozen(); frozen && !stop_.has_begun())
      run_.hang.on_frozen(run_.hosts.context(), roles_.views(), role->rank_name(frozen->rank),
                          *frozen, Clock::now());
    if (stop_.has_begun() || (is_over && !order_.is_ending(number))) continue;
    if (const auto trouble = role->find_trouble()) on_trouble(*role, *trouble);
  }
  on_order();
}

void Job::on_started() {
  const auto started = starting_.get();
  const bool is_first = !roles_.is_up();
  for (const auto number : starting_roles_) {
    if (roles_[number]->parts().mesh) roles_[number]->set_up();
  }
  if (!started && !roles_.is_up()) return on_start_failed(started.error());
  if (!started && !stop_.has_begun()) {
    begin_stop(kOwnFailure, error_words(started.error()), /*at_once=*/false);
  } else if (!started) {
    say(error_words(started.error()));
  }
  if (is_first) {
    // The time of the ranks: how long hosts may take to start has its own limit.
    if (arguments_.timeout && run_.hosts.attempt() == 0)
      run_.timeout_at = Clock::now() + *arguments_.timeout;
    run_.hang.begin(arguments_.stall_after, Clock::now());
    for (const int signal : std::exchange(early_signals_, {})) on_signal(signal);
    return;
  }
  if (!stop_.has_begun()) return;
  for (const auto number : starting_roles_) {
    if (roles_[number]->is_up())
      roles_[number]->request_stop(stop_reason_, stop_.step() == Stop::at_once, {});
  }
}

void Job::on_start_failed(const Error& error) {
  say(error_words(error));
  const bool is_mistake = !is_hosts_fault_ && (error.code() == ErrorCode::configuration_error ||
                                               error.code() == ErrorCode::parse_error);
  code_ = is_mistake ? kUsage : kOwnFailure;
  if (const auto end = std::find_if(early_signals_.begin(), early_signals_.end(), is_end_signal);
      end != early_signals_.end())
    code_ = end_code(*end);
  is_over_ = true;
  if (!arguments_.json.empty()) write_report(arguments_.json, json_report(error, *code_));
}

void Job::on_trouble(const JobRole& role, const JobRole::Trouble& trouble) {
  if (trouble.is_stopped_elsewhere) is_stopped_elsewhere_ = true;
  if (!stop_.has_begun()) cause_ = &role;
  // Without a code it is that of the failure itself: see finish().
  if (trouble.code) {
    code_ = trouble.code;
    say(trouble.words + ": stopping the " + (arguments_.has_roles ? "job" : "mesh"));
  }
  order_stop(trouble.words, /*at_once=*/false, &role, trouble.rank);
}

void Job::note_states() {
  for (std::size_t number = 0; number < roles_.size(); ++number) {
    if (roles_[number]->is_up()) order_.set(number, roles_[number]->state());
  }
}

void Job::on_order() {
  const bool is_quiet =
      !is_starting() && std::all_of(roles_.begin(), roles_.end(), [](const auto& role) {
        return !role->is_up() || role->is_over();
      });
  if (stop_.has_begun()) {
    is_over_ = is_over_ || is_quiet;
    return;
  }
  if (order_.is_over()) {
    if (is_quiet) {
      is_over_ = true;
      return;
    }
    roles_.release_others(order_);
    const auto& last = roles_[order_.ending().back()]->name();
    order_stop(last + (order_.ending().size() > 1 ? " has ended, as the last of those that end the "
                                                    "job"
                                                  : " has ended, and the job with it"),
               /*at_once=*/false);
    return;
  }
  if (const auto stuck = order_.stuck()) {
    const auto& role = roles_[stuck->role]->name();
    const auto& because = roles_[stuck->because]->name();
    // Nothing has failed, but half a job is no success.
    if (!roles_[stuck->because]->known().first_failure) code_ = kStopped;
    const bool is_unready = order_.state(stuck->because) == JobOrder::State::unready;
    say("role " + role + " cannot be started any more: " + because +
        (is_unready ? " has ended without its ready-text" : " has not ended with success"));
    order_stop(because + (is_unready ? " was never ready, and " : " has failed, and ") + role +
                   " waits for it",
               /*at_once=*/false);
    is_over_ = is_over_ || is_quiet;
    return;
  }
  if (is_starting()) return;
  if (auto next = order_.startable(); !next.empty()) start(std::move(next));
}

void Job::on_time() {
  const auto now = Clock::now();
  if (run_.timeout_at && now >= *run_.timeout_at) {
    run_.timeout_at.reset();
    // While they still are where they hang.
    if (!stop_.has_begun())
      run_.hang.look(run_.hosts.context(), roles_.views(), "the --timeout is over");
    is_given_up_ = true;
    begin_stop(kTimedOut,
               "the --timeout of " + std::to_string(arguments_.timeout->count()) + " ms is over",
               /*at_once=*/false);
  }
  if (const auto look_at = roles_.due(); look_at && now >= *look_at && !stop_.has_begun())
    on_events();
  if (roles_.is_up() && !stop_.has_begun()) {
    const auto stall = run_.hang.pass(run_.hosts.context(), run_.hosts.all(), roles_.views(), now);
    if (stall && arguments_.stall_stop)
      begin_stop(kTimedOut, *stall, /*at_once=*/false);
    else if (stall)
      say(*stall);
  }
  if (stop_.pass(now)) {
    if (!is_starting() && roles_.have_all_ended()) {
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
  std::vector<RoleOutcome> left;
  bool is_silence = true;
  bool has_failed = false;
  for (const auto& role : roles_) {
    if (!role->is_up()) continue;
    auto outcome = role->outcome();
    has_failed = has_failed || outcome.ranks.first_failure;
    if (const auto ranks = role->parts().mesh->status(kLastQuestion)) outcome.ranks.ranks = *ranks;
    std::erase_if(outcome.ranks.ranks, [](const RankReport& rank) { return rank.is_terminal(); });
    for (const auto& rank : outcome.ranks.ranks)
      is_silence = is_silence && rank.state == ProcState::unknown;
    if (!outcome.ranks.ranks.empty()) left.push_back(std::move(outcome));
  }
  // Hosts of this run end with it, whatever they hear: nothing is gained by waiting for them.
  const bool is_standing = arguments_.from == RunArguments::From::addresses;
  if (left.empty() && !is_starting()) return stop_.wait_on(Clock::now());
  if (left.empty()) {
    say("a role is still being started, on a host that does not answer: giving up; its ranks end "
        "with their host, or with the lease of this command");
    // As below: a failure decides the exit code.
    if (!code_ && !has_failed) code_ = kOwnFailure;
    is_over_ = true;
    return;
  }
  if (is_standing && is_silence && stop_.wait_for_silent(Clock::now())) {
    for (const auto& role : left)
      say((role.name.empty() ? "" : role.name + ": ") + words_of_silence(role.ranks.ranks) +
          "; waiting until its host finds out what is wrong there; Ctrl-C ends that");
    // An agent that was replaced has not heard the order.
    for (const auto& role : roles_) {
      if (role->is_up()) role->request_stop("the grace is over", /*at_once=*/true, {});
    }
    return;
  }
  for (const auto& role : left)
    say((role.name.empty() ? "" : role.name + ": ") + words_of_left(role.ranks.ranks, is_standing));
  // The first reason to stop decides the exit code, a failure included.
  if (!code_ && !has_failed) code_ = kOwnFailure;
  is_over_ = true;
}

void Job::begin_stop(int code, const std::string& reason, bool at_once) {
  // The first reason to stop decides the exit code, a rank's own failure included.
  if (!code_ && !stop_.has_begun()) {
    code_ = code;
    say(reason + ": stopping the " + (arguments_.has_roles ? "job" : "mesh"));
  }
  order_stop(reason, at_once);
}

void Job::order_stop(const std::string& reason, bool at_once, const JobRole* of,
                     std::optional<std::uint64_t> because) {
  if (!stop_.begin(at_once, roles_.grace(), Clock::now())) return;
  stop_reason_ = reason;
  for (const auto& role : roles_) {
    if (!role->is_up() || role->is_over()) continue;
    role->request_stop(reason, at_once, role.get() == of ? because : std::nullopt);
  }
}

void Job::drop_output() {
  // A rank that SIGKILL did not end holds its pipes open.
  say(roles_.is_blocked()
          ? "all ranks have ended, but nobody reads their last output: it is dropped"
          : "no rank is waited for any more, but the end of their output has not come: what "
            "follows "
            "is dropped");
  is_stuck_ = true;
  is_over_ = true;
}

std::optional<int> Job::finish() {
  if (!roles_.is_up()) return code_.value_or(kOwnFailure);
  // The failure of another role may be heard of first, though it came later: by the clocks of their
  // hosts.
  note_states();
  if (order_.is_done()) roles_.release_others(order_);
  JobEnd::Facts facts{.code = code_,
                      .has_stopped = stop_.has_begun(),
                      .is_starting = is_starting(),
                      .is_stopped_elsewhere = is_stopped_elsewhere_,
                      .is_given_up = is_given_up_,
                      .is_stuck = is_stuck_,
                      .cause = cause_};
  return JobEnd(run_, roles_, order_, facts).finish();
}

}  // namespace meshbus::cli
