// meshbus-agent: starts, watches and stops the procs of one host. Started by the warden, not by
// people.
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "agent/host/host_agent.h"
#include "agent/host/services/program_release.h"
#include "agent/os/daemon_protection.h"
#include "agent/os/lifeline.h"
#include "agent/os/warden_end.h"
#include "common/base/exit_codes.h"
#include "common/base/log.h"
#include "common/base/release.h"
#include "common/config/config.h"
#include "common/config/logging.h"
#include "common/loop/short_slices.h"

namespace {

using namespace meshbus;

struct Arguments {
  int lifeline_fd = -1;
  int secret_fd = -1;
  int keeper_fd = -1;
  int ledger_fd = -1;
  int spool_fd = -1;
  std::string events;
  std::string progress;
  std::string cgroup;
  std::string host;
  std::string broker;
  std::string containment;
  std::vector<std::string> settings;
  std::vector<std::string> limits;
};

/// What the warden takes at most to say how its keeper has ended, or to end itself.
constexpr std::chrono::milliseconds kWardenSays{500};

/// Ends the process with one line that says why.
int give_up(int code, const std::string& why) {
  std::fprintf(stderr, "meshbus-agent: %s\n", why.c_str());
  return code;
}

/// "rank 1 of trainers-13Se1Maqzryj" where this host was started in a proc of a mesh; else empty.
std::string outer_rank() {
  const char* const text = std::getenv("MESHBUS_ADDR");
  if (text == nullptr) return {};
  const auto outer = ProcId::parse(text);
  const auto proc = outer ? parse_proc_name(outer->name()) : fail(outer.error());
  return proc ? "rank " + std::to_string(proc->create_rank) + " of " + proc->mesh.to_string()
              : std::string();
}

/// The agent as a process: its lifeline, its signals, its exit code.
class Program {
 public:
  Program(os::Lifeline lifeline, host::HostAgent::Options options)
      : lifeline_(std::move(lifeline)),
        grace_(options.config.duration(keys::terminate_grace)),
        agent_(reactor_, std::move(options), events()) {
    reactor_.watch(lifeline_.fd(), EPOLLIN, [this](std::uint32_t) { on_lifeline(); });
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    signals_.reset(signalfd(-1, &term, SFD_CLOEXEC | SFD_NONBLOCK));
    reactor_.watch(signals_.get(), EPOLLIN, [this](std::uint32_t) {
      signalfd_siginfo info{};
      while (read(signals_.get(), &info, sizeof info) == sizeof info)
        stop(grace_, "the host agent got SIGTERM");
    });
  }
  ~Program() {
    if (lifeline_) reactor_.forget(lifeline_.fd());
    reactor_.forget(signals_.get());
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  int run() {
    reactor_.run();
    return exit_code_;
  }

 private:
  host::HostAgent::Events events() {
    host::HostAgent::Events events;
    events.on_up = [this] {
      if (std::exchange(said_ready_, true)) return;
      lifeline_.send("release " + std::string(this_release()));
      lifeline_.send("ready");
    };
    events.on_refused = [this](const Error& error) {
      lifeline_.send("failed " + error.to_string());
      end(give_up(exits::kNoPermission, error.to_string()));
    };
    events.on_shutdown = [this](bool ok) {
      lifeline_.send("shutdown " + std::to_string(ok ? 0 : exits::kSoftware));
    };
    events.ask_upgrade = [this](const std::string& order) { lifeline_.send("upgrade " + order); };
    events.ask_warden = [this](const std::string& order) { lifeline_.send("chaos " + order); };
    events.why_keeper_lost = [this] { return why_keeper_lost(); };
    events.on_keeper_lost = [this] {
      if (!lifeline_) return end(0);
      os::kill_with_keeper();
      lifeline_.send("failed " + std::string(os::kKeeperLost));
      end(give_up(exits::kSoftware, "the keeper is gone, so this agent cannot go on"));
    };
    return events;
  }

  /// The warden says so before it ends a keeper that is frozen, and when it has reaped one. One
  /// that is dying itself closes its descriptors one by one: the keeper may hear of that, and end,
  /// before this agent does.
  host::KeeperLoss why_keeper_lost() {
    on_lifeline();
    const auto until = Reactor::Clock::now() + kWardenSays;
    while (lifeline_ && !loss_ && !is_told_to_stop_) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Reactor::Clock::now());
      pollfd watched{lifeline_.fd(), POLLIN, 0};
      if (left.count() <= 0 || ::poll(&watched, 1, static_cast<int>(left.count())) == 0) break;
      on_lifeline();
    }
    return loss_.value_or(host::KeeperLoss());
  }

  void on_lifeline() {
    if (!lifeline_) return;
    for (auto received = lifeline_.receive(); received.ended || received.text;
         received = lifeline_.receive()) {
      if (received.ended) return on_warden_died();
      const auto message = os::parse_lifeline(*received.text);
      if (message.word == "ping") {
        lifeline_.send("pong");
        continue;
      }
      if (message.word == "frozen") {
        loss_ = {host::KeeperLoss::Why::frozen, std::string(message.rest)};
        continue;
      }
      if (message.word == "keeper") {
        if (!loss_) loss_ = {host::KeeperLoss::Why::died, "it " + std::string(message.rest)};
        continue;
      }
      if (message.word == "chaos") {
        agent_.on_warden_answer(message.rest);
        continue;
      }
      if (agent_.on_warden_report(message.word, message.rest)) continue;
      if (message.word != "stop") {
        log::warn("the warden said something unknown: " + *received.text);
        continue;
      }
      auto grace = grace_;
      std::int64_t number = 0;
      const auto* end = message.rest.data() + message.rest.size();
      if (!message.rest.empty() && std::from_chars(message.rest.data(), end, number).ptr == end &&
          number >= 0)
        grace = std::chrono::milliseconds(number);
      is_told_to_stop_ = true;
      // Not from within the end of the keeper: see why_keeper_lost().
      reactor_.post([this, grace] { stop(grace, "the host is being stopped"); });
    }
  }

  /// The keeper kills the procs and ends, which owners and subscribers are told.
  void on_warden_died() {
    log::warn("the warden is gone");
    loss_ = {host::KeeperLoss::Why::warden_died, outer_rank()};
    reactor_.forget(lifeline_.fd());
    lifeline_.close();
    os::end_with_warden();
    reactor_.after(os::kLastWords, [this] { end(0); });
  }

  void stop(std::chrono::milliseconds grace, const std::string& reason) {
    agent_.stop(grace, reason, [this] { end(0); });
  }

  void end(int code) {
    exit_code_ = code;
    reactor_.stop();
  }

  Reactor reactor_;
  os::Lifeline lifeline_;
  std::chrono::milliseconds grace_;
  UniqueFd signals_;
  std::optional<host::KeeperLoss> loss_;
  bool said_ready_ = false;
  bool is_told_to_stop_ = false;
  int exit_code_ = 0;
  host::HostAgent agent_;
};

/// The address of the host, once its broker serves it: the agent loads beside the broker. Nothing:
/// the host is not to start.
std::optional<std::string> await_broker(const os::Lifeline& lifeline) {
  for (;;) {
    pollfd watched{lifeline.fd(), POLLIN, 0};
    if (::poll(&watched, 1, -1) < 0 && errno != EINTR) return std::nullopt;
    const auto received = lifeline.receive();
    if (received.ended) return std::nullopt;
    if (!received.text) continue;
    const auto message = os::parse_lifeline(*received.text);
    if (message.word == "broker") return std::string(message.rest);
    if (message.word == "stop") return std::nullopt;
    if (message.word == "ping") lifeline.send("pong");
  }
}

int run(const Arguments& arguments) {
  os::forbid_dumps();
  os::arm_warden_end(arguments.cgroup);
  auto config = load_config(arguments.settings);
  if (!config) return give_up(exits::kUsage, config.error().to_string());
  set_up_logging("agent",
                 log::find_level(config->word(keys::log_level)).value_or(log::Level::warn));
  auto host_address = HostAddr::parse(arguments.host);
  if (!host_address && !arguments.host.empty())
    return give_up(exits::kUsage, host_address.error().within("--host").to_string());
  const auto broker = HostAddr::parse(arguments.broker);
  if (!broker) return give_up(exits::kUsage, broker.error().within("--broker").to_string());
  const UniqueFd secret(arguments.secret_fd);
  auto tokens = TokenMaker::from_descriptor(secret.get());
  if (!tokens) return give_up(exits::kNoInput, tokens.error().within("--secret-fd").to_string());

  host::Ledger ledger;
  host::OutputSpool spool;
  if (arguments.ledger_fd >= 0 && arguments.spool_fd >= 0) {
    auto opened = host::Ledger::open(UniqueFd(arguments.ledger_fd));
    if (!opened) return give_up(exits::kSystem, opened.error().within("--ledger-fd").to_string());
    ledger = std::move(*opened);
    auto spooled = host::OutputSpool::open(UniqueFd(arguments.spool_fd));
    if (!spooled) return give_up(exits::kSystem, spooled.error().within("--spool-fd").to_string());
    spool = std::move(*spooled);
  }

  EventLog events;
  if (!arguments.events.empty()) {
    auto opened = EventLog::open(arguments.events, config->bytes(keys::events_size));
    if (opened) {
      events = std::move(*opened);
    } else {
      log::warn(opened.error().detail() +
                "; what ends on this host is not written down, and `meshbus why` does not know it");
    }
  }

  os::LimitPlaces limits;
  for (const auto& text : arguments.limits) {
    if (!limits.read_text(text))
      return give_up(exits::kUsage, "--limit " + text + ": expected CONTROLLER:VERSION:PATH");
  }

  os::Lifeline lifeline(UniqueFd(arguments.lifeline_fd));
  if (!host_address) {
    const auto served = await_broker(lifeline);
    if (!served) return 0;
    host_address = HostAddr::parse(*served);
    if (!host_address)
      return give_up(exits::kUsage,
                     host_address.error().within("the broker's address").to_string());
  }
  Program program(std::move(lifeline), {.host = *host_address,
                                        .broker = *broker,
                                        .containment = arguments.containment,
                                        .tokens = std::move(*tokens),
                                        .config = std::move(*config),
                                        .environment = host::own_environment(),
                                        .keeper = UniqueFd(arguments.keeper_fd),
                                        .ledger = std::move(ledger),
                                        .spool = std::move(spool),
                                        .events = std::move(events),
                                        .limits = std::move(limits),
                                        .progress = arguments.progress});
  return program.run();
}

/// A pidfd and two pipes per proc: as many as we may have.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--release") {
    std::fputs(host::ProgramRelease::own_text("meshbus-agent").c_str(), stdout);
    return 0;
  }
  raise_descriptor_limit();
  ask_for_short_slices();
  // The terminal's signals are for the launcher; this process ends when its warden says so.
  for (const int ignored : {SIGINT, SIGQUIT, SIGTSTP, SIGHUP, SIGPIPE, SIGXFSZ})
    signal(ignored, SIG_IGN);
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term,
              nullptr);  // before there is any thread: SIGTERM comes by a descriptor

  Arguments arguments;
  CLI::App app(
      "The host agent of meshbus. It is started by `meshbus host`, which gives it its descriptors.",
      "meshbus-agent");
  app.add_option("--lifeline-fd", arguments.lifeline_fd, "socket to the warden")->required();
  app.add_option("--secret-fd", arguments.secret_fd, "the host's secret, 32 bytes")->required();
  app.add_option("--keeper-fd", arguments.keeper_fd, "socket to the keeper")->required();
  app.add_option("--ledger-fd", arguments.ledger_fd,
                 "memory with what an earlier agent left, to go on with");
  app.add_option("--spool-fd", arguments.spool_fd, "memory with output that an earlier agent left");
  app.add_option("--events", arguments.events,
                 "event log: PATH.jsonl is appended to, PATH.OFFSET.jsonl was set aside");
  app.add_option("--progress", arguments.progress,
                 "directory in which ranks say that they make progress");
  app.add_option("--host", arguments.host,
                 "address that the broker advertises; default: what "
                 "the warden says once the broker serves");
  app.add_option("--broker", arguments.broker,
                 "address at which the broker listens for procs of this host")
      ->required();
  app.add_option("--containment", arguments.containment,
                 "how descendants are kept together, for people to read");
  app.add_option("--cgroup", arguments.cgroup,
                 "cgroup v2 of all procs, which is killed when the warden dies");
  app.add_option("--limit", arguments.limits, "where procs can be limited: CONTROLLER:VERSION:PATH")
      ->allow_extra_args(false);
  app.add_option("--set", arguments.settings, "KEY=VALUE, as in the configuration file")
      ->allow_extra_args(false);
  try {
    app.parse(argc, argv);
    return run(arguments);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return give_up(exits::kUsage, error.what());
  } catch (const std::exception& error) {
    return give_up(exits::kSoftware, error.what());
  }
}
