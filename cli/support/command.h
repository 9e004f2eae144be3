#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/support/cli11_types.h"
#include "cli/support/host_list.h"
#include "meshbus/rank_report.h"
#include "meshbus/result.h"

namespace meshbus::cli {

/// What `--help` of a command says beside its options.
struct Help {
  std::string meaning;                ///< One line, in the list of commands too.
  std::vector<std::string> examples;  ///< Command lines without "meshbus " in front.
  std::string details = {};           ///< Paragraphs.
  /// "0 all answered; 1 a host did not". The codes that every command has are added.
  std::string exit_codes = {};
};

/// The commands of meshbus. Each registers itself: `void add_ps(CLI::App&, Commands&)` declares its
/// flags, its help and what runs it. One of them is run at the end.
class Commands {
 public:
  using Run = std::function<int()>;

  /// A command below `parent`. `run` owns the arguments, and returns the exit code.
  CLI::App& add(CLI::App& parent, const std::string& name, const Help& help, Run run);
  /// A command that only has commands below it.
  CLI::App& add_group(CLI::App& parent, const std::string& name, const Help& help);
  /// A command whose own command line, like that of `run`, ends where another one begins: at `--`,
  /// or at the first word that is no flag.
  void takes_command(CLI::App& verb);

  /// Whether the words after `--` of this command line are a command of their own.
  bool has_command(const std::string& verb) const;
  void set_command(std::vector<std::string> words) { command_ = std::move(words); }
  /// Valid when the command is run.
  const std::vector<std::string>& command() const { return command_; }

  /// Runs what the command line chose.
  int run() const { return chosen_(); }

 private:
  Run chosen_;
  std::vector<std::string> command_;
  std::vector<std::string> with_command_;
};

/// The command directly below `app`, or null.
const CLI::App* find_command(const CLI::App& app, const std::string& name);
/// Those below `app` that lists show, in the order in which they were added.
std::vector<const CLI::App*> shown_commands(const CLI::App& app);

/// Which hosts a command is for, and what every such command takes.
struct HostChoice {
  HostsSaid said = {};
  std::chrono::milliseconds timeout{30'000};
  bool is_timeout_given = false;
  bool json = false;
};

/// Which meshes a command is for: one, those of a pattern, or all.
struct MeshChoice {
  /// See selector.h; the mesh may be a pattern (mesh_pattern.h). Empty: not given.
  std::string selector = {};
  bool is_all = false;
  /// --yes: nobody is asked.
  bool is_sure = false;
};

/// --hosts, --hostfile, --context
void add_hosts(CLI::App& verb, HostsSaid& said, const std::string& meaning,
               const std::string& type);
/// The same for running hosts, with --timeout and --json. `choice.timeout` is the default.
void add_host_choice(CLI::App& verb, HostChoice& choice);

/// RANKS, and --all, of a command that looks at meshes.
void add_mesh_choice(CLI::App& verb, MeshChoice& choice, const std::string& meaning);
/// The same with --yes, of a command that acts on them: it takes no default.
void add_mesh_order(CLI::App& verb, MeshChoice& choice, const std::string& meaning);

/// An option that takes a duration with its unit.
CLI::Option* add_duration(CLI::App& verb, const std::string& name,
                          std::function<void(std::chrono::milliseconds)> take,
                          const std::string& meaning);
CLI::Option* add_duration(CLI::App& verb, const std::string& name,
                          std::chrono::milliseconds& target, const std::string& meaning);
CLI::Option* add_duration(CLI::App& verb, const std::string& name,
                          std::optional<std::chrono::milliseconds>& target,
                          const std::string& meaning);
/// --grace, of commands that stop ranks.
CLI::Option* add_grace(CLI::App& verb, std::optional<std::chrono::milliseconds>& grace);

/// An option whose text `take` reads; its error is shown behind the option's name.
CLI::Option* add_text(CLI::App& verb, const std::string& name,
                      std::function<Result<void>(const std::string&)> take,
                      const std::string& meaning, const std::string& type);

/// --rank RANKS
void add_ranks(CLI::App& verb, RankSet& ranks);

}  // namespace meshbus::cli
