#include "cli/watch/watch_command.h"

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <csignal>
#include <iostream>
#include <set>

#include "cli/support/choose_mesh.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "cli/support/reach.h"
#include "cli/support/text_error.h"
#include "client/controller/controller.h"
#include "client/controller/event_json.h"
#include "client/controller/line_writer.h"
#include "client/src/base/wire_reports.h"
#include "common/base/taken_signals.h"
#include "common/config/config.h"

namespace meshbus::cli {
namespace {

/// What may wait for a reader who is slow.
constexpr std::size_t kOutputLimit = 16 * 1024 * 1024;

struct WatchArguments {
  HostChoice hosts;
  std::string ranks;
  std::string actor;
};

/// What is watched, and from where.
struct Watched {
  std::vector<HostAddr> hosts;
  std::string mesh;
  /// Only these create ranks; empty: all.
  RankSet ranks;
  /// Only the actors of that name; empty: the procs.
  std::string actor;
  /// Named, and not over yet.
  std::set<std::string> open;
  std::vector<std::pair<std::string, std::string>> settings;
};

/// "work-11111111111b rank 3 (host=1/2,gpu=1/2) on unix:/run/m: ". Of actors the mesh is that of
/// their procs.
std::string place_of(const WatchEvent& event) {
  std::string text =
      event.mesh.substr(0, event.mesh.find(',')) + " rank " + std::to_string(event.rank.rank());
  if (const auto point = event.point(); !point.empty()) text += " (" + point + ")";
  return text + " on " + event.host.to_string() + ": ";
}

std::string sentence_of_actors(const WatchEvent& event, const ActorsName& name) {
  using Kind = WatchEvent::Kind;
  const auto actor = name.actor().to_string();
  if (event.kind == Kind::query_failed)
    return name.mesh().to_string() + " does not say how its actors " + actor +
           " are: " + event.problem;
  if (event.kind == Kind::ended)
    return (event.overall == Status::Kind::not_exist
                ? "there were no actors " + actor + " in " + name.mesh().to_string()
                : "actors " + actor + " of " + name.mesh().to_string() + " have ended: ") +
           (event.overall == Status::Kind::not_exist ? "" : Status(event.overall).to_string());
  std::string text =
      place_of(event) + "actor " + actor + " " + std::string(state_of_actor(event.rank));
  if (event.exit_report != nullptr && !event.exit_report->reason.empty())
    text += ", " + event.exit_report->reason;
  return text;
}

/// "stopped by SIGTERM (launcher gone)", "killed, killed by SIGKILL"
std::string end_of(RankReport report, const wire::ExitReportT* said) {
  // A rank that ends by the signal of a stop is stopped, not killed (spec 4.2).
  const bool is_by_stop = report.state == ProcState::stopped && report.signal != 0;
  if (is_by_stop) report.reason.clear();
  const auto words = report.words();
  std::string text = is_by_stop ? words : std::string(to_string(report.state)) + ", " + words;
  if (said == nullptr || said->stop_reason.empty()) return text;
  return text + " (" + said->stop_reason +
         (said->stopped_by.empty() ? "" : ", by " + said->stopped_by) + ")";
}

std::string sentence_of(const WatchEvent& event) {
  using Kind = WatchEvent::Kind;
  if (const auto name = ActorsName::parse(event.mesh)) return sentence_of_actors(event, *name);
  switch (event.kind) {
    case Kind::host_unreachable:
      return "host " + event.host.to_string() + " does not answer: " + event.problem;
    case Kind::host_back: return "host " + event.host.to_string() + " answers again";
    case Kind::query_failed:
      return "host " + event.host.to_string() + " does not say how " + event.mesh +
             " is: " + event.problem;
    case Kind::ended: return event.mesh + " has ended: " + Status(event.overall).to_string();
    case Kind::late:
      return "this watch was late by " + std::to_string(event.lateness.count()) + " ms";
    case Kind::restarting:
    case Kind::given_up:
    case Kind::resized: return event.mesh + ": " + event.problem;
    case Kind::state:
    case Kind::trouble: break;
  }
  RankReport report;
  copy_state(event.rank, report);
  if (event.kind == Kind::trouble) copy_trouble(event.trouble, report, event.stuck.get());
  if (event.exit_report != nullptr) report.reason = event.exit_report->reason;
  std::string text = place_of(event);
  if (event.kind == Kind::trouble)
    return text + (report.trouble == Trouble::none
                       ? "answers in time again"
                       : std::string(to_string(report.trouble)) + ": " + report.trouble_reason);
  if (!report.is_terminal()) {
    text += to_string(report.state);
    return report.pid == 0 ? text : text + ", pid " + std::to_string(report.pid);
  }
  return text + end_of(report, event.exit_report.get());
}

class Watch {
 public:
  Watch(Controller::Options options, Watched watched, bool is_json, TakenSignals& signals)
      : watched_(std::move(watched)),
        is_json_(is_json),
        signals_(signals),
        writer_(
            reactor_, STDOUT_FILENO, kOutputLimit,
            [this](std::uint64_t lines) { return lost_line(lines); }, [this] { end(kBrokenPipe); }),
        controller_(reactor_, std::move(options), events()) {
    reactor_.watch(signals_.fd(), EPOLLIN, [this](std::uint32_t) {
      if (const auto signal = signals_.next()) end(128 + *signal);
    });
  }
  ~Watch() { reactor_.forget(signals_.fd()); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  int run() {
    reactor_.run();
    controller_.close("nobody watches any more");
    writer_.flush();
    return code_;
  }

 private:
  void end(int code) {
    code_ = code;
    reactor_.stop();
  }
  std::string lost_line(std::uint64_t lines) const {
    const auto now = std::chrono::system_clock::now();
    return is_json_
               ? lost_json_line(lines, now)
               : time_text(now) + "  " + std::to_string(lines) + " lines were not read in time";
  }
  Controller::Events events() {
    Controller::Events events;
    events.on_events = [this](const std::vector<WatchEvent>& list) {
      for (const auto& event : list) take(event);
    };
    events.on_refused = [this](const Error& error) {
      complain(error_words(error));
      end(1);
    };
    return events;
  }
  void take(const WatchEvent& event) {
    using Kind = WatchEvent::Kind;
    // A host that goes is said once, not again for each of its meshes.
    if ((event.kind == Kind::host_unreachable || event.kind == Kind::host_back) &&
        !event.mesh.empty())
      return;
    if (!watched_.actor.empty() && !event.mesh.empty() && !ActorsName::is_meant(event.mesh)) return;
    if ((event.kind == Kind::state || event.kind == Kind::trouble) &&
        !is_meant(watched_.ranks, event.rank.rank()))
      return;
    const auto now = std::chrono::system_clock::now();
    if (is_json_) {
      writer_.write(to_json_line(event, now));
    } else {
      writer_.write(time_text(now) + "  " + shown(sentence_of(event)));
      if (event.kind == Kind::state && event.exit_report != nullptr)
        write_last_words(event.exit_report->stderr_tail);
    }
    if (event.kind != Kind::ended) return;
    const bool is_of_actors = ActorsName::is_meant(event.mesh);
    if (event.overall == Status::Kind::failed ||
        (is_of_actors && event.overall != Status::Kind::stopped))
      code_ = 1;
    if (watched_.open.erase(event.mesh) > 0 && watched_.open.empty()) end(code_);
  }
  void write_last_words(const std::vector<std::uint8_t>& tail) {
    std::string_view text(reinterpret_cast<const char*>(tail.data()), tail.size());
    while (!text.empty()) {
      const auto end = text.find('\n');
      writer_.write("  | " + shown(text.substr(0, end)));
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
  }

  Reactor reactor_;
  Watched watched_;
  bool is_json_;
  TakenSignals& signals_;
  int code_ = 0;
  LineWriter writer_;
  Controller controller_;
};

/// The hosts that are meant, and the mesh there.
std::variant<Watched, int> find_watched(const WatchArguments& arguments) {
  auto reached = reach_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&reached)) return *code;
  const auto& hosts = std::get<ReachedHosts>(reached);
  Watched watched{hosts.all_hosts(), {}, {}, arguments.actor, {}, hosts.settings};
  if (arguments.ranks.empty()) return watched;
  auto meant = choose_ranks(hosts.listing, arguments.ranks, Among::all);
  if (meant.mesh == nullptr) return meant.code;
  watched.mesh = meant.mesh->name;
  watched.ranks = std::move(meant.ranks);
  watched.open.insert(watched.mesh + (arguments.actor.empty() ? "" : "," + arguments.actor));
  return watched;
}

int watch(const WatchArguments& arguments, TakenSignals& signals) {
  if (const auto name = Name::parse(arguments.actor); !arguments.actor.empty() && !name) {
    complain(error_words(name.error().within("--actor")));
    return kUsage;
  }
  auto found = find_watched(arguments);
  if (const int* code = std::get_if<int>(&found)) return *code;
  auto& watched = std::get<Watched>(found);
  ConfigSources sources = ConfigSources::of_process();
  for (const auto& [key, value] : watched.settings) sources.flags.push_back({key, value});
  const auto config = Config::load(std::move(sources));
  if (!config) {
    complain(error_words(config.error()));
    return kUsage;
  }
  auto options = Controller::Options::from(*config, watched.hosts);
  options.mesh = watched.mesh;
  options.actors = watched.actor;
  options.is_controller = false;
  options.lease = std::chrono::milliseconds(0);
  return Watch(std::move(options), std::move(watched), arguments.hosts.json, signals).run();
}

int run(const WatchArguments& arguments) {
  ::signal(SIGPIPE, SIG_IGN);
  TakenSignals signals({SIGINT, SIGTERM, SIGHUP});
  return watch(arguments, signals);
}

}  // namespace

void add_watch(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<WatchArguments>();
  auto& verb = commands.add(
      app, "watch",
      {.meaning = "Show changes as they happen: ranks that start, end and fail, hosts that go and "
                  "come back",
       .examples = {"watch", "watch train --json", "watch 'train[0-3]'"},
       .details = "The present state comes first. --timeout limits only how long finding the hosts "
                  "and the mesh may take.",
       .exit_codes =
           "0 the mesh has ended; 1 it has failed, there is none, or a host does not answer; "
           "130 Ctrl-C; 141 nobody reads the output"},
      [arguments] { return run(*arguments); });
  add_host_choice(verb, arguments->hosts);
  verb.add_option("RANKS", arguments->ranks,
                  "Only this mesh, with or without its uuid, or these ranks of it (train[0-5,7], "
                  "train[host=1]), until the mesh has ended; default: all, until Ctrl-C");
  verb.add_option("--actor", arguments->actor,
                  "Only the actors of this name, until all of them have ended")
      ->type_name("NAME");
}

}  // namespace meshbus::cli
