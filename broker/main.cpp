// meshbus-broker: the broker of one host, as a process of its own. Started by the warden (meshbus
// host); by hand it serves until Ctrl-C.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <CLI/CLI.hpp>

#include "agent/os/daemon_protection.h"
#include "agent/os/lifeline.h"
#include "agent/os/warden_end.h"
#include "broker/broker.h"
#include "broker/lifeline.h"
#include "broker/memory_trimmer.h"
#include "broker/transport/kept_listeners.h"
#include "common/base/exit_codes.h"
#include "common/base/find_user.h"
#include "common/base/log.h"
#include "common/base/os_error.h"
#include "common/base/release.h"
#include "common/base/unique_fd.h"
#include "common/base/user_ids.h"
#include "common/config/config.h"
#include "common/config/logging.h"
#include "common/loop/reactor.h"
#include "common/loop/short_slices.h"
#include "common/security/token.h"

namespace {

using namespace meshbus;

struct Flags {
  int lifeline_fd = -1;
  int secret_fd = -1;
  std::vector<int> listener_fds;
  std::vector<std::string> binds;
  std::string bind_procs;
  std::string advertise;
  std::string monitor;
  std::string tap;
  std::string audit;
  std::string user;
  std::string cgroup;
  bool insecure = false;
  std::vector<std::string> settings;
};

void declare(CLI::App& app, Flags& flags) {
  app.add_option(
         "--bind", flags.binds,
         "address to listen on: unix:/path, unix:@name or tcp:HOST:PORT; may be given again")
      ->required();
  app.add_option("--bind-procs", flags.bind_procs,
                 "unix address to listen on for procs of other users, which a token admits");
  app.add_option("--advertise", flags.advertise,
                 "address of this host for others (default: the first --bind)");
  app.add_option("--monitor", flags.monitor,
                 "unix address where ZeroMQ SUB sockets may subscribe to events of the broker "
                 "(schemas/monitor.fbs)");
  app.add_option("--tap", flags.tap,
                 "unix address where tools may subscribe to copies of messages (meshbus tap; "
                 "schemas/monitor.fbs)");
  app.add_option("--audit", flags.audit, "file of the audit trail, without .jsonl");
  app.add_option(
      "--user", flags.user,
      "user, by name or number, as which the broker goes on once it listens; needs root. "
      "The folder of --audit becomes that user's");
  app.add_flag("--insecure", flags.insecure,
               "accept and make tcp connections without encryption and without authentication");
  app.add_option("--set", flags.settings, "setting KEY=VALUE; may be given again");
  app.add_option("--lifeline-fd", flags.lifeline_fd, "socket to the warden");
  app.add_option("--listener-fd", flags.listener_fds,
                 "listening socket of the broker before, kept by the warden; may be given again");
  app.add_option("--cgroup", flags.cgroup,
                 "cgroup v2 of all procs of the host, which is killed when the warden dies");
  app.add_option("--secret-fd", flags.secret_fd,
                 "the warden's secret, for the tokens of agents and procs");
}

/// The folder of a file, made if need be, as that user's own. Its path leads through a descriptor,
/// because the folders above it may be closed to that user.
Result<std::string> hand_over_folder(const std::string& file, const UserIds& user) {
  const auto slash = file.rfind('/');
  const std::string folder = file.substr(0, slash);
  if (slash == std::string::npos || (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST))
    return fail(ErrorCode::io_error, os_error("the folder of the audit trail, " + folder));
  // Stays open.
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0 || ::fchown(descriptor, user.user, user.group) != 0)
    return fail(ErrorCode::io_error, os_error("the folder of the audit trail, " + folder));
  return "/proc/self/fd/" + std::to_string(descriptor) + file.substr(slash);
}

Result<void> set_user(const Flags& flags, BrokerOptions& options) {
  if (flags.user.empty()) return {};
  auto user = find_user(flags.user);
  if (!user) return fail(user.error().within("--user"));
  if (::geteuid() != 0 || user->user == 0)
    return fail(ErrorCode::configuration_error,
                "--user " + flags.user + ": only root becomes another user, and that one not root");
  if (!options.audit.empty()) {
    auto handed = hand_over_folder(options.audit, *user);
    if (!handed) return fail(handed.error());
    options.audit = std::move(*handed);
  }
  // It counts for one thread and for those that it makes: before there are any others.
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return fail(ErrorCode::io_error, os_error("--user: no_new_privs"));
  options.become_other_user = [user = std::move(*user)] { return become_user(user); };
  return {};
}

Result<BrokerOptions> read_options(const Flags& flags) {
  BrokerOptions options;
  for (const std::string& text : flags.binds) {
    auto address = HostAddr::parse(text);
    if (!address) return fail(address.error().within("--bind " + text));
    options.binds.push_back(*address);
  }
  if (!flags.advertise.empty()) {
    auto address = HostAddr::parse(flags.advertise);
    if (!address) return fail(address.error().within("--advertise " + flags.advertise));
    options.advertise = *address;
  }
  for (const auto& [flag, text, option] :
       {std::tuple("--bind-procs ", &flags.bind_procs, &options.bind_procs),
        {"--monitor ", &flags.monitor, &options.monitor},
        {"--tap ", &flags.tap, &options.tap}}) {
    if (text->empty()) continue;
    auto address = HostAddr::parse(*text);
    if (!address) return fail(address.error().within(flag + *text));
    *option = *address;
  }
  std::vector<UniqueFd> kept;
  for (const int descriptor : flags.listener_fds) {
    ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    kept.emplace_back(descriptor);
  }
  options.kept = std::make_shared<KeptListeners>(std::move(kept));
  options.insecure = flags.insecure;
  options.audit = flags.audit;
  auto config = load_config(flags.settings);
  if (!config) return fail(config.error());
  options.config = std::move(*config);
  options.keys = KeyDirectory::find(options.config);
  if (auto set = set_user(flags, options); !set) return fail(set.error());
  if (flags.secret_fd >= 0) {
    const UniqueFd secret(flags.secret_fd);
    auto tokens = TokenMaker::from_descriptor(secret.get());
    if (!tokens) return fail(tokens.error());
    options.tokens = std::move(*tokens);
  }
  return options;
}

/// One descriptor per peer: as many as we may have.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// A signal that the terminal sends to the whole process group must not end the broker before the
/// warden has stopped the host in order. Without a warden, Ctrl-C is the way to stop it. Call this
/// before any thread is made.
UniqueFd set_up_signals(bool has_warden) {
  for (const int one : {SIGPIPE, SIGHUP, SIGTSTP, SIGTTIN, SIGTTOU}) ::signal(one, SIG_IGN);
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  for (const int one : {SIGINT, SIGQUIT}) {
    if (has_warden) {
      ::signal(one, SIG_IGN);
    } else {
      sigaddset(&ending, one);
    }
  }
  ::sigprocmask(SIG_BLOCK, &ending, nullptr);
  return UniqueFd(::signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK));
}

int exit_code_of(const Error& error) {
  switch (error.code()) {
    case ErrorCode::configuration_error:
    case ErrorCode::parse_error: return exits::kUsage;
    case ErrorCode::io_error: return exits::kUnavailable;
    default: return exits::kSoftware;
  }
}

int fail_start(Lifeline* lifeline, const Error& error) {
  std::fprintf(stderr, "meshbus-broker: cannot start: %s\n", error.detail().c_str());
  if (lifeline != nullptr) lifeline->say("failed " + error.detail());
  return exit_code_of(error);
}

void warn_of_insecurity(const Broker& broker, bool is_insecure) {
  if (!is_insecure) return;
  for (const HostAddr& address : broker.binds()) {
    if (address.transport() != Transport::tcp) continue;
    std::fprintf(stderr,
                 "meshbus-broker: WARNING: --insecure: everybody who reaches %s can read all "
                 "messages and start processes as this user\n",
                 address.to_string().c_str());
  }
}

/// The warden keeps them for the next broker.
void give_listeners(int lifeline, const Broker& broker) {
  const os::Lifeline warden(UniqueFd(::fcntl(lifeline, F_DUPFD_CLOEXEC, 3)));
  for (const int listener : broker.listeners()) warden.send("listener", listener);
}

constexpr std::chrono::milliseconds kLookForAgent{5};

/// The warden has died. The agent tells others of it and leaves; then this broker ends, too.
void end_after_agent(Reactor& reactor, const Broker* broker, Reactor::Time until) {
  if (broker == nullptr || !broker->has_agent() || reactor.now() >= until) return reactor.stop();
  reactor.after(kLookForAgent,
                [&reactor, broker, until] { end_after_agent(reactor, broker, until); });
}

int serve(const Flags& flags) {
  const bool has_warden = flags.lifeline_fd >= 0;
  os::forbid_dumps();
  if (has_warden) os::arm_warden_end(flags.cgroup);
  const UniqueFd signals = set_up_signals(has_warden);
  raise_descriptor_limit();
  Reactor reactor;
  std::string reason = "this host ends";
  const Broker* running = nullptr;
  std::optional<Lifeline> lifeline;
  if (has_warden) {
    ::fcntl(flags.lifeline_fd, F_SETFD, FD_CLOEXEC);
    lifeline.emplace(reactor, UniqueFd(flags.lifeline_fd),
                     Lifeline::Events{[&] { reactor.stop(); },
                                      [&] {
                                        reason = "the warden of this host has died";
                                        os::end_with_warden();
                                        end_after_agent(reactor, running,
                                                        reactor.now() + os::kLastWords);
                                      }});
  }
  auto options = read_options(flags);
  if (!options) return fail_start(lifeline ? &*lifeline : nullptr, options.error());
  set_up_logging("broker",
                 log::find_level(options->config.word(keys::log_level)).value_or(log::Level::warn));
  reactor.watch(signals.get(), EPOLLIN, [&](std::uint32_t) { reactor.stop(); });

  auto broker = Broker::start(reactor, std::move(*options));
  if (!broker && !flags.user.empty() && ::geteuid() != 0)
    return fail_start(lifeline ? &*lifeline : nullptr,
                      broker.error().within("as user " + flags.user));
  if (!broker) return fail_start(lifeline ? &*lifeline : nullptr, broker.error());
  running = broker->get();
  warn_of_insecurity(**broker, flags.insecure);
  const std::string ready = "ready " + (*broker)->address().to_string();
  if (lifeline) {
    lifeline->say("release " + std::string(this_release()));
    give_listeners(flags.lifeline_fd, **broker);
    lifeline->say(ready);
  } else {
    std::printf("%s\n", ready.c_str());
    std::fflush(stdout);
  }
  const MemoryTrimmer trimmer(reactor, [&] { (*broker)->forget_old(); });
  reactor.run();
  (*broker)->stop(reason);
  broker->reset();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  ::prctl(PR_SET_NAME, "meshbus-broker");
  ask_for_short_slices();
  if (argc == 2 && std::string_view(argv[1]) == "--release") {
    std::printf("meshbus-broker %s\n", std::string(this_release()).c_str());
    return 0;
  }
  CLI::App app("The message broker of one meshbus host; `meshbus host` starts it.",
               "meshbus-broker");
  Flags flags;
  declare(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exits::kUsage;
  }
  try {
    return serve(flags);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "meshbus-broker: %s\n", error.what());
    return exits::kSystem;
  }
}
