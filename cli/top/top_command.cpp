#include "cli/top/top_command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/find_hosts.h"
#include "cli/support/text_error.h"
#include "cli/top/terminal.h"
#include "cli/top/top_render.h"
#include "cli/top/top_session.h"
#include "common/base/quantity.h"
#include "meshbus/site.h"

namespace meshbus::cli {
namespace {

/// A host that is slower than this, while others answer, is shown without its figures.
constexpr std::chrono::milliseconds kFirstRound{1000};
constexpr std::chrono::milliseconds kLeastPeriod{100};

struct TopArguments {
  HostChoice hosts{.timeout = std::chrono::seconds(10)};
  bool is_once = false;
  /// Between two looks at what has changed.
  std::chrono::milliseconds period{1000};
};

/// Waits for the hosts: as long as the user said, or else a second when one answers.
void settle(const Site& site, const HostChoice& choice) {
  if (choice.is_timeout_given || site.settle(kFirstRound)) return void(site.settle(choice.timeout));
  const auto view = site.view();
  const bool is_any = std::any_of(view.hosts.begin(), view.hosts.end(),
                                  [](const auto& host) { return host.state == SiteHostState::up; });
  if (!is_any) site.settle(choice.timeout - std::min(kFirstRound, choice.timeout));
}

int print_once(const Site& site, const HostChoice& choice) {
  settle(site, choice);
  const auto view = site.view();
  std::cout << (choice.json ? to_json(view, 2) + "\n" : table_of(view));
  return std::all_of(view.hosts.begin(), view.hosts.end(),
                     [](const auto& host) { return host.state == SiteHostState::up; })
             ? 0
             : 1;
}

/// The same choice of hosts for the commands that keys start.
std::vector<std::string> host_words_of(const HostsSaid& said) {
  std::vector<std::string> words;
  const auto add = [&words](const char* flag, const std::string& value) {
    if (value.empty()) return;
    words.emplace_back(flag);
    words.push_back(value);
  };
  add("--hosts", said.list);
  add("--hostfile", said.file);
  add("--context", said.context);
  return words;
}

int top(const TopArguments& arguments) {
  if (arguments.hosts.json && !arguments.is_once) {
    complain("--json prints one state: add --once, or use meshbus watch --json for changes");
    return kUsage;
  }
  if (arguments.period < kLeastPeriod) {
    complain("--period takes " + duration_to_text(kLeastPeriod) + " or more");
    return kUsage;
  }
  const auto found = find_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&found)) return *code;
  const auto& hosts = std::get<FoundHosts>(found);
  if (hosts.addresses.empty()) return no_host();
  auto context = hosts.make_context();
  if (!context) {
    complain(context.error().to_string());
    return kUsage;
  }
  const auto site = Site::watch(*context, hosts.addresses, {.period = arguments.period});
  if (!site) {
    complain(site.error().to_string());
    return kFailed;
  }
  if (arguments.is_once) return print_once(*site, arguments.hosts);
  site->settle(kFirstRound);
  auto terminal = Terminal::open();
  if (!terminal) {
    complain(terminal.error().detail());
    return kUsage;
  }
  return TopSession(**terminal, *site, host_words_of(arguments.hosts.said), arguments.period).run();
}

}  // namespace

void add_top(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<TopArguments>();
  auto& verb = commands.add(
      app, "top",
      {.meaning = "Show hosts, meshes and ranks as they are now, live",
       .examples = {"top", "top --once", "top --once --json"},
       .details = "Keys: ? help, q quit, Enter fold, / filter, s sort, w why, l logs, t stacks, k "
                  "signal, x "
                  "stop. "
                  "A key that acts asks first. A host that does not answer is shown as lost, "
                  "with since when. NO_COLOR=1 leaves colours out.",
       .exit_codes = "0; 1 with --once: a host does not answer; 130 Ctrl-C"},
      [arguments] { return top(*arguments); });
  add_host_choice(verb, arguments->hosts);
  verb.add_flag("--once", arguments->is_once, "Print the present state and exit");
  add_duration(verb, "--period", arguments->period,
               "Time between two looks at what has changed, 100ms or more; default 1s");
}

}  // namespace meshbus::cli
