#include "cli/run/job_options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <string>

#include "cli/support/command.h"

namespace meshbus::cli {
namespace {

constexpr const char* kOutputGroup = "Input and output";
constexpr const char* kHostGroup = "Hosts";

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
  grouped(verb.add_option("--stdin", run.input,
                          "Who reads stdin: a rank of the first program (default 0), all, or none")
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

void add_run_hosts(CLI::App& verb, RunArguments& run) {
  add_hosts(verb, run.said,
            "N hosts started on this machine (default 1), addresses of running hosts, "
            "tcp:h[1-4]:7420, or machines to start hosts on, ssh:h[1-4]; default: MESHBUS_HOSTS, "
            "else the nodes of this Slurm job, else the context in use",
            "N|ADDRESS,...|ssh:MACHINE,...");
  verb.add_option("--remote-program", run.remote_program,
                  "Where meshbus is on other machines; default: found in PATH there")
      ->type_name("PATH")
      ->group(kHostGroup);
  verb.add_option("--containment", run.containment,
                  "For hosts started here: auto, cgroup (v2), pidns (a pid namespace), sweep")
      ->check(CLI::IsMember({"auto", "cgroup", "pidns", "sweep"}))
      ->type_name("HOW")
      ->group(kHostGroup);
  verb.add_option("--use", run.use,
                  "Run on N of the hosts; the others are spares. When a host is lost, or "
                  "drained with --hold, the job starts again with a spare in its place; with "
                  "--restart and --gang one only the ranks of a lost host do, and others run on")
      ->check(CLI::Range(1, 1024))
      ->type_name("N")
      ->group(kHostGroup);
  verb.add_option("--min-hosts", run.min_hosts,
                  "When a host is lost and no spare is left, start again on the hosts that are, if "
                  "they are N at least")
      ->check(CLI::Range(1, 1024))
      ->type_name("N")
      ->group(kHostGroup);
  add_duration(verb, "--wait-hosts", run.wait_hosts,
               "Wait so long for hosts that do not answer yet. With --use or --min-hosts that is "
               "done before each attempt, also for lost hosts that come back, until there are as "
               "many hosts as --use says; then fewer will do, if --min-hosts says so")
      ->group(kHostGroup);
  verb.add_flag("--preflight", run.preflight,
                "Examine the hosts first, as meshbus doctor does. A host with an error is left out "
                "where there are spares; otherwise nothing is started, and the exit code is 125")
      ->group(kHostGroup);
}

}  // namespace

void add_job_options(CLI::App& verb, RunArguments& run) {
  add_run_hosts(verb, run);
  add_duration(verb, "--timeout", run.timeout,
               "Stop the ranks when they have run for this long, and exit with 124");
  add_duration(verb, "--stall-after", run.stall_after,
               "Say where the ranks are (see meshbus stacks) when none has written anything, used "
               "CPU time or told of progress (see meshbus progress) for this long");
  verb.add_flag("--stall-stop", run.stall_stop,
                "With --stall-after: stop them then, and exit with 124")
      ->needs("--stall-after");
  verb.add_option("--set", run.settings, "A setting; may be given again")->type_name("KEY=VALUE");
  add_output(verb, run);
}

}  // namespace meshbus::cli
