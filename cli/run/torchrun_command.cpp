#include "cli/run/torchrun_command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cli/run/run_command.h"
#include "cli/run/run_hosts.h"
#include "cli/run/say.h"
#include "cli/run/torch_job.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/text_error.h"
#include "meshbus/remote_hosts.h"

namespace meshbus::cli {
namespace {

/// torchrun's flags that have no meaning here, and why.
struct Meaningless {
  const char* names;
  const char* why;
};
constexpr auto kMeaningless = std::to_array<Meaningless>({
    {"--rdzv_backend,--rdzv-backend,--rdzv_endpoint,--rdzv-endpoint,--rdzv_id,--rdzv-id,"
     "--rdzv_conf,--rdzv-conf",
     "ranks do not look for each other: one command starts them all"},
    {"--node_rank,--node-rank", "one command starts the ranks of all hosts"},
    {"--master_addr,--master-addr,--master_port,--master-port,--local_addr,--local-addr",
     "the first host and a free port there are taken"},
    {"--monitor_interval,--monitor-interval", "ends are noticed at once"},
    {"--start_method,--start-method", "each rank is a process of its own"},
    {"--role", "all ranks have the role 'default'"},
    {"--local_ranks_filter,--local-ranks-filter,--log_line_prefix_template,"
     "--log-line-prefix-template,--duplicate-stdout-filters,--duplicate-stderr-filters",
     "each line has its rank in front; meshbus logs --rank 0-3 shows some"},
    {"--event_log_handler,--event-log-handler", "meshbus watch and why tell what happens"},
    {"--signals_to_handle,--signals-to-handle", "TERM and INT end the job in order"},
    {"--numa_binding,--numa-binding", "use meshbus run --torch --bind numa"},
    {"--log_dir,--log-dir,-r,--redirects,-t,--tee",
     "output comes here, with its rank in front; --set logs.directory=DIR keeps it"},
});

struct TorchrunArguments {
  RunArguments run;
  std::string nodes;
  std::string ranks_per_node = "1";
  std::uint64_t restarts = 0;
  bool standalone = false;
  bool module = false;
  bool no_python = false;
  std::vector<std::string> notes;
};

int refuse(const std::string& words) {
  complain(words);
  return kUsage;
}

/// The hosts that were found, when they are not as many as asked for.
std::string hosts_problem(const TorchrunArguments& arguments, const TorchNodes& nodes) {
  using From = RunArguments::From;
  const auto& run = arguments.run;
  if (run.from == From::slurm) return {};
  const auto hosts = run.from == From::here ? run.hosts : run.list.words.size();
  if (hosts >= nodes.least && hosts <= nodes.most) return {};
  return "--nnodes=" + arguments.nodes + ", but " + run.list.source + " names " +
         std::to_string(hosts);
}

std::vector<std::string> whole_command(const TorchrunArguments& arguments,
                                       const std::vector<std::string>& words) {
  if (arguments.no_python) return words;
  // As torchrun: unbuffered.
  std::vector<std::string> command = {"python3", "-u"};
  if (arguments.module) command.emplace_back("-m");
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

int run_torchrun(TorchrunArguments& arguments, const std::vector<std::string>& words) {
  if (words.empty()) return refuse("torchrun what? Give a script: meshbus torchrun train.py");
  auto& run = arguments.run;
  const auto nodes = parse_nodes(arguments.nodes.empty() ? "1" : arguments.nodes);
  if (!nodes) return refuse("--nnodes " + nodes.error().detail());
  const auto ranks = parse_ranks_per_node(
      arguments.ranks_per_node, std::max(1U, std::thread::hardware_concurrency()), count_gpus());
  if (!ranks) return refuse("--nproc_per_node " + ranks.error().detail());
  const bool is_said =
      !run.said.is_empty() || std::getenv("MESHBUS_HOSTS") != nullptr || is_in_slurm_job();
  if (arguments.standalone || (!is_said && nodes->most == 1)) run.said.list = "1";
  if (!is_said && nodes->most > 1)
    return refuse("--nnodes=" + arguments.nodes +
                  ": on which machines? This one command starts all of them: --hosts ssh:h1,h2, "
                  "or --hosts " +
                  std::to_string(nodes->most) + " for hosts on this machine");
  if (const auto code = choose_run_hosts(run)) return *code;
  if (!arguments.nodes.empty()) {
    if (auto problem = hosts_problem(arguments, *nodes); !problem.empty()) return refuse(problem);
  }
  auto per_host = Extent::make({{"gpu", *ranks}});
  if (!per_host) return refuse(error_words(per_host.error()));
  run.roles.front().ranks.per_host = std::move(*per_host);
  run.roles.front().torch = true;
  if (arguments.restarts > 0) {
    auto& restart = run.roles.front().restart;
    restart.on = RestartPolicy::On::failure;
    restart.budget = arguments.restarts;
    restart.gang = Gang::all;
  }
  for (const auto& note : arguments.notes) say(note);
  return run_command(run, whole_command(arguments, words));
}

void add_meaningless(CLI::App& verb, TorchrunArguments& arguments) {
  for (const auto& one : kMeaningless) {
    for (const auto& name : CLI::detail::split(one.names, ',')) {
      verb.add_option_function<std::string>(
              name,
              [&arguments, name, why = one.why](const std::string&) {
                arguments.notes.push_back(name + " has no meaning here: " + why);
              },
              "")
          ->group("");
    }
  }
}

}  // namespace

void add_torchrun(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<TorchrunArguments>();
  auto& verb = commands.add(
      app, "torchrun",
      {.meaning = "Run a PyTorch script, with torchrun's command line",
       .examples = {"torchrun --standalone --nproc_per_node=4 train.py --epochs 3",
                    "torchrun --nnodes=2 --nproc_per_node=8 --hosts ssh:h1,h2 train.py"},
       .details =
           "The same as meshbus run --torch with one rank for each --nproc_per_node, --gang all "
           "and "
           "--restart on-failure:N for --max_restarts=N. Scripts find the variables that torchrun "
           "sets. Run it once, not on every machine.",
       .exit_codes = "as meshbus run"},
      [arguments, &commands] { return run_torchrun(*arguments, commands.command()); });
  commands.takes_command(verb);
  verb.prefix_command();
  add_hosts(verb, arguments->run.said,
            "The machines: ssh:h1,h2; addresses of running hosts; or N hosts on this machine",
            "N|ADDRESS,...|ssh:MACHINE,...");
  verb.add_option("--remote-program", arguments->run.remote_program,
                  "Where meshbus is on other machines; default: found in PATH there")
      ->type_name("PATH")
      ->group("Hosts");
  verb.add_option("--nnodes", arguments->nodes, "Hosts; with MIN:MAX as many as --hosts names")
      ->type_name("N|MIN:MAX");
  verb.add_option("--nproc_per_node,--nproc-per-node", arguments->ranks_per_node,
                  "Ranks on each host; default 1")
      ->type_name("N|cpu|gpu|auto");
  verb.add_option("--max_restarts,--max-restarts", arguments->restarts,
                  "Start all ranks again when one fails, at most so often; default 0")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1'000'000}))
      ->type_name("N");
  verb.add_flag("--standalone", arguments->standalone, "One host, on this machine");
  verb.add_flag("-m,--module", arguments->module, "The script is the name of a Python module");
  verb.add_flag("--no_python,--no-python", arguments->no_python,
                "The script is a program of its own");
  add_environment(verb, arguments->run.roles.front().ranks);
  verb.add_option("--set", arguments->run.settings, "A setting; may be given again")
      ->type_name("KEY=VALUE");
  add_meaningless(verb, *arguments);
}

}  // namespace meshbus::cli
