#include "cli/hosts/host_command.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <memory>

#include "agent/warden/warden.h"
#include "cli/hosts/remote_host.h"
#include "cli/hosts/upgrade_command.h"
#include "cli/keys/join_command.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "cli/support/text_error.h"
#include "common/base/find_user.h"
#include "common/config/config.h"
#include "common/http/http_socket.h"
#include "meshbus/address.h"

namespace meshbus::cli {
namespace {

struct HostArguments {
  WardenOptions warden;
  /// A launcher on another machine starts this host.
  bool is_remote = false;
  /// TOKEN@ADDRESS each, or "-".
  std::vector<std::string> joins;
  /// Where to serve metrics. Empty: nowhere.
  std::string metrics;
  /// No host is started: those that run here are upgraded.
  bool is_upgrade = false;
  UpgradeArguments upgrade;
};

/// Takes over the settings that are for the warden itself; broker and agent read theirs. Errors:
/// configuration_error.
Result<void> apply_settings(WardenOptions& options) {
  const auto config = load_config(options.settings);
  if (!config) return fail(config.error());
  options.end_on_agent_loss = config->word(keys::agent_restart) == "end";
  options.pids_limit = config->count(keys::pids_limit);
  options.frozen_limit = config->duration(keys::frozen_limit);
  options.events_directory = config->path(keys::logs_directory);
  for (const auto& shown : config->show()) {
    if (shown.key == keys::pids_limit.info().name)
      options.pids_limit_is_needed = shown.source != "default";
  }
  return {};
}

Result<void> check_addresses(const WardenOptions& options) {
  for (const auto& bind : options.binds) {
    if (const auto address = HostAddr::parse(bind); !address)
      return fail(address.error().within("--bind " + bind));
  }
  const auto& own = options.advertise;
  if (const auto address = HostAddr::parse(own); !own.empty() && !address)
    return fail(address.error().within("--advertise " + own));
  return {};
}

/// Says what is wrong on stderr, and to the launcher that waits for this host.
int refuse(const Error& error, const WardenOptions& options) {
  complain(error.detail());
  if (options.ready_fd >= 0) {
    const auto line = dump({{"error", error.detail()}}) + "\n";
    [[maybe_unused]] const auto n = ::write(options.ready_fd, line.data(), line.size());
  }
  return kUsage;
}

/// Refused here and not by a broker, so that nothing starts.
Result<void> check_broker_user(const std::string& name) {
  if (name.empty()) return {};
  const auto user = find_user(name);
  if (!user) return fail(user.error().within("--broker-user"));
  if (::geteuid() != 0)
    return fail(ErrorCode::configuration_error,
                "--broker-user is for hosts of root; all of this host runs as user " +
                    std::to_string(::geteuid()) + " already");
  if (user->user == 0)
    return fail(ErrorCode::configuration_error,
                "--broker-user " + name + " is root: choose a user without rights");
  return {};
}

/// A launcher that starts this host as a proc has only stdout to read: roles and procs write to
/// stderr then, and what they write is no ready line.
void set_ready_apart(WardenOptions& options) {
  if (options.ready_fd != STDOUT_FILENO) return;
  options.ready_fd = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
}

int run(HostArguments arguments) {
  if (arguments.is_upgrade) return upgrade_hosts(arguments.upgrade);
  auto& options = arguments.warden;
  set_ready_apart(options);
  if (arguments.is_remote) {
    if (const auto code = prepare_remote(options)) return *code;
  }
  if (const auto fine = check_addresses(options); !fine) return refuse(fine.error(), options);
  if (const auto fine = check_broker_user(options.broker_user); !fine)
    return refuse(fine.error(), options);
  if (const auto code = join_hosts(arguments.joins, options)) return *code;
  if (const auto fine = apply_settings(options); !fine) return refuse(fine.error(), options);
  if (arguments.metrics.empty()) return run_warden(options);
  // Made here, so that an address that is in use is found before anything starts, and the socket
  // outlives the process that serves it.
  const auto socket = http::listen_http(arguments.metrics);
  if (!socket) return refuse(socket.error().within("--metrics"), options);
  options.metrics_fd = socket->fd.get();
  options.metrics_address = arguments.metrics;
  options.metrics_url = socket->url;
  const int code = run_warden(options);
  if (!socket->path.empty()) ::unlink(socket->path.c_str());
  return code;
}

}  // namespace

void add_host(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<HostArguments>();
  auto& options = arguments->warden;
  options.print_ready = true;
  auto& verb = commands.add(
      app, "host",
      {.meaning =
           "Serve this machine as a host: start procs for launchers, watch them, leave nothing "
           "behind",
       .examples = {"host", "host --bind tcp:0.0.0.0:7420 --advertise tcp:node1:7420"},
       .exit_codes = "0 after an orderly end; 69 it could not start; 70 one of its processes was "
                     "lost"},
      [arguments] { return run(*arguments); });
  verb.add_option("--bind", options.binds,
                  "Address to listen on besides the unix socket: tcp:HOST:PORT (needs keys, see "
                  "meshbus keygen, or --insecure)")
      ->type_name("ADDRESS");
  verb.add_option("--advertise", options.advertise,
                  "Address that others use for this host; default: the unix socket, or the tcp "
                  "address bound")
      ->type_name("ADDRESS");
  auto* insecure =
      verb.add_flag("--insecure", options.insecure,
                    "Plain tcp, without keys: everyone who can connect can run commands as you");
  auto* join =
      verb.add_option("--join", arguments->joins,
                      "Make keys for this host and be known to the host at ADDRESS and know whom "
                      "it knows, before anything else; "
                      "- reads that from stdin; may be given again (meshbus keygen --token)");
  join->type_name("TOKEN@ADDRESS")->allow_extra_args(false)->excludes(insecure);
  verb.add_option("--metrics", arguments->metrics,
                  "Serve /metrics for Prometheus and /healthz at tcp:HOST:PORT (an IP address or "
                  "localhost) or unix:PATH; everyone who can connect can read them")
      ->type_name("ADDRESS");
  verb.add_option(
          "--broker-user", options.broker_user,
          "For hosts of root: the broker, which talks with the network, goes on as this user "
          "once it listens; by name or number")
      ->type_name("USER");
  verb.add_option("--run-dir", options.run_dir,
                  "Where sockets are made; default $XDG_RUNTIME_DIR/meshbus or /tmp/meshbus-UID");
  add_duration(verb, "--grace", options.grace,
               "Time between SIGTERM and SIGKILL of the procs when this host ends; default 10s");
  verb.add_option_function<std::string>(
          "--containment",
          [&options](const std::string& word) {
            options.containment = word == "cgroup"  ? Containment::cgroup
                                  : word == "pidns" ? Containment::pid_namespace
                                  : word == "sweep" ? Containment::sweep
                                                    : Containment::automatic;
          },
          "How descendants are kept together: auto, cgroup (v2), pidns (a pid namespace), sweep")
      ->check(CLI::IsMember({"auto", "cgroup", "pidns", "sweep"}));
  verb.add_option("--set", options.settings, "A setting for broker and agent: KEY=VALUE")
      ->type_name("KEY=VALUE");
  verb.add_option(
      "--ready-fd", options.ready_fd,
      "Descriptor to write one JSON line to when the host is ready, or could not start");
  verb.add_option(
      "--lifeline-fd", options.lifeline_fd,
      "Descriptor whose end means that the launcher is gone: the host then ends within 2 s");
  verb.add_flag("--remote", arguments->is_remote,
                "For launchers that start a host on another machine: what it needs comes on stdin, "
                "it ends when stdin does")
      ->excludes(join);
  verb.add_flag_callback(
      "--quiet", [&options] { options.print_ready = false; },
      "Do not print the ready line on stdout");
  add_upgrade_flags(verb, arguments->is_upgrade, arguments->upgrade);
}

}  // namespace meshbus::cli
