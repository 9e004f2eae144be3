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
    Hint{" np ntasks nprocs ", "-n N, the ranks in all"},
    Hint{" nproc-per-node ntasks-per-node npernode ppn tasks-per-node ranks-per-node ",
         "--per-host proc=N, the ranks on each host"},
    Hint{" N nnodes nodes num-nodes ",
         "--hosts N for hosts on this machine, --hosts tcp:h1:7420,... for running hosts, or "
         "--hosts "
         "ssh:h1,h2 for machines to start them on"},
    Hint{" H host hosts nodelist w ", "--hosts ADDRESS,..."},
    Hint{" hostfile machinefile f ", "--hostfile FILE"},
    Hint{" wdir wd chdir D ", "the directory in the command: -- sh -c 'cd DIR && exec COMMAND'"},
    Hint{" env genv export ", "-x NAME or -x NAME=VALUE, once for each variable"},
    Hint{" max-restarts ", "--restart on-failure:N"},
    Hint{" time t ", "--timeout 10m"},
    Hint{" job-name J ", "--name NAME"},
    Hint{" cpus-per-task c ", "--cpus N"},
    Hint{" bind-to cpu-bind map-by ", "--cpu-set LIST"},
    Hint{" mem mem-per-cpu ", "--memory BYTES"},
    Hint{" tag-output tag prefix l label ", "no such flag: each line has its rank in front"},
    Hint{" oversubscribe allow-run-as-root ", "no such flag, and needs none"},
    Hint{" standalone rdzv-backend rdzv-endpoint rdzv-id rdzv-conf master-addr master-port "
         "node-rank ",
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
