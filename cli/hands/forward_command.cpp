#include "cli/hands/forward_command.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>

#include "cli/hands/forward_session.h"
#include "cli/hands/hand_options.h"
#include "cli/support/exit_codes.h"
#include "cli/support/text_error.h"
#include "client/src/context/context_core.h"
#include "wire/hands_generated.h"

namespace meshbus::cli {
namespace {

struct ForwardArguments {
  HostChoice hosts;
  std::vector<std::string> forwards;
};

int run(const ForwardArguments& arguments) {
  std::vector<ForwardText> wanted;
  for (const auto& text : arguments.forwards) {
    auto forward = ForwardText::parse(text);
    if (!forward) {
      complain("forward: " + forward.error().detail());
      return kUsage;
    }
    wanted.push_back(std::move(*forward));
  }
  HandSignals signals;
  ForwardSession session(signals);
  // Each keeps the connection to its hosts.
  std::vector<std::shared_ptr<HandRanks>> all;
  for (const auto& forward : wanted) {
    auto chosen = choose_hand_ranks(arguments.hosts, forward.ranks);
    if (const int* code = std::get_if<int>(&chosen)) return *code == kUsage ? kUsage : kFailed;
    auto ranks = std::make_shared<HandRanks>(std::move(std::get<HandRanks>(chosen)));
    if (ranks->ranks.size() != 1) {
      complain("forward: " + forward.ranks + " is " + std::to_string(ranks->ranks.size()) +
               " ranks; name one");
      return kUsage;
    }
    auto listener = LocalListener::open(forward);
    if (!listener) {
      complain(listener.error().detail());
      return kFailed;
    }
    const RankReport& rank = ranks->ranks.front();
    const auto name = ranks->name_of(rank) + ":" + std::to_string(forward.rank_port);
    std::cout << listener->name() << " -> " << name << std::endl;
    const ExecRequest request{.host = rank.host,
                              .mesh = ranks->mesh.name,
                              .rank = rank.rank,
                              .task = wire::ExecTask::connect,
                              .arguments = {std::to_string(forward.rank_port)},
                              .has_input = true};
    session.add(std::move(*listener), name,
                [ranks, request] { return RankExec::start(ranks->hosts.context.core(), request); });
  }
  return session.run();
}

}  // namespace

void add_forward(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<ForwardArguments>();
  auto& verb = commands.add(
      app, "forward",
      {.meaning = "Open ports of ranks here: connections go on to 127.0.0.1 beside the rank",
       .examples = {"forward 8080:train:3:80", "forward 6006:board:6006 9229:train:0:9229",
                    "forward /tmp/debug.sock:train:3:5678"},
       .details =
           "It listens on 127.0.0.1 only, or on a unix socket of yours, until Ctrl-C, and prints "
           "a line for each when it does. It takes connections of your processes and of root, and "
           "refuses those of other users. Port 0 takes a free one. Each connection is carried by a "
           "process of its own in the rank's network namespace, over the connection that meshbus "
           "has to the host: no other port of the machine has to be open.",
       .exit_codes = "1 no such rank, or it cannot listen; 128 + signal when it was ended"},
      [arguments] { return run(*arguments); });
  verb.add_option("FORWARDS", arguments->forwards, "LOCAL:RANKS:PORT; LOCAL is a port or a path")
      ->required();
  add_hand_hosts(verb, arguments->hosts);
}

}  // namespace meshbus::cli
