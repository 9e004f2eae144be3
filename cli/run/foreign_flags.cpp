#include "cli/run/foreign_flags.h"

#include <algorithm>
#include <array>
#include <string>

namespace meshbus::cli {
namespace {

struct Hint {
  /// Without dashes in front, with '-' for '_', one blank around each.
  std::string_view flags;
  std::string_view words;
};

constexpr std::array kHints = {
    Hint{" np ntasks nprocs proc-num ", "-n N, the ranks in all"},
    Hint{" nproc-per-node ntasks-per-node npernode ppn tasks-per-node ranks-per-node perhost "
         "nproc map-by-ppr ntasks-per-gpu ",
         "--per-host N, the ranks on each host"},
    Hint{" N nnodes nodes num-nodes ",
         "--hosts N for hosts on this machine, --hosts tcp:h1:7420,... for running hosts, or "
         "--hosts "
         "ssh:h1,h2 for machines to start them on"},
    Hint{" H host hosts nodelist w ", "--hosts ADDRESS,..."},
    Hint{" hostfile machinefile f default-hostfile ", "--hostfile FILE"},
    Hint{" wdir wd chdir D workdir ",
         "the directory in the command: -- sh -c 'cd DIR && exec COMMAND'"},
    Hint{" user run-as ", "--uid USER"},
    Hint{" env genv export envlist genvlist ", "-x NAME or -x NAME=VALUE, once for each variable"},
    Hint{" genvall envall get-user-env ",
         "no such flag: ranks on this machine have the launcher's environment; -x NAME elsewhere"},
    Hint{" envnone genvnone ", "a clean environment in the command: -- env -i COMMAND"},
    Hint{" max-restarts ", "--restart on-failure:N"},
    Hint{" time timelimit ", "--timeout 10m"},
    Hint{" job-name J ", "--name NAME"},
    Hint{" cpus-per-task c cpus-per-rank ", "--cpus N"},
    Hint{" bind-to cpu-bind map-by bind-to-core bind-to-socket bycore bysocket rank-by ",
         "--bind core, core:N, numa or gpu"},
    Hint{" cpu-set cpu-list ", "--cpu-set LIST"},
    Hint{" mem-bind membind ", "--bind-memory prefer, only or any"},
    Hint{" report-bindings display-allocation display topo ", "--display-map"},
    Hint{" gpu-bind ", "--bind gpu, and --visible-devices"},
    Hint{" mem mem-per-cpu mem-per-node ", "--memory BYTES"},
    Hint{" input i ", "--stdin none, all or N, the rank that reads stdin"},
    Hint{" tag-output tag prefix l label prepend-rank ",
         "no such flag: each line has its rank in front"},
    Hint{" output o error e output-filename outfile-pattern errfile-pattern log-dir redirects r "
         "tee ",
         "--set logs.directory=DIR, a file for each rank beside the output on this terminal"},
    Hint{" no-kill k continuous ", "--keep-going"},
    Hint{" kill-on-bad-exit K wait ", "no such flag: the failure of one rank ends the job"},
    Hint{" mpi pmi pmix ", "--mpi auto, pmi1, pmix or none"},
    Hint{" no-python m module ", "the whole command: -- python3 -m MODULE ARGUMENTS"},
    Hint{" oversubscribe overcommit O allow-run-as-root unbuffered u quiet exclusive ",
         "no such flag, and needs none"},
    Hint{" partition p account A qos constraint C reservation gres gpus G gpus-per-node "
         "gpus-per-task ",
         "no such flag: ask Slurm for it (salloc, sbatch), and run meshbus inside of that job"},
    Hint{" launcher bootstrap launcher-exec rsh-agent ", "--hosts ssh:h1,h2"},
    Hint{" standalone rdzv-backend rdzv-endpoint rdzv-id rdzv-conf master-addr master-port "
         "node-rank local-addr monitor-interval start-method ",
         "no such flag: each rank gets MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE"}};

}  // namespace

std::string_view hint_for(std::string_view flag) {
  if (!flag.starts_with('-')) return {};
  flag.remove_prefix(std::min(flag.find_first_not_of('-'), flag.size()));
  std::string word(flag.substr(0, flag.find('=')));
  if (word.empty()) return {};
  std::replace(word.begin(), word.end(), '_', '-');
  word = " " + word + " ";
  for (const auto& hint : kHints) {
    if (hint.flags.find(word) != std::string_view::npos) return hint.words;
  }
  return {};
}

}  // namespace meshbus::cli
