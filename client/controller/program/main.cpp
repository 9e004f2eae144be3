// meshbus-controller: watches the procs of a set of hosts and prints what changes, one JSON line
// each.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "client/controller/controller.h"
#include "client/controller/event_json.h"
#include "client/controller/http/page_thread.h"
#include "client/controller/http/page_token.h"
#include "client/controller/line_writer.h"
#include "client/controller/supervision_event.h"
#include "common/address/host_range.h"
#include "common/base/exit_codes.h"
#include "common/base/service_manager.h"
#include "common/base/taken_signals.h"
#include "common/config/config.h"
#include "common/config/logging.h"
#include "meshbus/name.h"

namespace {

using namespace meshbus;

/// The page hears so often how the controller is.
constexpr std::chrono::seconds kCountPeriod{1};
constexpr std::size_t kOutputLimit = 16 * 1024 * 1024;

struct Arguments {
  std::string hosts;
  std::string mesh;
  int lifeline_fd = -1;
  std::vector<std::string> settings;
  /// Where to serve the page. Empty: nowhere.
  std::string http;
  std::string http_token;
  bool is_http_write = false;
  /// The name of the pair that it belongs to. Empty: none.
  std::string pair;
};

int give_up(int code, const std::string& why) {
  std::fprintf(stderr, "meshbus-controller: %s\n", why.c_str());
  return code;
}

/// The controller as a process: its lifeline, its signals, its output, its exit code.
class Program {
 public:
  Program(Controller::Options options, int lifeline, ServiceManager manager, TakenSignals& signals)
      : manager_(std::move(manager)),
        writer_(
            reactor_, STDOUT_FILENO, kOutputLimit,
            [](std::uint64_t lines) {
              return lost_json_line(lines, std::chrono::system_clock::now());
            },
            [this] { end("nobody reads what the controller says"); }),
        controller_(reactor_, std::move(options), events()),
        lifeline_(lifeline),
        signals_(signals) {
    reactor_.watch(signals_.fd(), EPOLLIN, [this](std::uint32_t) { on_signal(); });
    if (!lifeline_) return;
    reactor_.watch(lifeline_.get(), EPOLLIN | EPOLLRDHUP, [this](std::uint32_t events) {
      char buffer[256];
      // Whatever is said on it: only its end means something.
      if ((events & EPOLLIN) != 0 && ::read(lifeline_.get(), buffer, sizeof buffer) > 0) return;
      reactor_.forget(lifeline_.get());
      lifeline_.reset();
      end("whoever started the controller is gone");
    });
  }
  ~Program() {
    reactor_.forget(signals_.fd());
    if (lifeline_) reactor_.forget(lifeline_.get());
  }
  /// Serves the page until the end.
  void serve(http::HttpSocket socket, PageServer::Options options) {
    page_.emplace(std::move(socket), std::move(options));
    count();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  int run() {
    manager_.ready("watches its hosts");
    if (manager_.due()) show_life();
    reactor_.run();
    controller_.close("the controller ends");
    writer_.flush();
    return exit_code_;
  }

 private:
  void show_life() {
    manager_.keep_alive(std::chrono::steady_clock::now());
    reactor_.after(manager_.period(), [this] { show_life(); });
  }
  void count() {
    page_->set_counts(controller_.counts());
    reactor_.after(kCountPeriod, [this] { count(); });
  }
  void on_signal() {
    const auto signal = signals_.next();
    if (!signal) return;
    // A second signal means: do not wait for the meshes.
    if (is_ending_) return reactor_.stop();
    end("the controller ends: " + signal_name(*signal));
  }
  void end(const std::string& reason) {
    if (std::exchange(is_ending_, true)) return;
    manager_.stopping();
    controller_.end(reason, [this] { reactor_.stop(); });
  }
  Controller::Events events() {
    Controller::Events events;
    events.on_events = [this](const std::vector<WatchEvent>& list) {
      for (const auto& event : list) {
        if (!is_repeated_for_mesh(event))
          writer_.write(to_json_line(event, std::chrono::system_clock::now()));
      }
    };
    events.on_pair = [this](const PairNotice& notice) {
      std::fprintf(stderr, "meshbus-controller: it %s from now on (pair %s): %s\n",
                   notice.is_acting ? "acts" : "stands by", notice.pair.c_str(),
                   notice.why.c_str());
      writer_.write(to_json_line(notice, std::chrono::system_clock::now()));
    };
    events.on_stop_asked = [this](const std::string& reason) {
      end("the controller ends: " + reason);
    };
    events.on_refused = [this](const Error& error) {
      exit_code_ = give_up(
          error.code() == ErrorCode::unauthorised ? exits::kNoPermission : exits::kUnavailable,
          error.to_string());
      reactor_.stop();
    };
    return events;
  }

  Reactor reactor_;
  ServiceManager manager_;
  int exit_code_ = 0;
  bool is_ending_ = false;
  LineWriter writer_;
  Controller controller_;
  UniqueFd lifeline_;
  TakenSignals& signals_;
  std::optional<PageThread> page_;
};

/// Where the page is to be, and how it is guarded.
struct Page {
  http::HttpSocket socket;
  PageServer::Options options;
};

/// Nothing: no page is wanted. Errors: configuration_error, io_error.
Result<std::optional<Page>> make_page(const Arguments& arguments,
                                      const Controller::Options& controller) {
  if (arguments.http.empty()) {
    if (arguments.is_http_write)
      return fail(ErrorCode::configuration_error, "--http-write needs a page: add --http ADDRESS");
    return std::nullopt;
  }
  const auto address = HostAddr::parse(arguments.http);
  if (!address) return fail(address.error().within("--http"));
  Page page;
  if (address->transport() == Transport::tcp) {
    if (arguments.http_token.empty())
      return fail(ErrorCode::configuration_error,
                  "--http over tcp needs --http-token FILE, which is made when there is none");
    auto token = read_page_token(arguments.http_token);
    if (!token) return fail(token.error().within("--http-token"));
    page.options.token = std::move(*token);
  }
  auto socket = http::listen_http(arguments.http);
  if (!socket) return fail(socket.error().within("--http"));
  page.socket = std::move(*socket);
  page.options.site = {.hosts = controller.hosts, .site = {}, .reach = controller.reach};
  if (arguments.is_http_write)
    page.options.acts = {.requester = "the page at " + address->to_string(),
                         .grace = controller.grace};
  return page;
}

Result<Controller::Options> make_options(const Arguments& arguments, const Config& config) {
  std::vector<HostAddr> hosts;
  const auto texts = expand_hosts(arguments.hosts);
  if (!texts) return fail(texts.error().within("--hosts"));
  for (const auto& text : *texts) {
    auto host = HostAddr::parse(text);
    if (!host) return fail(host.error().within("--hosts: '" + text + "'"));
    if (host->is_any() || host->is_wildcard())
      return fail(ErrorCode::configuration_error,
                  "--hosts: " + text + " is no address to connect to");
    hosts.push_back(std::move(*host));
  }
  auto options = Controller::Options::from(config, std::move(hosts));
  options.mesh = arguments.mesh;
  if (arguments.pair.empty()) return options;
  if (const auto name = Name::parse(arguments.pair); !name)
    return fail(name.error().within("--pair"));
  if (options.lease.count() != 0 && 3 * options.term > options.lease)
    return fail(ErrorCode::configuration_error,
                "--pair: supervision.term (" + std::to_string(options.term.count()) +
                    " ms) has to fit three times into lease (" +
                    std::to_string(options.lease.count()) +
                    " ms), so that another controller takes over before the leases of the meshes "
                    "lapse; lower supervision.term or raise lease");
  options.pair = arguments.pair;
  return options;
}

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app(
      "Watches the procs of hosts and prints each change as one JSON line. Ends at SIGTERM, or "
      "when its lifeline does.",
      "meshbus-controller");
  app.add_option("--hosts", arguments.hosts,
                 "Addresses of the hosts: ADDR,ADDR…, also as ranges: tcp:h[1-4]:7420")
      ->required();
  app.add_option("--mesh", arguments.mesh, "Only this mesh: its name, or the part before the uuid");
  app.add_option("--pair", arguments.pair,
                 "One of several controllers of that name, each with the same --hosts: one acts, "
                 "the others stand by, and one of them takes over when it falls silent")
      ->type_name("NAME");
  app.add_option("--lifeline-fd", arguments.lifeline_fd,
                 "Descriptor whose end means that whoever started this is gone");
  app.add_option("--http", arguments.http,
                 "Serve a page that shows these hosts, its API, /metrics and /healthz at "
                 "tcp:HOST:PORT (an IP address or localhost) or unix:PATH")
      ->type_name("ADDRESS");
  app.add_option("--http-token", arguments.http_token,
                 "File with the token that the page asks for; it is made when there is none. "
                 "Needed with tcp")
      ->type_name("FILE");
  app.add_flag("--http-write", arguments.is_http_write,
               "Let the page stop and signal ranks and look at their stacks; else it only reads");
  app.add_option("--set", arguments.settings, "A setting: KEY=VALUE, as in supervision.poll=10s")
      ->type_name("KEY=VALUE");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return give_up(exits::kUsage, std::string(error.what()) + "; see meshbus-controller --help");
  }
  const auto config = load_config(arguments.settings);
  if (!config) return give_up(exits::kUsage, config.error().to_string());
  set_up_logging("controller",
                 log::find_level(config->word(keys::log_level)).value_or(log::Level::warn));
  auto options = make_options(arguments, *config);
  if (!options) return give_up(exits::kUsage, options.error().to_string());
  auto page = make_page(arguments, *options);
  if (!page) return give_up(exits::kUsage, page.error().to_string());

  auto manager = ServiceManager::from_environment();
  TakenSignals signals({SIGTERM, SIGINT, SIGHUP});
  ::signal(SIGPIPE, SIG_IGN);
  const std::string socket_file = *page ? (*page)->socket.path : "";
  Program program(std::move(*options), arguments.lifeline_fd, std::move(manager), signals);
  if (*page) {
    std::fprintf(stderr, "meshbus-controller: the page is at %s\n", (*page)->socket.url.c_str());
    program.serve(std::move((*page)->socket), std::move((*page)->options));
  }
  const int code = program.run();
  if (!socket_file.empty()) ::unlink(socket_file.c_str());
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    return give_up(exits::kSystem, error.what());
  }
}
