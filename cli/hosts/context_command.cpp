#include "cli/hosts/context_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <iostream>
#include <string>
#include <vector>

#include "cli/support/command.h"
#include "cli/support/contexts.h"
#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "cli/support/text_error.h"
#include "common/config/config.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ContextArguments {
  enum class Verb { add, list, show, use, remove };
  Verb verb = Verb::list;
  /// use: empty = none.
  std::string name;
  HostsSaid said;
  /// KEY=VALUE
  std::vector<std::string> settings;
  bool replace = false;
  bool json = false;
};

int failed(const Error& error) {
  complain(error.detail());
  return error.code() == ErrorCode::not_exist  ? 1
         : error.code() == ErrorCode::io_error ? kOwnFailure
                                               : kUsage;
}

/// Errors: configuration_error: no such setting, or no such value.
Result<std::vector<Setting>> parse_settings(const std::vector<std::string>& texts) {
  ConfigSources sources;
  for (const auto& text : texts) {
    auto setting = parse_setting(text);
    if (!setting) return fail(setting.error().within("--set"));
    sources.flags.push_back(std::move(*setting));
  }
  auto settings = sources.flags;
  // Only the values are of interest, not what else this machine has.
  if (const auto config = Config::load(std::move(sources)); !config) return fail(config.error());
  return settings;
}

/// What is given now is checked now: whoever uses it later may be a script.
int add(const ContextStore& store, const ContextArguments& arguments) {
  if (arguments.said.is_empty()) {
    complain("which hosts? Say --hosts ADDRESS,... or --hostfile FILE");
    return kUsage;
  }
  const auto list = choose_hosts(arguments.said);
  if (!list) return failed(list.error());
  if (const auto addresses = parse_hosts(*list); !addresses && !is_ssh(*list))
    return failed(addresses.error());
  auto settings = parse_settings(arguments.settings);
  if (!settings) return failed(settings.error());
  if (store.has(arguments.name) && !arguments.replace) {
    complain("there is a context " + arguments.name + " already; --replace replaces it");
    return kUsage;
  }
  HostContext context{arguments.said.list, list->settings};
  for (auto& setting : *settings) context.settings.push_back(std::move(setting));
  // A file may change, or lie elsewhere for who uses the context.
  if (context.hosts.empty()) {
    for (const auto& word : list->words)
      context.hosts += (context.hosts.empty() ? "" : ",") + word.text;
  }
  if (auto written = store.write(arguments.name, context); !written) return failed(written.error());
  return 0;
}

Json to_json(const std::string& name, const HostContext& context, bool is_in_use) {
  Json settings = Json::object();
  for (const auto& [key, value] : context.settings) settings[key] = value;
  return {
      {"context", name}, {"in_use", is_in_use}, {"hosts", context.hosts}, {"settings", settings}};
}

int list(const ContextStore& store, const std::string& in_use, bool as_json) {
  const auto names = store.names();
  if (!names) return failed(names.error());
  Json json = Json::array();
  for (const auto& name : *names) {
    const auto context = store.read(name);
    if (!context) {
      complain(context.error().detail());
      continue;
    }
    if (as_json) {
      json.push_back(to_json(name, *context, name == in_use));
    } else {
      std::cout << (name == in_use ? "* " : "  ") << name << "  " << context->hosts << "\n";
    }
  }
  if (as_json) std::cout << dump(json, 2) << "\n";
  return 0;
}

int show(const ContextStore& store, const std::string& in_use, const ContextArguments& arguments) {
  const auto& name = arguments.name.empty() ? in_use : arguments.name;
  if (name.empty()) {
    complain("no context is in use; meshbus context list lists those that are there");
    return 1;
  }
  const auto context = store.read(name);
  if (!context) return failed(context.error());
  if (arguments.json) {
    std::cout << dump(to_json(name, *context, name == in_use), 2) << "\n";
    return 0;
  }
  const auto expanded = expand_hosts(context->hosts);
  if (!expanded) return failed(expanded.error());
  std::cout << "context " << name << (name == in_use ? ", in use" : "") << "\n";
  for (const auto& host : *expanded) std::cout << "  " << host << "\n";
  for (const auto& [key, value] : context->settings)
    std::cout << "  --set " << key << "=" << value << "\n";
  return 0;
}

int run(const ContextArguments& arguments) {
  using Verb = ContextArguments::Verb;
  const auto store = ContextStore::of_user();
  if (arguments.verb == Verb::add) return add(store, arguments);
  if (arguments.verb == Verb::use || arguments.verb == Verb::remove) {
    const auto done =
        arguments.verb == Verb::use ? store.use(arguments.name) : store.remove(arguments.name);
    return done ? 0 : failed(done.error());
  }
  const auto in_use = store.in_use();
  if (!in_use) return failed(in_use.error());
  return arguments.verb == Verb::list ? list(store, *in_use, arguments.json)
                                      : show(store, *in_use, arguments);
}

}  // namespace

void add_context(CLI::App& app, Commands& commands) {
  using Verb = ContextArguments::Verb;
  const std::string details =
      "A context is a list of hosts under a name, with settings to reach them, like the key to "
      "use: "
      "--set keys.own=FILE. Commands take --context NAME; without --hosts, --hostfile, --context "
      "and "
      "MESHBUS_HOSTS they take the context in use. Settings of a context are stronger than the "
      "environment, and weaker than --set. Contexts lie in ~/.config/meshbus/contexts.";
  auto& verbs = commands.add_group(
      app, "context",
      {.meaning = "Keep lists of hosts under names",
       .examples = {"context add lab --hosts tcp:node[1-4]:7420", "context use lab"},
       .details = details});
  const auto add_verb = [&](Verb verb, const std::string& name, const std::string& meaning,
                            const std::string& example) {
    const auto arguments = std::make_shared<ContextArguments>();
    arguments->verb = verb;
    auto& one = commands.add(verbs, name,
                             {.meaning = meaning,
                              .examples = {"context " + example},
                              .details = details,
                              .exit_codes = "0; 1 there is no such context"},
                             [arguments] { return run(*arguments); });
    return std::pair<CLI::App&, ContextArguments&>(one, *arguments);
  };
  auto [add, added] =
      add_verb(Verb::add, "add", "Make a context; with --replace also an existing one",
               "add lab --hosts tcp:node[1-4]:7420 --set keys.own=lab.key");
  add.add_option("NAME", added.name)->required();
  add_hosts(add, added.said, "Addresses of hosts, also as ranges like tcp:h[1-4]:7420",
            "ADDRESS,...");
  add.add_option("--set", added.settings, "A setting for commands that use the context")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  add.add_flag("--replace", added.replace, "Even if there is one of that name");
  auto [list, listed] =
      add_verb(Verb::list, "list", "List the contexts; * marks the one in use", "list");
  list.add_flag("--json", listed.json, "Print JSON");
  auto [show, shown] =
      add_verb(Verb::show, "show", "Show a context; default: the one in use", "show lab");
  show.add_option("NAME", shown.name);
  show.add_flag("--json", shown.json, "Print JSON");
  auto [use, used] = add_verb(Verb::use, "use", "Make it the one in use", "use lab");
  auto* name = use.add_option("NAME", used.name);
  use.add_flag_callback(
         "--none", [target = &used] { target->name.clear(); }, "None is in use from now on")
      ->excludes(name);
  use.require_option(1);
  auto [remove, removed] = add_verb(Verb::remove, "remove", "Remove a context", "remove lab");
  remove.add_option("NAME", removed.name)->required();
}

}  // namespace meshbus::cli
