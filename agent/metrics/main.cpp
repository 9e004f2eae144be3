// meshbus-exporter: serves the metrics of one host. Started by the warden, not by people.
#include <signal.h>
#include <sys/resource.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <zmq.hpp>

#include "agent/metrics/exporter.h"
#include "agent/os/daemon_protection.h"
#include "agent/os/lifeline.h"
#include "common/base/exit_codes.h"
#include "common/base/log.h"
#include "common/config/config.h"
#include "common/config/logging.h"

namespace {

using namespace meshbus;

/// Below broker, agent and procs, when CPU is short.
constexpr int kNice = 5;

struct Arguments {
  int lifeline_fd = -1;
  int listen_fd = -1;
  std::string listen;
  std::string host;
  std::string broker;
  std::string monitor;
  std::string oom_score;
  std::vector<std::string> settings;
};

int give_up(int code, const std::string& why) {
  std::fprintf(stderr, "meshbus-exporter: %s\n", why.c_str());
  return code;
}

/// The warden's lifeline: what it tells goes to the exporter, its end ends this process.
void follow_warden(Reactor& reactor, const os::Lifeline& lifeline, metrics::Exporter& exporter) {
  for (auto received = lifeline.receive(); received.ended || received.text;
       received = lifeline.receive()) {
    if (received.ended) {
      reactor.forget(lifeline.fd());
      return reactor.stop();
    }
    const auto message = os::parse_lifeline(*received.text);
    if (message.word != "roles") continue;
    if (const auto roles = metrics::RoleReport::parse(message.rest)) exporter.on_roles(*roles);
  }
}

/// The roles of a host come last for the OOM killer; this process is none of them.
void set_oom_score(const std::string& score) {
  if (!score.empty()) std::ofstream("/proc/self/oom_score_adj") << score;
}

int run(const Arguments& arguments) {
  os::forbid_dumps();
  set_oom_score(arguments.oom_score);
  [[maybe_unused]] const int niceness = ::setpriority(PRIO_PROCESS, 0, kNice);
  const auto config = load_config(arguments.settings);
  if (!config) return give_up(exits::kUsage, config.error().to_string());
  set_up_logging("exporter",
                 log::find_level(config->word(keys::log_level)).value_or(log::Level::warn));
  std::vector<HostAddr> addresses;
  for (const auto& text : {arguments.host, arguments.broker, arguments.monitor}) {
    const auto address = HostAddr::parse(text);
    if (!address) return give_up(exits::kUsage, address.error().to_string());
    addresses.push_back(*address);
  }
  auto socket = http::adopt_http_socket(UniqueFd(arguments.listen_fd), arguments.listen);
  if (!socket) return give_up(exits::kUnavailable, socket.error().to_string());
  Reactor reactor;
  zmq::context_t context(1);
  const os::Lifeline lifeline{UniqueFd(arguments.lifeline_fd)};
  metrics::Exporter exporter(reactor, context, std::move(*socket),
                             {.host = addresses[0],
                              .broker = addresses[1],
                              .monitor = addresses[2],
                              .limits = {.queue_bytes = config->bytes(keys::queue_bytes),
                                         .queue_count = config->count(keys::queue_count)}});
  reactor.watch(lifeline.fd(), EPOLLIN,
                [&](std::uint32_t) { follow_warden(reactor, lifeline, exporter); });
  reactor.run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  for (const int ignored : {SIGINT, SIGQUIT, SIGTSTP, SIGHUP, SIGPIPE}) signal(ignored, SIG_IGN);
  Arguments arguments;
  CLI::App app("Serves the metrics of a host. It is started by `meshbus host --metrics`.",
               "meshbus-exporter");
  app.add_option("--lifeline-fd", arguments.lifeline_fd, "socket to the warden")->required();
  app.add_option("--listen-fd", arguments.listen_fd, "the listening socket")->required();
  app.add_option("--listen", arguments.listen, "the address of that socket")->required();
  app.add_option("--host", arguments.host, "address that the broker advertises")->required();
  app.add_option("--broker", arguments.broker, "address at which the broker listens")->required();
  app.add_option("--monitor", arguments.monitor, "address of the broker's monitor")->required();
  app.add_option("--oom-score", arguments.oom_score, "for /proc/self/oom_score_adj");
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
