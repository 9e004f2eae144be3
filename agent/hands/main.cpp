// meshbus-hands: takes the place of a rank and does something there: `meshbus exec`, `cp` and
// `forward` (spec 16.5). Started by the keeper at the host agent's request, one process for each.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "agent/hands/command.h"
#include "agent/hands/environment.h"
#include "agent/hands/file_copy.h"
#include "agent/hands/port_connection.h"
#include "agent/hands/rank_place.h"
#include "agent/hands/terminal_run.h"
#include "agent/os/daemon_protection.h"
#include "common/base/exit_codes.h"
#include "common/base/quantity.h"

namespace {

using namespace meshbus;
using namespace meshbus::hands;

struct Arguments {
  RankPlace::Target target;
  bool has_terminal = false;
  os::TerminalSize size;
  std::string task = "command";
  std::vector<std::string> words;
};

bool parse_size(const std::string& text, os::TerminalSize& size) {
  const auto x = text.find('x');
  if (x == std::string::npos) return false;
  const auto rows = parse_whole<std::uint16_t>(text.substr(0, x));
  const auto columns = parse_whole<std::uint16_t>(text.substr(x + 1));
  if (!rows || !columns) return false;
  size = {*rows, *columns};
  return true;
}

/// False: they are not those of an agent.
bool parse(int argc, char** argv, Arguments& arguments) {
  int at = 1;
  for (; at + 1 < argc && std::string_view(argv[at]) != "--"; at += 2) {
    const std::string_view name = argv[at];
    const std::string value = argv[at + 1];
    if (name == "--pid") {
      const auto pid = parse_whole<pid_t>(value);
      if (!pid || *pid < 1) return false;
      arguments.target.pid = *pid;
    } else if (name == "--start") {
      const auto ticks = parse_whole<std::uint64_t>(value);
      if (!ticks) return false;
      arguments.target.start_ticks = *ticks;
    } else if (name == "--terminal") {
      if (!parse_size(value, arguments.size)) return false;
      arguments.has_terminal = true;
    } else if (name == "--task") {
      arguments.task = value;
    } else {
      return false;
    }
  }
  if (at >= argc || std::string_view(argv[at]) != "--") return false;
  arguments.words.assign(argv + at + 1, argv + argc);
  return arguments.target.pid > 0 && !arguments.words.empty();
}

int fail_with(const Error& error) {
  std::fprintf(stderr, "meshbus: the place of the rank cannot be taken: %s\n",
               error.detail().c_str());
  return exits::kOwnFailure;
}

int run_command(const Arguments& arguments, RankPlace& place) {
  std::vector<std::string> given;
  for (char** entry = environ; *entry != nullptr; ++entry) given.emplace_back(*entry);
  const Command command{arguments.words, choose_environment(place.environment(), given)};
  if (arguments.has_terminal) end_like(run_on_terminal(place, command, arguments.size));
  execute(place, command);
}

int run_connect(const Arguments& arguments, const RankPlace& place) {
  const auto port = parse_whole<std::uint16_t>(arguments.words[0]);
  if (!port || *port == 0) return exits::kUsage;
  if (const auto done = place.settle(); !done) return fail_with(done.error());
  return carry_connection(*port);
}

int run_copy(const Arguments& arguments, const RankPlace& place) {
  if (const auto done = place.settle(); !done) return fail_with(done.error());
  return arguments.task == "send" ? send_files(arguments.words) : receive_files(arguments.words[0]);
}

}  // namespace

int main(int argc, char** argv) {
  // In the rank's place its user could read this process, and attach to it.
  os::forbid_dumps();
  Arguments arguments;
  if (!parse(argc, argv, arguments)) {
    std::fprintf(stderr, "meshbus-hands is started by a host of meshbus: use `meshbus exec`\n");
    return exits::kUsage;
  }
  auto place = RankPlace::open(arguments.target);
  if (!place) return fail_with(place.error());
  if (const auto entered = place->enter(); !entered) return fail_with(entered.error());
  if (arguments.task == "command") return run_command(arguments, *place);
  if (arguments.task == "connect") return run_connect(arguments, *place);
  if (arguments.task == "send" || arguments.task == "receive") return run_copy(arguments, *place);
  std::fprintf(stderr, "meshbus: this host does not know how to '%s'\n", arguments.task.c_str());
  return exits::kOwnFailure;
}
