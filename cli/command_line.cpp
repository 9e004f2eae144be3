#include "cli/command_line.h"
#include "cli/audit/audit_command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <memory>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "cli/bench/bench_command.h"
#include "cli/chaos/chaos_command.h"
#include "cli/doctor/doctor_command.h"
#include "cli/hands/attach_command.h"
#include "cli/hands/cp_command.h"
#include "cli/hands/exec_command.h"
#include "cli/hands/forward_command.h"
#include "cli/help/completion_command.h"
#include "cli/help/help_command.h"
#include "cli/hosts/config_command.h"
#include "cli/hosts/context_command.h"
#include "cli/hosts/drain_command.h"
#include "cli/hosts/host_command.h"
#include "cli/hosts/ping_command.h"
#include "cli/hosts/shutdown_command.h"
#include "cli/hosts/upgrade_command.h"
#include "cli/keys/keygen_command.h"
#include "cli/mesh/controller_command.h"
#include "cli/mesh/mesh_command.h"
#include "cli/mesh/progress_command.h"
#include "cli/mesh/resize_command.h"
#include "cli/mesh/signal_command.h"
#include "cli/mesh/stop_command.h"
#include "cli/mesh/talk_command.h"
#include "cli/run/foreign_flags.h"
#include "cli/run/run_command.h"
#include "cli/run/spawn_command.h"
#include "cli/run/torchrun_command.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/help_text.h"
#include "cli/support/option_error.h"
#include "cli/support/text_error.h"
#include "cli/tap/tap_command.h"
#include "cli/top/top_command.h"
#include "cli/watch/logs_command.h"
#include "cli/watch/ps_command.h"
#include "cli/watch/stacks_command.h"
#include "cli/watch/status_command.h"
#include "cli/watch/watch_command.h"
#include "cli/watch/why_command.h"
#include "common/base/did_you_mean.h"

namespace meshbus::cli {
namespace {

constexpr const char* kIntroduction =
    "meshbus launches, addresses and supervises meshes of processes over many hosts.\n"
    "\n"
    "  meshbus run -n 4 -- sh -c 'echo hello from $RANK of $WORLD_SIZE'\n"
    "  meshbus run --hosts 2 --per-host gpus=4 -- ./train.sh\n"
    "  meshbus host &                  # a standing host; then: meshbus run --hosts ADDRESS -- ...";

void add_version(CLI::App& app, Commands& commands) {
  const auto is_json = std::make_shared<bool>(false);
  commands
      .add(app, "version", {.meaning = "Print the version", .examples = {"version --json"}},
           [is_json] {
             std::printf(*is_json ? "{\"version\": \"%s\"}\n" : "meshbus %s\n", MESHBUS_VERSION);
             return 0;
           })
      .add_flag("--json", *is_json, "Print JSON");
}

/// A command, and what declares it and those below it.
struct Verb {
  std::string_view name;
  void (*add)(CLI::App&, Commands&);
};
constexpr auto kVerbs = std::to_array<Verb>({
    {"run", add_run},
    {"torchrun", add_torchrun},
    {"spawn", add_spawn},
    {"host", add_host},
    {"ps", add_ps},
    {"ping", add_ping},
    {"doctor", add_doctor},
    {"stop", add_stop},
    {"grow", add_grow},
    {"shrink", add_shrink},
    {"signal", add_signal},
    {"exec", add_exec},
    {"cp", add_cp},
    {"forward", add_forward},
    {"attach", add_attach},
    {"progress", add_progress},
    {"shutdown", add_shutdown},
    {"drain", add_drain},
    {"upgrade", add_upgrade},
    {"status", add_status},
    {"watch", add_watch},
    {"top", add_top},
    {"controller", add_controller},
    {"logs", add_logs},
    {"why", add_why},
    {"audit", add_audit},
    {"stacks", add_stacks},
    {"call", add_call},
    {"cast", add_cast},
    {"config", add_config},
    {"context", add_context},
    {"keygen", add_keygen},
    {"mesh", add_mesh},
    {"tap", add_tap},
    {"bench", add_bench},
    {"chaos", add_chaos},
    {"help", add_help},
    {"completion", add_completion},
    {"version", add_version},
});
/// These tell of all the others.
constexpr std::array<std::string_view, 2> kOverviews = {"help", "completion"};

/// An option takes one word, also one that may be given again: the next word may be a command.
void limit_options(CLI::App& app) {
  for (auto* const option : app.get_options()) {
    if (!option->get_positional()) option->allow_extra_args(false);
  }
  for (auto* const verb : app.get_subcommands([](const CLI::App*) { return true; }))
    limit_options(*verb);
}

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// A job that outlives a terminal and needs a launcher is a launcher under a controller.
std::string no_such_option_of_spawn(const std::string& option) {
  return "meshbus spawn has no " + option +
         "; spawn a launcher that has it: meshbus spawn NAME -n 1 -- meshbus run " + option +
         " ...";
}

/// A flag of mpirun, srun or torchrun among the words, or one that other servers have, and what to
/// write instead; or nothing.
std::string foreign_hint(const CLI::App& verb, int argc, char** argv) {
  if (verb.get_name() == "host") {
    for (const auto* const word : {"--listen", "--port", "--address"}) {
      if (std::find(argv + 2, argv + argc, std::string_view(word)) != argv + argc)
        return "meshbus host has no " + std::string(word) + "; it takes --bind tcp:HOST:PORT";
    }
    return {};
  }
  if (verb.get_name() != "run" && verb.get_name() != "spawn") return {};
  for (int i = 2; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string word = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
    const auto hint = hint_for(word);
    if (hint.empty() || verb.get_option_no_throw(word) != nullptr) continue;
    const std::string path = "meshbus " + verb.get_name();
    if (hint.starts_with("no such flag"))
      return path + " has " + std::string(hint) + " (" + word + ")";
    const std::string flag(hint.substr(0, hint.find(' ')));
    const bool is_of_run = flag.starts_with('-') && verb.get_option_no_throw(flag) == nullptr;
    if (is_of_run) return no_such_option_of_spawn(flag);
    return path + " has no " + word + "; it takes " + std::string(hint);
  }
  return {};
}

/// The one name that begins with the same five letters: nproc_per_node for nprocs. Empty: none.
std::string_view starts_alike(std::string_view word, const std::vector<std::string_view>& names) {
  constexpr std::size_t kLetters = 5;
  if (word.size() < kLetters) return {};
  const auto found = std::find_if(names.begin(), names.end(), [&](std::string_view name) {
    return name.starts_with(word.substr(0, kLetters));
  });
  return found == names.end() ? std::string_view() : *found;
}

/// The word that was not understood, and what it may have been meant to be.
std::string suggestion(const CLI::App& app, int argc, char** argv,
                       const std::string& path = "meshbus") {
  if (argc < 2)
    return app.get_parent() == nullptr ? ""
                                       : path + " what? The commands are in " + path + " --help";
  std::vector<std::string> verbs;
  for (const auto* verb : verbs_of(app)) verbs.push_back(verb->get_name());
  const std::string first = argv[1];
  if (first.starts_with('-')) return {};
  if (std::find(verbs.begin(), verbs.end(), first) == verbs.end()) {
    const auto near = did_you_mean(first, verbs);
    return "unknown command '" + first + "'" +
           (near.empty() ? "; the commands are in " + path + " --help"
                         : "; did you mean '" + std::string(near) + "'?");
  }
  const CLI::App* verb = app.get_subcommand(first);
  if (const auto hint = foreign_hint(*verb, argc, argv); !hint.empty()) return hint;
  if (!verbs_of(*verb).empty()) return suggestion(*verb, argc - 1, argv + 1, path + " " + first);
  const auto word = unknown_flag(*verb, {argv + 2, argv + argc});
  if (word.empty()) return {};
  const auto flags = flags_of(*verb);
  std::vector<std::string_view> names(flags.begin(), flags.end());
  for (auto& name : names) name.remove_prefix(2);
  if (first == "spawn" && word == "--name")
    return path + " spawn has no --name: the name is its first word, meshbus spawn NAME";
  if (first == "torchrun" && app.get_subcommand("run")->get_option_no_throw(word) != nullptr)
    return path + " torchrun has no " + word + "; meshbus run --torch has it";
  if (first == "spawn" && app.get_subcommand("run")->get_option_no_throw(word) != nullptr)
    return no_such_option_of_spawn(word);
  auto near = did_you_mean(std::string_view(word).substr(2), names);
  if (near.empty()) near = starts_alike(std::string_view(word).substr(2), names);
  return path + " " + first + " has no " + word +
         (near.empty() ? "; its options are in " + path + " " + first + " --help"
                       : "; did you mean --" + std::string(near) + "?");
}

/// Every user of the machine can read a command line: overwrites what is secret in this one.
void hide_tokens(int argc, char** argv) {
  constexpr std::string_view kJoin = "--join";
  for (int i = 2; i < argc; ++i) {
    std::string_view word = argv[i];
    char* token = argv[i];
    if (word.starts_with(std::string(kJoin) + "=")) {
      token += kJoin.size() + 1;
    } else if (argv[i - 1] != kJoin) {
      continue;
    }
    std::fill(token, token + std::min(word.rfind('@'), word.size()) - (token - argv[i]), 'x');
  }
}

/// The first one that its help has; empty: none.
std::string first_example(const CLI::App& verb) {
  constexpr std::string_view before = "\n  meshbus ";
  const std::string footer = verb.get_footer();
  const auto begin = footer.find(before);
  if (begin == std::string::npos) return {};
  const auto end = footer.find('\n', begin + 1);
  return footer.substr(begin + 3, end == std::string::npos ? end : end - begin - 3);
}

/// What CLI11 says of a mistake, in the form that our own messages have.
std::string in_own_words(const CLI::App& app, const CLI::ParseError& error) {
  std::string path = "meshbus";
  const CLI::App* verb = &app;
  while (!verb->get_subcommands().empty()) {
    verb = verb->get_subcommands().front();
    path += " " + verb->get_name();
  }
  const std::string text = error.what();
  const bool is_missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (const auto example = first_example(*verb); is_missing && !example.empty())
    return path + ": " + text + "; for example: " + example;
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return option_error(text);
  const auto words = verb->remaining();
  return path + " does not understand '" + (words.empty() ? text : words.front()) + "'; see " +
         path + " --help";
}

/// A command line, and the commands that it may name.
class CommandLine {
 public:
  CommandLine(int argc, char** argv) : argc_(argc), argv_(argv), own_(argc) {
    app_.require_subcommand(1);
    app_.set_version_flag("--version", std::string("meshbus ") + MESHBUS_VERSION);
    app_.formatter_fn([](const CLI::App* verb, const std::string&, CLI::AppFormatMode) {
      return help_text(*verb, help_width());
    });
  }

  /// Declares the command that it names, and no other one: all of them take longer than most
  /// commands take to run. False: it names none, or one that needs the others.
  bool add_own() {
    if (argc_ < 2) return false;
    const std::string_view name = argv_[1];
    const auto* const verb = std::ranges::find(kVerbs, name, &Verb::name);
    if (verb == kVerbs.end() || std::ranges::find(kOverviews, name) != kOverviews.end())
      return false;
    verb->add(app_, commands_);
    return true;
  }
  void add_all() {
    for (const Verb& verb : kVerbs) verb.add(app_, commands_);
  }

  /// Throws CLI::ParseError. False: the command behind `--`, or where there could be a `--`, is
  /// none.
  bool parse() {
    limit_options(app_);
    // Everything after the first -- is the command, whatever it looks like.
    if (argc_ > 1 && commands_.has_command(argv_[1])) {
      for (own_ = 2; own_ < argc_ && std::string_view(argv_[own_]) != "--";) ++own_;
    }
    app_.parse(own_, argv_);
    return take_command();
  }

  /// What parse() has thrown or refused, to stderr, or the help that was asked for. Returns the
  /// exit code.
  int explain(const CLI::ParseError& mistake) const {
    if (dynamic_cast<const CLI::Success*>(&mistake) != nullptr) return app_.exit(mistake);
    if (argc_ >= 2) return refuse(in_own_words(app_, mistake));
    complain("no command was given; this is meshbus --help:\n");
    std::cerr << app_.help();
    return kUsage;
  }
  int explain_command() const {
    const auto* const verb = app_.get_subcommands().front();
    const std::string path = "meshbus " + verb->get_name();
    const std::string word = verb->remaining().front();
    return refuse(own_ < argc_ ? path + " does not understand '" + word + "' in front of --"
                               : path + " has no flag '" + word + "'");
  }

  int run() const {
    hide_tokens(argc_, argv_);
    return commands_.run();
  }

 private:
  /// Splits off the command of `run` and its like.
  bool take_command() {
    const auto* const verb = app_.get_subcommands().front();
    if (!commands_.has_command(verb->get_name())) return true;
    auto words = verb->remaining();
    if (own_ < argc_) {
      if (!words.empty()) return false;
      words.assign(argv_ + own_ + 1, argv_ + argc_);
    } else if (!words.empty() && words.front().starts_with("-")) {
      return false;
    }
    commands_.set_command(std::move(words));
    return true;
  }
  int refuse(const std::string& else_text) const {
    const auto better = suggestion(app_, own_, argv_);
    complain(better.empty() ? else_text : better);
    return kUsage;
  }

  int argc_;
  char** argv_;
  /// The first word that is not meshbus's own.
  int own_;
  CLI::App app_{kIntroduction, "meshbus"};
  Commands commands_;
};

}  // namespace

int run_command_line(int argc, char** argv) {
  CommandLine quick(argc, argv);
  bool is_understood = false;
  try {
    is_understood = quick.add_own() && quick.parse();
  } catch (const CLI::ParseError&) {
    // What there is to say may need the other commands.
  }
  if (is_understood) return quick.run();
  CommandLine whole(argc, argv);
  whole.add_all();
  try {
    if (!whole.parse()) return whole.explain_command();
  } catch (const CLI::ParseError& mistake) {
    return whole.explain(mistake);
  }
  return whole.run();
}

}  // namespace meshbus::cli
