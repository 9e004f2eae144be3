#include "cli/command_line.h"
#include "cli/audit/audit_command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
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

void add_all(CLI::App& app, Commands& commands) {
  add_run(app, commands);
  add_torchrun(app, commands);
  add_spawn(app, commands);
  add_host(app, commands);
  add_ps(app, commands);
  add_ping(app, commands);
  add_doctor(app, commands);
  add_stop(app, commands);
  add_grow(app, commands);
  add_shrink(app, commands);
  add_signal(app, commands);
  add_exec(app, commands);
  add_cp(app, commands);
  add_forward(app, commands);
  add_attach(app, commands);
  add_progress(app, commands);
  add_shutdown(app, commands);
  add_drain(app, commands);
  add_upgrade(app, commands);
  add_status(app, commands);
  add_watch(app, commands);
  add_top(app, commands);
  add_controller(app, commands);
  add_logs(app, commands);
  add_why(app, commands);
  add_audit(app, commands);
  add_stacks(app, commands);
  add_call(app, commands);
  add_cast(app, commands);
  add_config(app, commands);
  add_context(app, commands);
  add_keygen(app, commands);
  add_mesh(app, commands);
  add_tap(app, commands);
  add_bench(app, commands);
  add_chaos(app, commands);
  add_help(app, commands);
  add_completion(app, commands);
  add_version(app, commands);
}

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

int refuse(const std::string& better, const std::string& else_text) {
  complain(better.empty() ? else_text : better);
  return kUsage;
}

/// Splits off the command of `run` and `spawn`; nothing, or the exit code when that is no command.
std::optional<int> take_command(const CLI::App& app, Commands& commands, int own, int argc,
                                char** argv) {
  const auto* verb = app.get_subcommands().front();
  if (!commands.has_command(verb->get_name())) return std::nullopt;
  const std::string path = "meshbus " + verb->get_name();
  auto words = verb->remaining();
  if (own < argc) {
    if (!words.empty())
      return refuse(suggestion(app, own, argv),
                    path + " does not understand '" + words.front() + "' in front of --");
    words.assign(argv + own + 1, argv + argc);
  } else if (!words.empty() && words.front().starts_with("-")) {
    return refuse(suggestion(app, own, argv), path + " has no flag '" + words.front() + "'");
  }
  commands.set_command(std::move(words));
  return std::nullopt;
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app(kIntroduction, "meshbus");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("meshbus ") + MESHBUS_VERSION);
  app.formatter_fn([](const CLI::App* verb, const std::string&, CLI::AppFormatMode) {
    return help_text(*verb, help_width());
  });
  Commands commands;
  add_all(app, commands);
  limit_options(app);
  // Everything after the first -- is the command, whatever it looks like.
  int own = argc;
  if (argc > 1 && commands.has_command(argv[1])) {
    for (own = 2; own < argc && std::string(argv[own]) != "--";) ++own;
  }
  try {
    app.parse(own, argv);
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    if (argc < 2) {
      complain("no command was given; this is meshbus --help:\n");
      std::cerr << app.help();
      return kUsage;
    }
    return refuse(suggestion(app, own, argv), in_own_words(app, error));
  }
  if (const auto code = take_command(app, commands, own, argc, argv)) return *code;
  hide_tokens(argc, argv);
  return commands.run();
}

}  // namespace meshbus::cli
