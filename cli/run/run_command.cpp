#include "cli/run/run_command.h"

#include <fcntl.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/os/cgroup_placement.h"
#include "cli/run/job_file.h"
#include "cli/run/job_file_options.h"
#include "cli/run/job_options.h"
#include "cli/run/job_order.h"
#include "cli/run/job_plan.h"
#include "cli/run/programs.h"
#include "cli/run/role_options.h"
#include "cli/run/run_hosts.h"
#include "cli/run/run_job.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/name_problem.h"
#include "cli/support/option_error.h"
#include "cli/support/text_error.h"
#include "common/base/did_you_mean.h"
#include "common/base/unique_fd.h"

namespace meshbus::cli {
namespace {

const Help kHelp = {
    .meaning = "Run a command as a mesh of procs, show its output, and say how it ended",
    .examples = {"run -n 4 -- sh -c 'echo rank $RANK of $WORLD_SIZE'",
                 "run --hosts 2 --per-host gpu=4 -- ./train.sh",
                 "run --hosts ssh:node[1-4] -n 16 --restart on-failure:3 -- ./train.sh",
                 "run --hosts ssh:node[1-10] --use 8 --per-host gpu=8 -- ./train.sh",
                 "run --mpi --hosts ssh:node[1-4] -n 16 -- ./simulation",
                 "run --hosts 2 -n 2 -- ./train : --per-host n=4 -- ./rollout",
                 "run --job rl.toml"},
    .details =
        "The command comes last, after --. Behind a : another program begins, with flags of its "
        "own "
        "and --; all of them are one job, and find each other by MESHBUS_ROLE_<NAME>. Each rank "
        "gets RANK, LOCAL_RANK, WORLD_SIZE, NODE_RANK, "
        "MASTER_ADDR, MASTER_PORT, MESHBUS_RANK_<AXIS>, MESHBUS_SIZE_<AXIS>, MESHBUS_RESTARTS, "
        "MESHBUS_JOB_ATTEMPT and MESHBUS_PROGRESS. "
        "When a rank fails, the others are stopped and the first failure is named. With --restart "
        "that is the first failure that is not answered by a restart; the others are reported as "
        "they happen.",
    .exit_codes =
        "0; the exit code of the first rank that fails, or 128 + its signal; "
        "123 a host was lost, and ranks of the job with it; "
        "124 --timeout ran out, or --stall-stop; 126 the command cannot be executed; 127 it was "
        "not found; "
        "130 Ctrl-C; 141 nobody reads the output; 143 SIGTERM, or another command stopped "
        "the ranks"};

/// Why a file cannot be written at the end of the run; 0 = it can, or is none. Leaves what is in
/// it.
int write_problem(const std::string& path) {
  if (path.empty() || path == "-") return 0;
  const UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0666));
  // A pipe whose reader comes later is fine.
  return fd || errno == ENXIO ? 0 : errno;
}

/// Reads the options of a program that is not the first one.
Result<void> read_options(const ProgramWords& program, RoleArguments& role) {
  CLI::App app;
  app.set_help_flag();
  add_hosts(app, role.said, "", "");
  add_role_options(app, role);
  add_role_name(app, role);
  RunArguments of_job;
  CLI::App job;
  job.set_help_flag();
  add_job_options(job, of_job);
  if (const auto flag = unknown_flag(app, program.options); !flag.empty()) {
    if (job.get_option_no_throw(flag) != nullptr)
      return fail(ErrorCode::parse_error,
                  flag + " is for the whole job: give it in front of the first program");
    const auto flags = flags_of(app);
    const auto near = did_you_mean(flag, flags);
    return fail(ErrorCode::parse_error,
                "a program behind ':' has no " + flag +
                    (near.empty() ? "" : "; did you mean " + std::string(near) + "?"));
  }
  try {
    app.parse(std::vector<std::string>(program.options.rbegin(), program.options.rend()));
  } catch (const CLI::ParseError& error) {
    return fail(ErrorCode::parse_error,
                option_error(error.what()) + " (of the program '" + program.command.front() + "')");
  }
  return {};
}

/// The roles of a command line with one or more programs.
Result<void> read_programs(RunArguments& run, const std::vector<std::string>& words) {
  const auto programs = split_programs(words);
  if (!programs) return fail(programs.error());
  run.roles.front().command = programs->front().command;
  for (auto program = programs->begin() + 1; program != programs->end(); ++program) {
    RoleArguments role;
    role.command = program->command;
    if (auto read = read_options(*program, role); !read) return read;
    run.roles.push_back(std::move(role));
  }
  run.has_roles = run.roles.size() > 1;
  for (const auto& role : run.roles) {
    if (role.name.empty()) continue;
    if (auto problem = name_problem("--name", role.name); !problem.empty())
      return fail(ErrorCode::parse_error, std::move(problem));
  }
  return {};
}

int refuse_run(const std::string& why) {
  complain(why);
  return kUsage;
}

bool has_limits(const RoleArguments& role) {
  const auto& limits = role.ranks.settings;
  return limits.memory_limit || limits.pids_limit || limits.cpu_limit;
}

/// Runs what was read.
int run_programs(RunArguments& arguments) {
  if (auto named = name_roles(arguments.roles); !named) return refuse_run(named.error().detail());
  if (const auto order = JobOrder::make(arguments.roles); !order)
    return refuse_run(order.error().detail());
  for (const auto& [flag, path] :
       {std::pair("--json", arguments.json), std::pair("--trace", arguments.trace)}) {
    if (const int error = write_problem(path); error != 0)
      return refuse_run(std::string(flag) + " " + path +
                        " cannot be written: " + std::strerror(error));
  }
  if (arguments.has_roles && !arguments.trace.empty())
    return refuse_run(
        "--trace writes the launch of one program; this job has several: take --report");
  if (const auto code = choose_run_hosts(arguments)) return *code;
  // cgroup v2 limits nothing beside us: a host that we start could not move us out of its way.
  std::optional<os::RolesLeafScope> aside;
  if (arguments.from == RunArguments::From::here)
    aside.emplace(std::any_of(arguments.roles.begin(), arguments.roles.end(), has_limits));
  return run_job(arguments);
}

int run_job_file(const std::string& path, const CLI::App& verb, RunArguments& arguments,
                 const std::vector<std::string>& command) {
  if (!command.empty())
    return refuse_run("with --job the programs are in " + path + ": take '" + command.front() +
                      "' away, or make a role of it there");
  const auto file = read_job_file(path);
  if (!file) return refuse_run(file.error().detail());
  if (auto applied = apply_job_file(*file, verb, arguments); !applied)
    return refuse_run(applied.error().detail());
  return run_programs(arguments);
}

}  // namespace

void add_run(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<RunArguments>();
  const auto file = std::make_shared<std::string>();
  const auto own = std::make_shared<CLI::App*>();
  auto& verb = commands.add(app, "run", kHelp, [arguments, file, own, &commands] {
    return file->empty() ? run_command(*arguments, commands.command())
                         : run_job_file(*file, **own, *arguments, commands.command());
  });
  *own = &verb;
  commands.takes_command(verb);
  verb.prefix_command();
  add_job_options(verb, *arguments);
  verb.add_option(
          "--job", *file,
          "The programs are in this file (TOML), and flags for all of them may be; what the "
          "command line says wins")
      ->type_name("FILE")
      ->group("Several programs");
  add_role_options(verb, arguments->roles.front());
  add_role_name(verb, arguments->roles.front());
}

int run_command(RunArguments& arguments, const std::vector<std::string>& command) {
  if (command.empty())
    return refuse_run("run what? Give a command: meshbus run -n 4 -- COMMAND ARGUMENTS...");
  if (auto read = read_programs(arguments, command); !read)
    return refuse_run(read.error().detail());
  return run_programs(arguments);
}

}  // namespace meshbus::cli
