#include "cli/chaos/chaos_command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cli/chaos/chaos_plan.h"
#include "cli/chaos/chaos_report.h"
#include "cli/chaos/chaos_session.h"
#include "cli/chaos/chaos_targets.h"
#include "cli/hands/hand_signals.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/reach.h"
#include "cli/support/text_error.h"
#include "common/base/quantity.h"

namespace meshbus::cli {
namespace {

constexpr const char* kDetails =
    "A host does nothing of this unless its setting chaos.allowed is true, and then for operators "
    "only. It ends each disturbance by itself when its time is over, also when this command is "
    "killed: the keeper continues ranks, the warden roles, the broker links. chaos.longest and "
    "chaos.most of the host are the bounds.\n"
    "\n"
    "kill: ranks, roles. freeze: ranks with all their descendants, roles. slow: ranks, which stand "
    "still for --percent of each 100 ms. cut, mute (one way: the first host sends nothing), delay: "
    "links, in the brokers. fill: disks, a file of --bytes without a name in the filesystem of the "
    "run directory, at most half of what is free. Not there: keepers and wardens, queues, packets "
    "that are lost below the brokers.\n"
    "\n"
    "The same --seed with the same targets and settings gives the same schedule. The report has "
    "what supervision said beside each deed.";

struct ChaosArguments {
  HostChoice hosts;
  ChaosChoice choice;
  ChaosSpec spec;
  ChaosOrders orders;
  bool has_seed = false;
  bool is_dry = false;
};

bool has_kind(const ChaosSpec& spec, ChaosKind kind) {
  return std::find(spec.kinds.begin(), spec.kinds.end(), kind) != spec.kinds.end();
}

/// Those that suit what the command line names.
std::vector<ChaosKind> standard_kinds(const ChaosChoice& choice) {
  std::vector<ChaosKind> kinds;
  if (!choice.ranks.empty() || !choice.roles.empty()) kinds = {ChaosKind::kill, ChaosKind::freeze};
  if (!choice.links.empty()) kinds.push_back(ChaosKind::cut);
  return kinds;
}

/// The exit code; stderr says what is wrong.
std::optional<int> check(const ChaosArguments& arguments) {
  const auto wrong = [](const std::string& what) {
    complain("chaos: " + what);
    return kUsage;
  };
  const auto& spec = arguments.spec;
  if (spec.every.count() < 1) return wrong("--every: at least 1ms");
  if (spec.length.count() < 1) return wrong("--for: at least 1ms");
  if (spec.hold.count() < 1) return wrong("--hold: at least 1ms");
  constexpr std::chrono::hours longest{24};
  if (spec.length > longest) return wrong("--for: 24h at most");
  constexpr int most_deeds = 100'000;
  if (spec.length / spec.every > most_deeds)
    return wrong("--every: more than 100000 deeds in the time of --for");
  if (spec.kinds.empty())
    return wrong("nothing to disturb; for example: meshbus chaos --ranks train --every 10s");
  if (has_kind(spec, ChaosKind::fill) && arguments.orders.bytes == 0)
    return wrong("fill needs --bytes, like --bytes 64MiB");
  return std::nullopt;
}

/// Whether each kind has a target; otherwise stderr says which has none.
bool are_kinds_used(const ChaosSpec& spec, const std::vector<ChaosTarget>& targets) {
  for (const auto kind : spec.kinds) {
    const bool is_used = std::any_of(targets.begin(), targets.end(),
                                     [kind](const auto& one) { return fits(kind, one.type); });
    if (is_used) continue;
    complain("chaos: --kinds " + std::string(to_string(kind)) +
             " has no target; name some by --ranks, --roles or --links");
    return false;
  }
  return true;
}

int run(ChaosArguments& arguments) {
  // Before there is any thread.
  HandSignals signals;
  auto& spec = arguments.spec;
  if (spec.kinds.empty()) spec.kinds = standard_kinds(arguments.choice);
  arguments.choice.has_disks = has_kind(spec, ChaosKind::fill);
  if (const auto code = check(arguments)) return *code;
  auto reached = reach_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&reached)) return *code;
  auto& hosts = std::get<ReachedHosts>(reached);
  const auto targets = find_chaos_targets(hosts, arguments.choice);
  if (targets.empty()) return kFailed;
  if (!are_kinds_used(spec, targets)) return kUsage;
  if (!arguments.has_seed) spec.seed = std::random_device()();
  const auto plan = make_chaos_plan(spec, targets);
  const bool is_json = arguments.hosts.json;
  if (!is_json) std::cout << chaos_plan_text(spec, plan) << std::flush;
  ChaosSession session(hosts, signals, arguments.orders);
  if (!arguments.is_dry) {
    if (const auto done = session.run(plan); !done) {
      complain(error_words(done.error()));
      return kFailed;
    }
  }
  const auto& book = session.book();
  if (is_json) {
    std::cout << chaos_report_json(spec, plan, book, arguments.is_dry,
                                   session.interrupted().has_value());
  } else if (!arguments.is_dry) {
    std::cout << "\n" << chaos_report_text(book);
  }
  if (session.interrupted()) return by_signal(*session.interrupted());
  const auto entries = book.entries();
  const bool is_all_done = std::all_of(entries.begin(), entries.end(), [](const auto& entry) {
    return entry.is_confirmed && entry.error.empty();
  });
  return is_all_done ? 0 : kFailed;
}

}  // namespace

void add_chaos(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<ChaosArguments>();
  auto& verb = commands.add(
      app, "chaos",
      {.meaning = "Disturb ranks, roles and links on purpose, to test how a job recovers",
       .examples = {"chaos --ranks 'train[0-3]' --kinds kill,freeze --every 10s --for 5m",
                    "chaos --ranks train --roles broker,agent --seed 7 --dry-run",
                    "chaos --links tcp:n1:7420,tcp:n2:7420 --kinds cut --hold 10s --for 10s"},
       .details = kDetails,
       .exit_codes =
           "0 the hosts did all of it; 1 one did not, or does not answer; 130 Ctrl-C: the "
           "report comes, and the hosts end what goes on"},
      [arguments] { return run(*arguments); });
  add_host_choice(verb, arguments->hosts);
  verb.add_option("--ranks", arguments->choice.ranks,
                  "Ranks of a live mesh: train, train[0-3], train[host=1]; may be given again")
      ->type_name("RANKS")
      ->allow_extra_args(false);
  verb.add_option("--roles", arguments->choice.roles, "Roles of these hosts: agent,broker")
      ->type_name("ROLES");
  verb.add_option("--links", arguments->choice.links,
                  "The link of two hosts, or all: each link among these hosts; may be given again")
      ->type_name("ADDRESS,ADDRESS")
      ->allow_extra_args(false);
  add_text(
      verb, "--kinds",
      [arguments = arguments.get()](const std::string& text) -> Result<void> {
        auto kinds = parse_chaos_kinds(text);
        if (!kinds) return fail(kinds.error());
        arguments->spec.kinds = std::move(*kinds);
        return {};
      },
      "What is done: kill, freeze, slow, cut, mute, delay, fill; default: kill,freeze and cut, as "
      "far as there are targets",
      "KINDS");
  auto* seed = verb.add_option("--seed", arguments->spec.seed,
                               "Of the schedule; default: a new one, which is printed");
  seed->each([arguments = arguments.get()](const std::string&) { arguments->has_seed = true; });
  add_duration(verb, "--every", arguments->spec.every,
               "Time from one deed to the next; default: 10s");
  add_duration(verb, "--for", arguments->spec.length,
               "Time of all of it, and no deed lasts longer; default: 1m");
  add_duration(verb, "--hold", arguments->spec.hold, "Time of one deed; default: 5s");
  verb.add_option("--most", arguments->spec.most, "So many are disturbed at a time; default: 1")
      ->check(CLI::Range(1, 4096));
  verb.add_option_function<int>(
          "--percent",
          [arguments = arguments.get()](const int& percent) {
            arguments->orders.percent = static_cast<std::uint8_t>(percent);
          },
          "slow: the part of the time in which ranks stand still; default: 50")
      ->check(CLI::Range(1, 99));
  add_duration(verb, "--delay", arguments->orders.delay,
               "delay: so much later messages leave; default: 200ms");
  add_text(
      verb, "--bytes",
      [arguments = arguments.get()](const std::string& text) -> Result<void> {
        const auto bytes = parse_bytes(text);
        if (!bytes) return fail(bytes.error());
        arguments->orders.bytes = *bytes;
        return {};
      },
      "fill: the size of the file, like 64MiB", "SIZE");
  add_duration(verb, "--settle", arguments->orders.settle,
               "So long it listens to supervision after the last deed; default: 5s");
  verb.add_flag("--dry-run", arguments->is_dry, "Print the schedule and do nothing");
}

}  // namespace meshbus::cli
