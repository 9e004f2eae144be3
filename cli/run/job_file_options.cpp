#include "cli/run/job_file_options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string_view>
#include <utility>

#include "cli/run/job_options.h"
#include "cli/run/role_options.h"
#include "cli/support/command.h"
#include "cli/support/name_problem.h"
#include "cli/support/option_error.h"
#include "common/base/did_you_mean.h"
#include "common/config/config.h"

namespace meshbus::cli {
namespace {

/// What the command line may say of hosts: one of them replaces those of the file.
constexpr auto kHostFlags = std::to_array<const char*>({"--hosts", "--hostfile", "--context"});

/// Declares the options of a table.
using Declare = std::function<void(CLI::App&)>;

struct Place {
  std::string path;
  std::uint32_t line;
  std::string table;  ///< "[roles.store] ", or empty.
  std::string text() const { return path + ":" + std::to_string(line) + ": " + table; }
};

tl::unexpected<Error> refuse(const Place& at, const std::string& why) {
  return fail(ErrorCode::parse_error, at.text() + why);
}

/// "--procs: takes ..." -> "procs: takes ...": a file has no dashes.
std::string without_dashes(const std::string& text) {
  return text.starts_with("--") ? text.substr(2) : text;
}

/// Reads words as a command line. With `is_alone`, what other options are needed or excluded is not
/// looked at. Errors: parse_error, without a place.
Result<void> read_words(const Declare& declare, std::vector<std::string> words, bool is_alone) {
  CLI::App app;
  app.set_help_flag();
  declare(app);
  std::reverse(words.begin(), words.end());
  try {
    app.parse(std::move(words));
  } catch (const CLI::RequiresError& error) {
    if (!is_alone) return fail(ErrorCode::parse_error, without_dashes(error.what()));
  } catch (const CLI::ParseError& error) {
    return fail(ErrorCode::parse_error, without_dashes(option_error(error.what())));
  }
  return {};
}

/// Whether a table takes that key, or what was meant instead.
Result<void> check_key(const JobFileEntry& entry, const CLI::App& app, const CLI::App& other,
                       const std::string& of_other, std::vector<std::string> more,
                       const Place& at) {
  const std::string flag = "--" + entry.key;
  if (app.get_option_no_throw(flag) != nullptr) return {};
  if (other.get_option_no_throw(flag) != nullptr)
    return refuse(at, entry.key + " is a key of " + of_other);
  for (const auto& name : flags_of(app)) more.push_back(without_dashes(name));
  const auto near = did_you_mean(entry.key, more);
  return refuse(at, "there is no key '" + entry.key + "'" +
                        (near.empty() ? "; keys are the flags of meshbus run, without dashes"
                                      : "; did you mean '" + std::string(near) + "'?"));
}

/// The line of the first key that the words of an error name, as `gang requires --restart` does;
/// `otherwise` when they name none.
std::uint32_t line_of_error(const std::string& words, const std::vector<JobFileEntry>& entries,
                            std::uint32_t otherwise) {
  std::istringstream text(words);
  for (std::string word; text >> word;) {
    while (!word.empty() && std::string_view(",.:;'").find(word.back()) != std::string_view::npos)
      word.pop_back();
    for (const auto& entry : entries) {
      if (without_dashes(word) == entry.key) return entry.line;
    }
  }
  return otherwise;
}

/// Checks the settings of the file: only the reader of settings knows what is wrong with one.
Result<void> check_settings(const JobFileEntry& entry, const Place& at) {
  constexpr std::string_view kFront = "--set=";
  // What others have set wrongly is not the file's fault.
  if (entry.key != "set" || !load_config({})) return {};
  for (const auto& word : entry.words) {
    if (!word.starts_with(kFront)) continue;
    if (const auto config = load_config({word.substr(kFront.size())}); !config)
      return refuse(at, config.error().detail());
  }
  return {};
}

/// Checks each entry for itself, so that an error has its line, then reads them together.
Result<void> read_table(const std::vector<JobFileEntry>& entries, const Declare& declare,
                        const Declare& scratch, const CLI::App& other, const std::string& of_other,
                        const std::vector<std::string>& more, Place at) {
  CLI::App app;
  app.set_help_flag();
  scratch(app);
  std::vector<std::string> words;
  for (const auto& entry : entries) {
    const Place here{at.path, entry.line, at.table};
    if (auto known = check_key(entry, app, other, of_other, more, here); !known) return known;
    if (auto fine = read_words(scratch, entry.words, /*is_alone=*/true); !fine)
      return refuse(here, fine.error().detail());
    if (auto fine = check_settings(entry, here); !fine) return fine;
    words.insert(words.end(), entry.words.begin(), entry.words.end());
  }
  if (auto fine = read_words(declare, std::move(words), /*is_alone=*/false); !fine) {
    const auto& why = fine.error().detail();
    at.line = line_of_error(why, entries, at.line);
    return refuse(at, why);
  }
  return {};
}

Result<void> add_variables(const std::vector<JobFileVariable>& variables, Place at,
                           RoleArguments& role) {
  for (const auto& [name, value, line] : variables) {
    at.line = line;
    if (!is_variable_name(name))
      return refuse(at, "env: '" + name +
                            "' cannot be the name of a variable: it is made of letters, digits "
                            "and _, and does not begin with a digit");
    const char* const own = value ? nullptr : std::getenv(name.c_str());
    if (!value && own == nullptr)
      return refuse(at, "env: " + name + " is not set here: give it a value instead of true");
    role.ranks.environment.emplace_back(name, value ? *value : own);
  }
  return {};
}

void declare_role(CLI::App& app, RoleArguments& role) {
  add_hosts(app, role.said, "", "");
  add_role_options(app, role);
}

/// Flags of the command line that are for one program.
Result<void> check_flags(const CLI::App& verb, const CLI::App& of_job, const std::string& path) {
  for (const auto* option : verb.get_options()) {
    const bool is_own = option->check_name("--job") || option->check_name("--help");
    if (option->count() == 0 || is_own) continue;
    if (of_job.get_option_no_throw(option->get_name()) != nullptr) continue;
    return fail(ErrorCode::parse_error,
                option->get_name() + " is for one program, and with --job the programs are in " +
                    path + ": write it there");
  }
  return {};
}

bool is_said(const CLI::App& verb, const std::string& flag) {
  const auto* const option = verb.get_option_no_throw(flag);
  return option != nullptr && option->count() > 0;
}

}  // namespace

Result<void> apply_job_file(const JobFile& file, const CLI::App& verb, RunArguments& run) {
  RunArguments unused_run;
  RoleArguments unused_role;
  CLI::App of_job;
  CLI::App of_role;
  add_job_options(of_job, unused_run);
  declare_role(of_role, unused_role);
  if (auto fine = check_flags(verb, of_job, file.path); !fine) return fine;

  const bool has_hosts = std::any_of(kHostFlags.begin(), kHostFlags.end(),
                                     [&](const char* flag) { return is_said(verb, flag); });
  std::vector<JobFileEntry> entries;
  for (const auto& entry : file.entries) {
    const std::string flag = "--" + entry.key;
    const bool is_hosts = std::find(kHostFlags.begin(), kHostFlags.end(), flag) != kHostFlags.end();
    // Settings add up: those of the command line stand behind, and the last one of a key counts.
    const bool is_added = entry.key == "set";
    if (is_added || (!is_said(verb, flag) && !(is_hosts && has_hosts))) entries.push_back(entry);
  }
  const auto said_settings = std::exchange(run.settings, {});
  if (auto read = read_table(
          entries, [&run](CLI::App& app) { add_job_options(app, run); },
          [&unused_run](CLI::App& app) { add_job_options(app, unused_run); }, of_role,
          "a role: write it behind [roles.NAME]", {"env", "roles"}, {file.path, 1, ""});
      !read)
    return read;
  run.settings.insert(run.settings.end(), said_settings.begin(), said_settings.end());

  run.roles.clear();
  run.has_roles = true;
  for (const auto& one : file.roles) {
    RoleArguments role;
    const Place at{file.path, one.line, "[roles." + one.name + "] "};
    role.name = one.name;
    role.source = at.path + ":" + std::to_string(one.line) + ": [roles." + one.name + "]";
    role.command = one.command;
    if (const auto problem = name_problem("the name", one.name); !problem.empty())
      return refuse(at, problem);
    if (auto read = read_table(
            one.entries, [&role](CLI::App& app) { declare_role(app, role); },
            [&unused_role](CLI::App& app) { declare_role(app, unused_role); }, of_job,
            "the whole job: write it in front of the first [roles.NAME]",
            {"command", "shell", "env"}, at);
        !read)
      return read;
    if (auto added = add_variables(file.environment, {file.path, 1, ""}, role); !added)
      return added;
    if (auto added = add_variables(one.environment, at, role); !added) return added;
    run.roles.push_back(std::move(role));
  }
  return {};
}

}  // namespace meshbus::cli
