#include "cli/hands/exec_command.h"

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "cli/hands/exec_session.h"
#include "cli/hands/hand_options.h"
#include "cli/support/exit_codes.h"
#include "cli/support/text_error.h"
#include "client/src/context/context_core.h"
#include "wire/hands_generated.h"

namespace meshbus::cli {
namespace {

struct ExecArguments {
  HostChoice hosts;
  std::string ranks;
  std::vector<std::pair<std::string, std::string>> environment;
  bool wants_terminal = false;
  bool wants_no_terminal = false;
  bool wants_input = false;
  bool wants_no_input = false;
  bool is_raw = false;
};

Result<void> add_variable(ExecArguments& arguments, const std::string& text) {
  const auto equals = text.find('=');
  if (equals == 0 || text.empty())
    return fail(ErrorCode::parse_error, "'" + text + "' is not NAME or NAME=VALUE");
  if (equals != std::string::npos) {
    arguments.environment.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  } else if (const char* const value = std::getenv(text.c_str()); value != nullptr) {
    arguments.environment.emplace_back(text, value);
  } else {
    return fail(ErrorCode::parse_error, text + " is not set here");
  }
  return {};
}

int run(const ExecArguments& arguments, const std::vector<std::string>& command) {
  if (command.empty()) {
    complain("exec what? The command comes last: meshbus exec " + arguments.ranks + " -- COMMAND");
    return kUsage;
  }
  HandSignals signals;
  auto chosen = choose_hand_ranks(arguments.hosts, arguments.ranks);
  if (const int* code = std::get_if<int>(&chosen)) return *code;
  auto& ranks = std::get<HandRanks>(chosen);
  const bool is_one = ranks.ranks.size() == 1;
  const bool has_keys = ::isatty(STDIN_FILENO) != 0 && !arguments.hosts.json;
  if (arguments.wants_terminal && !is_one) {
    complain("-t is for one rank; " + arguments.ranks + " are " +
             std::to_string(ranks.ranks.size()));
    return kUsage;
  }
  ExecSession::Options options;
  options.has_input = arguments.wants_input || (is_one && !arguments.wants_no_input);
  options.has_terminal = is_one && options.has_input && has_keys && !arguments.wants_no_terminal &&
                         (arguments.wants_terminal || ::isatty(STDOUT_FILENO) != 0);
  options.are_lines_escaped = !is_one && !arguments.is_raw;
  options.is_json = arguments.hosts.json;
  ExecRequest request{.host = ranks.ranks.front().host, .mesh = ranks.mesh.name, .arguments = {}};
  request.task = wire::ExecTask::command;
  request.arguments = command;
  request.environment = arguments.environment;
  request.has_input = options.has_input;
  if (options.has_terminal || arguments.wants_terminal) {
    request.terminal = terminal_size().value_or(std::pair<std::uint16_t, std::uint16_t>(24, 80));
    const char* const kind = std::getenv("TERM");
    request.environment.insert(request.environment.begin(),
                               {"TERM", kind == nullptr || *kind == '\0' ? "dumb" : kind});
  }
  ExecSession session(signals, options);
  for (const auto& rank : ranks.ranks) {
    request.host = rank.host;
    request.rank = rank.rank;
    const auto name = ranks.name_of(rank);
    auto exec = RankExec::start(ranks.hosts.context.core(), request);
    const HandRank of{ranks.mesh.name, rank.rank};
    if (exec)
      session.add(std::move(*exec), of, name, is_one ? "" : name + " ");
    else
      session.add_failed(of, name, exec.error());
  }
  return session.run();
}

}  // namespace

void add_exec(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<ExecArguments>();
  auto& verb = commands.add(
      app, "exec",
      {.meaning = "Run a command beside ranks: same host, cgroup, namespaces, user, environment, "
                  "directory",
       .examples = {"exec train:3 -- bash", "exec train -- nvidia-smi -L",
                    "exec 'train[0-3]' -- cat /proc/loadavg", "exec -i train -- sh < fix.sh"},
       .details =
           "Beside one rank the command gets our stdin, and our terminal if we have one; beside "
           "several, stdin is empty unless -i, and each line begins with its rank. Ctrl-C goes to "
           "the command. It ends with its rank, and with this program. What the rank was started "
           "with is its environment; -x sets more. The host's audit trail names it.",
       .exit_codes = "that of the command, of several ranks the highest; 128 + signal if it was "
                     "killed; 123 its host was lost; 125 it could not be run, stderr says why; "
                     "126 it cannot be executed; 127 there is no such command"},
      [arguments, &commands] { return run(*arguments, commands.command()); });
  commands.takes_command(verb);
  verb.add_option("RANKS", arguments->ranks,
                  "A mesh, with or without its uuid, or ranks of it: train:3, train[0-5,7]")
      ->required();
  auto* terminal = verb.add_flag("-t,--tty", arguments->wants_terminal,
                                 "Give the command a terminal, also when ours is not one");
  verb.add_flag("-T,--no-tty", arguments->wants_no_terminal, "Give it none")->excludes(terminal);
  auto* input = verb.add_flag("-i,--stdin", arguments->wants_input,
                              "Give it our stdin, also beside several ranks: each gets all of it");
  verb.add_flag("-n,--no-stdin", arguments->wants_no_input, "Leave our stdin alone")
      ->excludes(input);
  verb.add_flag("--raw", arguments->is_raw,
                "Of several ranks: do not escape control characters on a terminal");
  verb.add_flag("--json", arguments->hosts.json,
                "Print a line of JSON for each line of output, and at last one for each rank")
      ->excludes(terminal);
  verb.add_option_function<std::vector<std::string>>(
          "-x",
          [arguments = arguments.get()](const std::vector<std::string>& words) {
            for (const auto& word : words) {
              if (const auto added = add_variable(*arguments, word); !added)
                throw CLI::ValidationError("-x", added.error().detail());
            }
          },
          "A variable of the command over those of its rank: NAME (as it is here) or NAME=VALUE")
      ->type_name("NAME[=VALUE]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_hand_hosts(verb, arguments->hosts);
}

}  // namespace meshbus::cli
