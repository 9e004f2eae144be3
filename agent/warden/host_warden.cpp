#include "agent/warden/host_warden.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "agent/os/daemon_protection.h"
#include "agent/os/process_table.h"
#include "agent/os/sweep.h"
#include "agent/warden/exit_codes.h"
#include "agent/warden/ready_report.h"
#include "common/base/lifeline_release.h"
#include "common/base/os_error.h"
#include "common/base/standard_streams.h"

namespace meshbus::warden {

namespace {

using namespace std::chrono_literals;

constexpr auto kOwnSweepLimit = 10s;
constexpr std::size_t kLongestRelease = 64;

bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= kLongestRelease &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
}

std::set<pid_t> find_children() {
  if (const auto children = os::list_children()) return {children->begin(), children->end()};
  std::set<pid_t> found;
  for (const pid_t pid : os::list_pids()) {
    const auto entry = os::read_process(pid);
    if (entry && entry->parent == ::getpid()) found.insert(pid);
  }
  return found;
}

std::string describe_loss(const Role& role, const std::string& how) {
  return "the " + role.name + " " +
         (role.said.empty() || role.ready ? how : "failed: " + role.said);
}

std::string within_window(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " time" : " times") + " within " +
         std::to_string(RestartPolicy::kWindow.count()) + " s";
}

}  // namespace

Warden::Warden(const WardenOptions& options)
    : options_(options),
      log_(UniqueFd(options.ready_fd)),
      starter_(options, site_),
      launcher_(options.lifeline_fd),
      frozen_(options.frozen_limit),
      broker_restarts_({.most = std::nullopt}),
      agent_restarts_({.most = RestartPolicy::kAgentRestarts}),
      exporter_(options.metrics_fd >= 0, starter_, log_),
      upgrader_(roles_, starter_, exporter_, log_) {
  role(RoleName::keeper).name = "keeper";
  role(RoleName::broker).name = "broker";
  role(RoleName::agent).name = "agent";
}

int Warden::run() {
  start();
  while (sequence_.phase() != Phase::ended) turn();
  return finish();
}

void Warden::start() {
  if (auto done = prepare(); !done) return fail_start(done.error().exit_code, done.error().why);
  auto started = site_.limit_pids(options_.pids_limit, options_.pids_limit_is_needed);
  if (started) started = starter_.start_keeper(role(RoleName::keeper));
  if (started) started = starter_.start_broker(role(RoleName::broker));
  if (!started) return fail_start(kExitOsFile, started.error().detail());
  sequence_.start(Clock::now());
}

Started Warden::prepare() {
  if (auto done = prepare_process(); !done) return done;
  if (auto done = starter_.prepare(); !done) return done;
  os::forbid_dumps();
  if (auto done = site_.prepare(options_, starter_.spawner(), log_); !done) return done;
  starter_.choose_address();
  return {};
}

// Streams, signals, and descriptors that no role may inherit.
Started Warden::prepare_process() {
  const auto failed = [](std::string why) {
    return tl::unexpected(StartFailure{kExitOsError, std::move(why)});
  };
  fill_standard_streams();
  manager_ = ServiceManager::from_environment();
  // Children of a shell that executed us, say: they are not ours to end.
  earlier_children_ = find_children();
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
    return failed(os_error("prctl(PR_SET_CHILD_SUBREAPER)"));
  ::signal(SIGPIPE, SIG_IGN);  // the reader of our output may end before us
  struct sigaction by_default{};
  by_default.sa_handler = SIG_DFL;
  by_default.sa_flags = SA_NOCLDSTOP;
  ::sigaction(SIGCHLD, &by_default, nullptr);  // not ignored: the kernel would reap for us
  sigset_t handled;
  sigemptyset(&handled);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&handled, signal);
  if (::sigprocmask(SIG_SETMASK, &handled, nullptr) != 0) return failed(os_error("sigprocmask"));
  signals_ = UniqueFd(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return failed(os_error("signalfd"));
  for (const int fd : {log_.ready_fd(), launcher_.get()}) {
    if (fd >= 0 && ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
      return failed("descriptor " + std::to_string(fd) + ": " + std::strerror(errno));
  }
  const int lifeline = launcher_.get();
  if (launcher_ && ::fcntl(lifeline, F_SETFL, ::fcntl(lifeline, F_GETFL) | O_NONBLOCK) != 0)
    return failed(os_error("fcntl of the launcher's lifeline"));
  return {};
}

int Warden::wait_milliseconds() const {
  std::optional<Clock::time_point> next = sequence_.deadline();
  const auto consider = [&next](const std::optional<Clock::time_point>& due) {
    if (due && (!next || *due < *next)) next = due;
  };
  consider(manager_.due());
  consider(faults_.due());
  if (sequence_.phase() == Phase::running) {
    consider(frozen_.due());
    consider(broker_due_);
    consider(exporter_.due());
    consider(upgrader_.due());
  }
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::clamp<long>(static_cast<long>(left), 0, 60'000));
}

void Warden::turn() {
  std::array<pollfd, 2 + kRoleCount> watched{};
  watched[0] = {signals_.get(), POLLIN, 0};
  watched[1] = {launcher_.get(), POLLIN, 0};
  for (std::size_t i = 0; i < kRoleCount; ++i)
    watched[2 + i] = {roles_[i].lifeline ? roles_[i].lifeline.fd() : -1, POLLIN, 0};
  if (::poll(watched.data(), watched.size(), wait_milliseconds()) < 0) return;  // EINTR
  // The last messages of a role are handled before its end.
  for (std::size_t i = 0; i < kRoleCount; ++i) {
    if (watched[2 + i].revents != 0) on_lifeline(roles_[i]);
  }
  if (watched[1].revents != 0) on_launcher();
  if (watched[0].revents != 0) on_signals();
  manager_.keep_alive(Clock::now());
  if (faults_.due()) disturb_roles();
  if (sequence_.deadline() && Clock::now() >= *sequence_.deadline()) on_deadline();
  if (sequence_.phase() != Phase::running) return;
  if (const auto lost = upgrader_.turn(Clock::now())) on_exit(*lost, "cannot be started");
  if (broker_due_ && Clock::now() >= *broker_due_) restart_broker();
  if (frozen_.due() && Clock::now() >= *frozen_.due()) look_for_frozen();
  exporter_.turn(Clock::now(), roles_);
}

void Warden::on_signals() {
  std::array<signalfd_siginfo, 8> received;
  const ssize_t got = ::read(signals_.get(), received.data(), sizeof received);
  const std::size_t count = got > 0 ? static_cast<std::size_t>(got) / sizeof received[0] : 0;
  for (std::size_t i = 0; i < count; ++i) {
    const int signal = static_cast<int>(received[i].ssi_signo);
    if (signal == SIGCHLD) {
      reap_children();
    } else if (sequence_.phase() == Phase::starting) {
      fail_start(128 + signal,
                 "interrupted by SIG" + std::string(::sigabbrev_np(signal)) + " while starting");
    } else if (sequence_.phase() == Phase::running) {
      end(0, options_.grace);
    } else if (sequence_.phase() == Phase::stopping_agent) {
      enter(Phase::sweeping);  // a second request: at once
    }
  }
}

void Warden::on_launcher() {
  std::array<char, 256> said{};
  const ssize_t got = ::read(launcher_.get(), said.data(), said.size());
  // The launcher has handed this host to another owner, whose lease counts from now on.
  if (got > 0 && std::string_view(said.data(), static_cast<std::size_t>(got)) == kLifelineRelease)
    return launcher_.reset();
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
  launcher_.reset();
  const auto grace = std::min(options_.grace, EndSequence::kLostLauncherGrace);
  if (sequence_.phase() == Phase::starting) {
    fail_start(kExitUnavailable, "the launcher ended while the host was starting");
  } else if (sequence_.phase() == Phase::running) {
    end(0, grace);
  } else if (sequence_.phase() == Phase::stopping_agent && sequence_.deadline() &&
             grace < sequence_.grace()) {
    end(exit_code_, grace);  // the longer grace of before does not count any more
  }
}

void Warden::on_lifeline(Role& role) {
  while (role.lifeline) {
    auto received = role.lifeline.receive();
    if (received.ended) return role.lifeline.close();  // its exit follows by SIGCHLD
    if (!received.text) return;
    if (received.fd && *received.text == "listener" && &role == &this->role(RoleName::broker))
      starter_.keep_listener(std::move(received.fd));
    else
      on_message(role, *received.text);
  }
}

void Warden::on_message(Role& role, std::string_view text) {
  const auto message = os::parse_lifeline(text);
  role.silence.start_anew(Clock::now());
  if (message.word == "ready") {
    role.ready = true;
    role.said = message.rest;
    on_ready();
    if (sequence_.phase() != Phase::running) return;
    const auto name = static_cast<RoleName>(&role - roles_.data());
    if (const auto lost = upgrader_.on_ready(name, Clock::now())) on_exit(*lost, "does not start");
  } else if (message.word == "release") {
    if (is_word(message.rest)) role.release = message.rest;
  } else if (message.word == "upgrade" && &role == &this->role(RoleName::agent)) {
    on_upgrade(message.rest);
  } else if (message.word == "failed") {
    role.said = message.rest;
  } else if (message.word == "swept") {
    has_swept_ = true;
  } else if (message.word == "chaos") {
    on_chaos(message.rest);
  } else if (message.word == "shutdown" && sequence_.phase() == Phase::running) {
    // The procs are stopped and that is acknowledged: only the agent itself is left.
    end(std::atoi(std::string(message.rest).c_str()), 0ms);
  }
}

void Warden::on_ready() {
  const Role& keeper = role(RoleName::keeper);
  const Role& broker = role(RoleName::broker);
  Role& agent = role(RoleName::agent);
  if (sequence_.phase() != Phase::starting || !broker.ready) return;
  if (!agent.alive()) {
    if (!broker.said.empty()) starter_.set_served_address(broker.said);
    if (auto started = starter_.start_agent(agent); !started)
      fail_start(kExitOsFile, started.error().detail());
    return;
  }
  if (!agent.ready || !keeper.ready) return;
  sequence_.run();
  frozen_.start(Clock::now());
  exporter_.start(Clock::now());
  const std::string& address = starter_.address();
  if (auto written = write_host_file(site_.directory(), kHostAddressFile, address + "\n"); !written)
    log_.say(written.error().detail());
  const ReadyReport ready{.host = address,
                          .containment = site_.containment(),
                          .containment_reason = site_.containment_reason(),
                          .pids_limit = site_.pids_limit(),
                          .pids_reason = site_.pids_reason(),
                          .metrics = options_.metrics_url,
                          .run_dir = site_.directory().path,
                          .pid = ::getpid(),
                          .broker_pid = broker.pid,
                          .agent_pid = agent.pid,
                          .keeper_pid = keeper.pid};
  log_.report(to_json_line(ready));
  manager_.ready("serves " + address);
  if (options_.print_ready) write_line(STDOUT_FILENO, to_json_line(ready));
}

void Warden::reap_children() {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | __WALL) != 0) {
      if (errno == EINTR) continue;
      return;
    }
    if (info.si_pid == 0) return;
    earlier_children_.erase(info.si_pid);
    if (exporter_.on_exit(info.si_pid, describe_exit(info.si_code, info.si_status), Clock::now()))
      continue;
    for (const RoleName name : {RoleName::keeper, RoleName::broker, RoleName::agent}) {
      Role& ended = role(name);
      if (ended.pid != info.si_pid) continue;
      on_lifeline(ended);  // its last messages
      ended.pid = -1;
      ended.lifeline.close();
      on_exit(name, describe_exit(info.si_code, info.si_status));
    }
  }
}

void Warden::on_exit(RoleName name, const std::string& how) {
  const Phase phase = sequence_.phase();
  const Role& ended = role(name);
  if (phase == Phase::starting) {
    const bool has_reason = !ended.said.empty() && !ended.ready;
    return fail_start(kExitUnavailable, "the " + ended.name + " could not start: " +
                                            (has_reason ? ended.said : "it " + how));
  }
  if (phase == Phase::running && upgrader_.on_exit(name, how, Clock::now())) return;
  if (phase == Phase::running && name == RoleName::broker) return on_broker_lost(how);
  if (phase == Phase::running && name == RoleName::agent) return on_agent_lost(how);
  if (name == RoleName::keeper) {
    if (phase == Phase::running) {
      log_.note("the keeper " + how + ": its procs were killed with it; ending the host");
      exit_code_ = kExitSoftware;
    }
    if (phase < Phase::sweeping || (phase == Phase::sweeping && !has_swept_)) sweep();
  }
  if (const Phase next = sequence_.after_exit(name); next != phase) enter(next);
}

// Procs live without a broker, so a broker that ends again and again ends no job: it is restarted
// for as long as the host runs.
void Warden::on_broker_lost(const std::string& how) {
  const std::string lost = describe_loss(role(RoleName::broker), how);
  const auto now = Clock::now();
  const auto delay = broker_restarts_.on_exit(now).value_or(RestartPolicy::kLongestDelay);
  const std::string when = delay == 0ms ? "" : " in " + std::to_string(delay.count()) + " ms";
  log_.note(lost + ": restarting it" + when + " (" + within_window(broker_restarts_.used()) + ")");
  broker_due_ = now + delay;
  if (delay == 0ms) restart_broker();
}

void Warden::restart_broker() {
  broker_due_.reset();
  if (role(RoleName::broker).alive()) return;  // an upgrade has started another one
  exporter_.count_restart(RoleName::broker);
  if (auto started = starter_.start_broker(role(RoleName::broker)); !started)
    on_broker_lost("cannot be started: " + started.error().detail());
}

// The keeper holds the procs: they do not notice.
void Warden::on_agent_lost(const std::string& how) {
  const std::string lost = describe_loss(role(RoleName::agent), how);
  const std::string allowed = std::to_string(RestartPolicy::kAgentRestarts);
  if (options_.end_on_agent_loss) {
    log_.note(lost + ": ending the host, as configured");
  } else if (!agent_restarts_.on_exit(Clock::now())) {
    log_.note(lost + ", and it was restarted " + within_window(agent_restarts_.used()) +
              ": ending the host");
  } else {
    log_.note(lost + ": restarting it (" + std::to_string(agent_restarts_.used()) + " of " +
              allowed + " within " + std::to_string(RestartPolicy::kWindow.count()) + " s)");
    exporter_.count_restart(RoleName::agent);
    const auto started = starter_.restart_agent(role(RoleName::agent), role(RoleName::keeper));
    if (started) return;
    log_.say(started.error().detail() + ": ending the host");
  }
  exit_code_ = kExitSoftware;
  enter(Phase::sweeping);
}

void Warden::on_deadline() {
  const auto overdue = sequence_.on_deadline(Clock::now(), alive());
  Role& late = role(sequence_.waited_for());
  switch (overdue) {
    case EndSequence::Overdue::nothing: return;
    case EndSequence::Overdue::start: {
      const Role& first = !role(RoleName::keeper).ready   ? role(RoleName::keeper)
                          : !role(RoleName::broker).ready ? role(RoleName::broker)
                                                          : role(RoleName::agent);
      return fail_start(kExitUnavailable, "the " + first.name + " was not ready within " +
                                              std::to_string(EndSequence::kStartLimit.count()) +
                                              " s");
    }
    case EndSequence::Overdue::kill:
      log_.say("the " + late.name + " did not end in time: killing it");
      [[fallthrough]];
    case EndSequence::Overdue::kill_quietly: ::kill(late.pid, SIGKILL); return;
    case EndSequence::Overdue::give_up:
      log_.say("the " + late.name + " (pid " + std::to_string(late.pid) +
               ") does not die: going on without it");
      late.pid = -1;
      return on_exit(sequence_.waited_for(), "does not die");
  }
}

void Warden::look_for_frozen() {
  Role* const all[] = {&role(RoleName::keeper), &role(RoleName::broker), &role(RoleName::agent)};
  for (const FrozenRoles::Finding& finding : frozen_.look(Clock::now(), all)) {
    Role& silent = *finding.role;
    const std::string what = "the " + silent.name + " (pid " + std::to_string(silent.pid) +
                             ") gave no sign of life for " +
                             std::to_string(finding.length.count()) + " ms";
    const bool waits_for_device = finding.silence == Silence::waits_for_device;
    if (waits_for_device || finding.silence == Silence::waits_for_cpu) {
      log_.say(what + ": it waits for " + (waits_for_device ? "a device" : "a CPU") +
               " and is left alone");
      continue;
    }
    const std::string how = finding.silence == Silence::stopped ? "stopped" : "stuck";
    log_.note(what + ": it is frozen (" + how + "); killing it");
    // Sent before the keeper's end: for the exit reports of the procs that die with it.
    if (&silent == &role(RoleName::keeper)) {
      role(RoleName::agent)
          .lifeline.send("frozen " + what + ": it was frozen (" + how + ") and was killed");
    }
    ::kill(silent.pid, SIGKILL);
    silent.silence.start_anew(Clock::now());
  }
}

// The agent has checked that it is allowed, and passes our answer on.
void Warden::on_chaos(std::string_view text) {
  const auto answer = [this](const std::string& what) {
    role(RoleName::agent).lifeline.send("chaos " + what);
  };
  const auto order = RoleFaults::parse(text);
  if (!order) return answer("the warden does not understand '" + std::string(text) + "'");
  const Role& target = role(order->role);
  if (sequence_.phase() != Phase::running || !target.alive())
    return answer("its " + target.name + " does not run now");
  const auto now = Clock::now();
  const bool is_found = options_.frozen_limit.count() > 0 && order->length >= options_.frozen_limit;
  const bool may_end = order->is_kill || is_found;
  if (order->role == RoleName::agent && may_end &&
      (options_.end_on_agent_loss || !agent_restarts_.may_restart(now)))
    return answer("the host would end with its agent now (agent.restart)");
  if (!faults_.add(*order, target.pid, now))
    return answer("its " + target.name + " is disturbed already");
  log_.say("on purpose (meshbus chaos): " + std::string(text));
  answer("ok");
}

// Only the agent may ask: a broker that goes on as another user has no say in what is started.
void Warden::on_upgrade(std::string_view order) {
  const auto answer = sequence_.phase() == Phase::running ? upgrader_.begin(order, Clock::now())
                                                          : std::string("it is not running");
  role(RoleName::agent).lifeline.send("upgrade " + answer);
}

void Warden::disturb_roles() {
  std::array<pid_t, kRoleCount> pids{};
  for (std::size_t i = 0; i < kRoleCount; ++i) pids[i] = roles_[i].pid;
  const auto steps = sequence_.phase() == Phase::running ? faults_.take_steps(Clock::now(), pids)
                                                         : faults_.take_ends(pids);
  for (const auto& step : steps) ::kill(step.pid, step.signal);
}

EndSequence::Alive Warden::alive() const {
  EndSequence::Alive alive{};
  for (std::size_t i = 0; i < kRoleCount; ++i) alive[i] = roles_[i].alive();
  return alive;
}

void Warden::enter(Phase phase) {
  const auto request = sequence_.enter(phase, Clock::now(), alive());
  if (request) role(request->role).lifeline.send(request->message);
}

void Warden::end(int exit_code, std::chrono::milliseconds grace) {
  if (exit_code_ == 0) exit_code_ = exit_code;
  manager_.stopping();
  const auto request = sequence_.stop(grace, Clock::now(), alive());
  if (request) role(request->role).lifeline.send(request->message);
}

void Warden::fail_start(int exit_code, const std::string& why) {
  log_.say(why);
  log_.report(error_json_line(why));
  exit_code_ = exit_code;
  enter(Phase::sweeping);
}

// For when the keeper is dead: its procs got the kernel's parent-death signal, and everything
// below them is a child of this process now.
void Warden::sweep() {
  site_.kill_contained();
  os::Sweeper sweeper([this](pid_t pid) {
    return pid == role(RoleName::broker).pid || pid == role(RoleName::agent).pid ||
           pid == exporter_.pid() || earlier_children_.contains(pid);
  });
  if (sweeper.run(kOwnSweepLimit)) return;
  std::string left;
  for (const pid_t pid : sweeper.survivors()) left += " " + std::to_string(pid);
  log_.say("processes that do not die (state D?):" + left);
}

int Warden::finish() {
  exporter_.kill();
  for (const RoleName name : {RoleName::agent, RoleName::broker, RoleName::keeper}) {
    Role& left = role(name);
    if (left.alive()) ::kill(left.pid, SIGKILL);
    left.pid = -1;
  }
  sweep();  // normally finds nothing, and that is the proof
  site_.remove(log_);
  return exit_code_;
}

}  // namespace meshbus::warden

namespace meshbus {

int run_warden(const WardenOptions& options) {
  return warden::Warden(options).run();
}

}  // namespace meshbus
