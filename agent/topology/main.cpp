// meshbus-topology: says which CPUs, NUMA nodes and GPUs this host may use, as JSON. Started by the
// host agent when ranks are to be bound, so that the agent does not link hwloc, and goes on when a
// driver hangs that hwloc asks.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

#include "agent/topology/hwloc_reader.h"

namespace {

constexpr int kExitUsage = 2;
/// Nothing takes longer: then it hangs.
constexpr unsigned kLifetimeSeconds = 20;

int usage() {
  std::fprintf(stderr, "usage: meshbus-topology [--xml FILE | --synthetic DESCRIPTION]\n");
  return kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  ::alarm(kLifetimeSeconds);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  meshbus::topology::Source source;
  if (argc == 3 && std::string_view(argv[1]) == "--xml")
    source.xml = argv[2];
  else if (argc == 3 && std::string_view(argv[1]) == "--synthetic")
    source.synthetic = argv[2];
  else if (argc != 1)
    return usage();
  const auto topology = meshbus::topology::read_topology(source);
  if (!topology) {
    std::fprintf(stderr, "meshbus-topology: %s\n", topology.error().to_string().c_str());
    return 1;
  }
  const auto text = meshbus::topology::to_json(*topology);
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0
             ? 0
             : 1;
}
