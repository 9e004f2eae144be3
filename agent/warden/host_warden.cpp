#include "agent/warden/host_warden.h"

#include <poll.h>
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
#include "agent/warden/exit_codes.h"
#include "agent/warden/ready_report.h"
#include "common/base/lifeline_release.h"
#include "common/base/standard_streams.h"

namespace meshbus::warden {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kLongestRelease = 64;

bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= kLongestRelease &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
}

}  // namespace

Warden::Warden(const WardenOptions& options)
    : options_(options),
      log_(UniqueFd(options.ready_fd)),
      starter_(options, site_),
      launcher_(options.lifeline_fd),
      frozen_(options.frozen_limit),
      exporter_(options.metrics_fd >= 0, starter_, log_),
      restarts_(roles_, starter_, exporter_, log_, options.end_on_agent_loss),
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
  if (started) started = starter_.start_agent(role(RoleName::agent));
  if (!started) return fail_start(kExitOsFile, started.error().detail());
  sequence_.start(Clock::now());
}

Started Warden::prepare() {
  fill_standard_streams();
  manager_ = ServiceManager::from_environment();
  if (auto done = process_.prepare(log_.ready_fd(), launcher_.get()); !done) return done;
  if (auto done = starter_.prepare(); !done) return done;
  os::forbid_dumps();
  if (auto done = site_.prepare(options_, starter_.spawner(), log_); !done) return done;
  starter_.choose_address();
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
    consider(restarts_.due());
    consider(exporter_.due());
    consider(upgrader_.due());
  }
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::clamp<long>(static_cast<long>(left), 0, 60'000));
}

void Warden::turn() {
  std::array<pollfd, 2 + kRoleCount> watched{};
  watched[0] = {process_.signals(), POLLIN, 0};
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
  if (!restarts_.turn(Clock::now())) return end_without_agent();
  if (frozen_.due() && Clock::now() >= *frozen_.due()) look_for_frozen();
  exporter_.turn(Clock::now(), roles_);
}

void Warden::on_signals() {
  std::array<signalfd_siginfo, 8> received;
  const ssize_t got = ::read(process_.signals(), received.data(), sizeof received);
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
  if (!starter_.is_served()) {
    starter_.set_served_address(broker.said);
    agent.lifeline.send("broker " + starter_.address());
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
    process_.forget(info.si_pid);
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
  if (phase == Phase::running && name == RoleName::broker)
    return restarts_.on_broker_lost(how, Clock::now());
  if (phase == Phase::running && name == RoleName::agent) {
    if (!restarts_.on_agent_lost(how, Clock::now())) end_without_agent();
    return;
  }
  if (name == RoleName::keeper) {
    if (phase == Phase::running) {
      role(RoleName::agent).lifeline.send("keeper " + how);
      log_.note("the keeper " + how + ": its procs were killed with it; ending the host");
      exit_code_ = kExitSoftware;
    }
    if (phase < Phase::sweeping || (phase == Phase::sweeping && !has_swept_)) sweep();
  }
  if (const Phase next = sequence_.after_exit(name); next != phase) enter(next);
}

void Warden::end_without_agent() {
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
  if (order->role == RoleName::agent && may_end && !restarts_.may_restart_agent(now))
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
  const auto survivors = process_.sweep([this](pid_t pid) {
    return pid == role(RoleName::broker).pid || pid == role(RoleName::agent).pid ||
           pid == exporter_.pid();
  });
  if (survivors.empty()) return;
  std::string left;
  for (const pid_t pid : survivors) left += " " + std::to_string(pid);
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
