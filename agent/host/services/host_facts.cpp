#include "agent/host/services/host_facts.h"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <charconv>
#include <ctime>
#include <fstream>
#include <string_view>
#include <utility>

#include "agent/host/lifecycle/proc_usage.h"
#include "agent/host/model/real_time.h"
#include "common/base/machine_name.h"
#include "common/base/release.h"
#include "wire/lifecycle_generated.h"

namespace meshbus::host {
namespace {

/// When the process began, in nanoseconds since 1970; 0: unknown.
std::int64_t started_ns(pid_t pid) {
  const auto usage = read_usage(pid);
  const auto ticks = ::sysconf(_SC_CLK_TCK);
  if (!usage || ticks <= 0) return 0;
  timespec up{};
  ::clock_gettime(CLOCK_BOOTTIME, &up);
  const auto began = static_cast<std::int64_t>(usage->start_ticks) * (1'000'000'000 / ticks);
  return now_ns() - (up.tv_sec * 1'000'000'000 + up.tv_nsec - began);
}

/// The host is as old as its warden, our parent.
std::int64_t host_started_ns() {
  const auto warden = started_ns(::getppid());
  return warden != 0 ? warden : started_ns(::getpid());
}

/// The v2 cgroup of this process; empty: none.
std::string own_cgroup() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return {};
}

/// Bytes that are free, or can be freed; 0: unknown.
std::uint64_t available_memory() {
  constexpr std::string_view kField = "MemAvailable:";
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kField)) continue;
    const auto begin = line.find_first_not_of(' ', kField.size());
    if (begin == std::string::npos) return 0;
    std::uint64_t kilobytes = 0;
    std::from_chars(line.data() + begin, line.data() + line.size(), kilobytes);
    return kilobytes * 1024;
  }
  return 0;
}

}  // namespace

HostFacts::HostFacts(Bus& bus, MeshProcs& procs, const WardenReport& warden, Options options)
    : bus_(bus),
      procs_(procs),
      warden_(warden),
      options_(std::move(options)),
      started_ns_(host_started_ns()),
      cgroup_(own_cgroup()) {}

wire::HostStateT HostFacts::make() const {
  wire::HostStateT state;
  state.host = options_.host;
  state.version = std::string(this_release());
  state.incarnation = options_.incarnation;
  state.pid = static_cast<std::uint32_t>(::getpid());
  state.containment = options_.containment;
  state.live = procs_.table().live();
  state.node = machine_name();
  state.refused = bus_.refused();
  for (auto& drain : procs_.drains().to_wire())
    state.drains.push_back(std::make_unique<wire::DrainT>(std::move(drain)));
  state.started_ns = started_ns_;
  state.cgroup = cgroup_;
  state.cpus = static_cast<std::uint32_t>(std::max(0L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  struct sysinfo machine{};
  if (::sysinfo(&machine) == 0) {
    state.load = static_cast<std::uint32_t>(machine.loads[0] * 1000 >> SI_LOAD_SHIFT);
    state.memory = static_cast<std::uint64_t>(machine.totalram) * machine.mem_unit;
  }
  state.memory_available = available_memory();
  state.events_end = procs_.events().end();
  warden_.add_to(state);
  return state;
}

}  // namespace meshbus::host
