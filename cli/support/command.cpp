#include "cli/support/command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <utility>

#include "cli/support/duration_text.h"
#include "cli/support/selector.h"
#include "client/src/base/parse_ranks.h"
#include "common/base/quantity.h"

namespace meshbus::cli {
namespace {

std::string footer_of(const Help& help, bool has_run) {
  std::string text;
  const auto paragraph = [&text](const std::string& one) {
    if (!one.empty()) text += (text.empty() ? "" : "\n\n") + one;
  };
  if (!help.examples.empty()) {
    std::string examples = help.examples.size() == 1 ? "Example:" : "Examples:";
    for (const auto& example : help.examples) examples += "\n  meshbus " + example;
    paragraph(examples);
  }
  paragraph(help.details);
  if (has_run)
    paragraph("Exit code: " + (help.exit_codes.empty() ? "0" : help.exit_codes) +
              "; 2 the command line or a setting is wrong; 125 meshbus itself failed.");
  return text;
}

}  // namespace

CLI::App& Commands::add(CLI::App& parent, const std::string& name, const Help& help, Run run) {
  auto* verb = parent.add_subcommand(name, help.meaning);
  verb->footer(footer_of(help, true));
  verb->callback([this, run = std::move(run)] { chosen_ = run; });
  return *verb;
}

CLI::App& Commands::add_group(CLI::App& parent, const std::string& name, const Help& help) {
  auto* verbs = parent.add_subcommand(name, help.meaning);
  verbs->require_subcommand(1);
  verbs->footer(footer_of(help, false));
  return *verbs;
}

void Commands::takes_command(CLI::App& verb) {
  with_command_.push_back(verb.get_name());
}

bool Commands::has_command(const std::string& verb) const {
  return std::find(with_command_.begin(), with_command_.end(), verb) != with_command_.end();
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  const auto found =
      app.get_subcommands([&](const CLI::App* verb) { return verb->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

std::vector<const CLI::App*> shown_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* verb) { return !verb->get_group().empty(); });
}

void add_hosts(CLI::App& verb, HostsSaid& said, const std::string& meaning,
               const std::string& type) {
  const auto add = [&verb](const std::string& flag, std::string& target, const std::string& words,
                           const std::string& type_name) {
    return verb
        .add_option_function<std::string>(
            flag,
            [&target, flag](const std::string& text) {
              // An empty variable in a script must not become a default.
              if (text.empty()) throw CLI::ValidationError(flag, "is empty");
              target = text;
            },
            words)
        ->type_name(type_name)
        ->group("Hosts");
  };
  auto* list = add("--hosts", said.list, meaning, type);
  auto* file = add(
      "--hostfile", said.file,
      "Hosts from a file: a list like that of --hosts on each line, # begins a comment", "FILE");
  file->excludes(list);
  add("--context", said.context, "Hosts, and the settings to reach them, from meshbus context add",
      "NAME")
      ->excludes(list)
      ->excludes(file);
}

void add_host_choice(CLI::App& verb, HostChoice& choice) {
  add_hosts(verb, choice.said,
            "Addresses of hosts, also as ranges like tcp:h[1-4]:7420; default: MESHBUS_HOSTS, else "
            "the context in use, else all your hosts on this machine",
            "ADDRESS,...");
  verb.add_flag("--json", choice.json, "Print JSON");
  add_duration(
      verb, "--timeout",
      [&choice](std::chrono::milliseconds time) {
        choice.timeout = time;
        choice.is_timeout_given = true;
      },
      "Give up after this time; default " + duration_to_text(choice.timeout));
}

void add_mesh_choice(CLI::App& verb, MeshChoice& choice, const std::string& meaning) {
  auto* const all = verb.add_flag("--all", choice.is_all, "Every mesh on the hosts");
  verb.add_option("RANKS", choice.selector, meaning)->excludes(all);
}

void add_mesh_order(CLI::App& verb, MeshChoice& choice, const std::string& meaning) {
  auto* const all = verb.add_flag("--all", choice.is_all,
                                  "Every live mesh on the hosts; on a terminal you are asked");
  verb.add_flag("--yes", choice.is_sure, "With --all: do not ask")->needs(all);
  verb.add_option("RANKS", choice.selector, meaning)->excludes(all);
}

CLI::Option* add_duration(CLI::App& verb, const std::string& name,
                          std::function<void(std::chrono::milliseconds)> take,
                          const std::string& meaning) {
  return verb
      .add_option_function<std::string>(
          name, [take = std::move(take)](const std::string& text) { take(*parse_duration(text)); },
          meaning)
      ->check(CLI::Validator([](std::string& text) { return duration_problem(text); }, ""))
      ->type_name("DURATION");
}

CLI::Option* add_duration(CLI::App& verb, const std::string& name,
                          std::chrono::milliseconds& target, const std::string& meaning) {
  return add_duration(
      verb, name, [&target](std::chrono::milliseconds time) { target = time; }, meaning);
}

CLI::Option* add_duration(CLI::App& verb, const std::string& name,
                          std::optional<std::chrono::milliseconds>& target,
                          const std::string& meaning) {
  return add_duration(
      verb, name, [&target](std::chrono::milliseconds time) { target = time; }, meaning);
}

CLI::Option* add_grace(CLI::App& verb, std::optional<std::chrono::milliseconds>& grace) {
  return add_duration(verb, "--grace", grace,
                      "Time between SIGTERM and SIGKILL when ranks are stopped; default 10s");
}

CLI::Option* add_text(CLI::App& verb, const std::string& name,
                      std::function<Result<void>(const std::string&)> take,
                      const std::string& meaning, const std::string& type) {
  return verb
      .add_option_function<std::string>(
          name,
          [name, take = std::move(take)](const std::string& text) {
            if (const auto taken = take(text); !taken)
              throw CLI::ValidationError(name.substr(0, name.find(',')), taken.error().detail());
          },
          meaning)
      ->type_name(type);
}

void add_ranks(CLI::App& verb, RankSet& ranks) {
  add_text(
      verb, "--rank",
      [&ranks](const std::string& text) -> Result<void> {
        auto parsed = parse_ranks(text);
        if (!parsed)
          return fail(ErrorCode::parse_error, "takes ranks like 0-5,7, not '" + text + "'");
        ranks = std::move(*parsed);
        return {};
      },
      "Only these ranks, like 0-5,7", "RANKS");
}

}  // namespace meshbus::cli
