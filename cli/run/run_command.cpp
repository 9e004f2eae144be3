#include "cli/run/run_command.h"

#include <fcntl.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "agent/os/cgroup_placement.h"
#include "cli/run/run_hosts.h"
#include "cli/run/run_job.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/name_problem.h"
#include "cli/support/text_error.h"
#include "common/base/unique_fd.h"

namespace meshbus::cli {
namespace {

constexpr const char* kOutputGroup = "Input and output";
constexpr const char* kHostGroup = "Hosts";

const Help kHelp = {
    .meaning = "Run a command as a mesh of procs, show its output, and say how it ended",
    .examples = {"run -n 4 -- sh -c 'echo rank $RANK of $WORLD_SIZE'",
                 "run --hosts 2 --per-host gpu=4 -- ./train.sh",
                 "run --hosts ssh:node[1-4] -n 16 --restart on-failure:3 -- ./train.sh",
                 "run --hosts ssh:node[1-10] --use 8 --per-host gpu=8 -- ./train.sh",
                 "run --mpi --hosts ssh:node[1-4] -n 16 -- ./simulation"},
    .details =
        "The command comes last, after --. Each rank gets RANK, LOCAL_RANK, WORLD_SIZE, NODE_RANK, "
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

/// Empty, or what is wrong with the value of --stdin.
std::string input_problem(const std::string& word) {
  const bool is_number =
      !word.empty() && word.size() < 10 &&
      std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  return is_number || word == "all" || word == "none"
             ? std::string()
             : "takes a rank, all or none, not '" + word + "'";
}

void add_output(CLI::App& verb, RunArguments& run) {
  const auto grouped = [](CLI::Option* option) { option->group(kOutputGroup); };
  grouped(verb.add_flag(
      "--no-prefix", run.no_prefix,
      "Show output as it is, without [NAME/RANK host=0,proc=1] in front of each line"));
  grouped(verb.add_option("--stdin", run.input, "Who reads stdin: a rank (default 0), all, or none")
              ->check(input_problem)
              ->type_name("RANK|all|none"));
  grouped(verb.add_option("--json", run.json,
                          "Write a report of all ranks to this file ('-' is stdout)")
              ->type_name("FILE"));
  grouped(verb.add_flag("--report", run.report,
                        "At the end, say how long the stages of the launch took, and which ranks "
                        "were slowest"));
  grouped(verb.add_option("--trace", run.trace,
                          "Write the launch as a trace for Perfetto or chrome://tracing")
              ->type_name("FILE"));
}

}  // namespace

void add_run(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<RunArguments>();
  auto& verb = commands.add(app, "run", kHelp, [arguments, &commands] {
    return run_command(*arguments, commands.command());
  });
  commands.takes_command(verb);
  verb.prefix_command();
  add_hosts(verb, arguments->said,
            "N hosts started on this machine (default 1), addresses of running hosts, "
            "tcp:h[1-4]:7420, or machines to start hosts on, ssh:h[1-4]; default: MESHBUS_HOSTS, "
            "else the nodes of this Slurm job, else the context in use",
            "N|ADDRESS,...|ssh:MACHINE,...");
  verb.add_option("--remote-program", arguments->remote_program,
                  "Where meshbus is on other machines; default: found in PATH there")
      ->type_name("PATH")
      ->group(kHostGroup);
  verb.add_option("--containment", arguments->containment,
                  "For hosts started here: auto, cgroup (v2), pidns (a pid namespace), sweep")
      ->check(CLI::IsMember({"auto", "cgroup", "pidns", "sweep"}))
      ->type_name("HOW")
      ->group(kHostGroup);
  verb.add_option("--use", arguments->use,
                  "Run on N of the hosts; the others are spares. When a host is lost, the job "
                  "starts again with a spare in its place")
      ->check(CLI::Range(1, 1024))
      ->type_name("N")
      ->group(kHostGroup);
  verb.add_option("--min-hosts", arguments->min_hosts,
                  "When a host is lost and no spare is left, start again on the hosts that are, if "
                  "they are N at least")
      ->check(CLI::Range(1, 1024))
      ->type_name("N")
      ->group(kHostGroup);
  verb.add_flag("--preflight", arguments->preflight,
                "Examine the hosts first, as meshbus doctor does. A host with an error is left out "
                "where there are spares; otherwise nothing is started, and the exit code is 125")
      ->group(kHostGroup);
  add_rank_options(verb, arguments->ranks);
  verb.add_option("--name", arguments->name, "Name of the mesh; default: that of the program");
  add_duration(verb, "--timeout", arguments->timeout,
               "Stop the ranks when they have run for this long, and exit with 124");
  add_duration(verb, "--stall-after", arguments->stall_after,
               "Say where the ranks are (see meshbus stacks) when none has written anything, used "
               "CPU time or told of progress (see meshbus progress) for this long");
  verb.add_flag("--stall-stop", arguments->stall_stop,
                "With --stall-after: stop them then, and exit with 124")
      ->needs("--stall-after");
  verb.add_flag(
          "--mpi{auto}", arguments->mpi,
          "The ranks are one MPI job, unmodified: auto (default; by what the program is linked "
          "with), pmi1 (MPICH and its kin), pmix (Open MPI); none = they are not, although the "
          "program is linked with MPI")
      ->check(CLI::IsMember({"auto", "pmi1", "pmix", "none"}));
  verb.add_flag("--torch", arguments->torch,
                "The ranks are a PyTorch job: they find what torchrun sets (see meshbus torchrun)");
  verb.add_flag("--keep-going", arguments->keep_going, "Let the other ranks go on when one fails");
  verb.add_option("--set", arguments->settings, "A setting; may be given again")
      ->type_name("KEY=VALUE");
  add_restart(verb, arguments->restart);
  add_output(verb, *arguments);
}

int run_command(RunArguments& arguments, const std::vector<std::string>& command) {
  arguments.command = command;
  if (command.empty()) {
    complain("run what? Give a command: meshbus run -n 4 -- COMMAND ARGUMENTS...");
    return kUsage;
  }
  if (arguments.name) {
    if (const auto problem = name_problem("--name", *arguments.name); !problem.empty()) {
      complain(problem);
      return kUsage;
    }
  }
  for (const auto& [flag, path] :
       {std::pair("--json", arguments.json), std::pair("--trace", arguments.trace)}) {
    if (const int error = write_problem(path); error != 0) {
      complain(std::string(flag) + " " + path + " cannot be written: " + std::strerror(error));
      return kUsage;
    }
  }
  if (const auto code = choose_run_hosts(arguments)) return *code;
  // cgroup v2 limits nothing beside us: a host that we start could not move us out of its way.
  const auto& limits = arguments.ranks.settings;
  std::optional<os::RolesLeafScope> aside;
  if (arguments.from == RunArguments::From::here)
    aside.emplace(limits.memory_limit || limits.pids_limit || limits.cpu_limit);
  return run_job(arguments);
}

}  // namespace meshbus::cli
