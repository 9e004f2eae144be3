// Benchmark launch: many short-lived procs on one host.
#include <stdlib.h>

#include <memory>
#include <sstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "bench/child.h"
#include "tests/bench/benches.h"
#include "tests/bench/program.h"

namespace meshbus::bench {

namespace {

using Direction = Bar::Direction;
using Milliseconds = std::chrono::duration<double, std::milli>;
using Microseconds = std::chrono::duration<double, std::micro>;

constexpr double kLoopCpu = 40;  // us a child, where the bars of CPU time were set
constexpr char kProgram[] = "/bin/true";
constexpr std::chrono::seconds kLimit{120};
/// mpirun 4.1.4 sometimes never notices that its children have ended.
constexpr std::chrono::seconds kMpirunLimit{30};

/// A host that is up, with a run directory of its own.
class Host {
 public:
  Host() {
    ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1);
    process_ = std::make_unique<Child>(std::vector<std::string>{own_folder() + "meshbus", "host"});
    const auto ready = nlohmann::json::parse(process_->read_line(), nullptr, false);
    if (!ready.is_object() || !ready.contains("host"))
      throw std::runtime_error("the host did not start");
    address_ = ready["host"];
    containment_ = ready["containment"];
    agent_ = ready["agent_pid"];
    keeper_ = ready["keeper_pid"];
  }
  const std::string& address() const noexcept { return address_; }
  const std::string& containment() const noexcept { return containment_; }
  std::chrono::nanoseconds agent_cpu() const { return cpu_of(agent_); }
  std::chrono::nanoseconds keeper_cpu() const { return cpu_of(keeper_); }

 private:
  SocketFolder folder_;
  std::unique_ptr<Child> process_;
  std::string address_, containment_;
  pid_t agent_ = -1, keeper_ = -1;
};

double run_for(std::vector<std::string> argv) {
  const auto took = time_of(argv, kLimit);
  if (!took) throw std::runtime_error("did not end");
  return Milliseconds(*took).count();
}

/// As users type it; the host is already there.
Figures on_standing_host(std::size_t procs) {
  const Host host;
  const auto agent = host.agent_cpu(), keeper = host.keeper_cpu();
  const double wall = run_for({own_folder() + "meshbus", "run", "--hosts", host.address(), "-n",
                               std::to_string(procs), "--", kProgram});
  const double n = static_cast<double>(procs);
  const double agent_us = Microseconds(host.agent_cpu() - agent).count() / n,
               keeper_us = Microseconds(host.keeper_cpu() - keeper).count() / n;
  return {{"ms", wall},
          {"us_per_proc", wall * 1000 / n},
          {"agent_us", agent_us},
          {"keeper_us", keeper_us},
          {"cpu_us", agent_us + keeper_us}};
}

Figures with_own_host(std::size_t procs) {
  const SocketFolder folder;
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  const double wall =
      run_for({own_folder() + "meshbus", "run", "-n", std::to_string(procs), "--", kProgram});
  return {{"ms", wall}, {"us_per_proc", wall * 1000 / static_cast<double>(procs)}};
}

Figures floor_loop(std::size_t procs, bool in_cgroup) {
  std::vector<std::string> argv = {own_folder() + "meshbus-floor-spawn", std::to_string(procs)};
  if (in_cgroup) argv.emplace_back("cgroup");
  Child loop(argv);
  std::istringstream line(loop.read_line());
  double wall_us = 0, cpu_us = 0;
  if (!(line >> wall_us >> cpu_us))
    throw std::runtime_error("the floor did not say how long it took");
  const double n = static_cast<double>(procs);
  return {{"ms", wall_us / 1000}, {"us_per_proc", wall_us / n}, {"cpu_us", cpu_us / n}};
}

Figures mpirun(const std::string& program, std::size_t procs) {
  const auto took = time_of({program, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
                             "-n", std::to_string(procs), kProgram},
                            kMpirunLimit);
  if (!took) throw TimedOut{"did not end within " + std::to_string(kMpirunLimit.count()) + " s"};
  const double wall = Milliseconds(*took).count();
  return {{"ms", wall}, {"us_per_proc", wall * 1000 / static_cast<double>(procs)}};
}

}  // namespace

int run_launch(const Settings& settings, const Amounts& amounts) {
  Comparison comparison("launch", "N times /bin/true on one host, to the end of the last one",
                        settings);
  const std::string containment = Host().containment();
  const bool is_cgroup = containment.starts_with("cgroup");
  comparison.note("the hosts' containment: " + containment +
                  (is_cgroup ? "; the floor in a cgroup does the same" : ""));
  if (!is_cgroup)
    comparison.leave_out("clone3 in a cgroup", "hosts have containment \"" + containment +
                                                   "\" here, which costs a child nothing");
  const auto mpi = find_in_path("mpirun");
  if (!mpi) comparison.leave_out("mpirun", "it is not installed (package openmpi-bin)");
  comparison.note(
      "cpu_us: of keeper and agent. The bars are 150 and 80 us on a machine where the loop takes "
      "40 (it was measured from 20 to 60)");
  const std::string floor = is_cgroup ? "clone3 in a cgroup" : "clone3";
  for (const std::size_t procs : amounts.sizes) {
    Case one{.size = static_cast<double>(procs), .unit = "procs", .sides = {}, .bars = {}};
    one.sides = {{"clone3", Part::floor, "a loop of clone3, reaped by pidfd",
                  [=] { return floor_loop(procs, false); }},
                 {"run", Part::ours, "meshbus run on a host that is up",
                  [=] { return on_standing_host(procs); }},
                 {"run with its host", Part::ours, "meshbus run that starts and ends its host",
                  [=] { return with_own_host(procs); }}};
    if (is_cgroup)
      one.sides.insert(one.sides.begin() + 1, {floor, Part::floor, "the same, born in a cgroup",
                                               [=] { return floor_loop(procs, true); }});
    if (mpi)
      one.sides.push_back(
          {"mpirun", Part::peer, "mpirun, whole", [=] { return mpirun(*mpi, procs); }});
    Bar to_floor{"ms", "run", floor}, to_mpirun{"ms", "run", "mpirun"}, cpu{"cpu_us", "run", ""},
        cpu_to_floor{"cpu_us", "run", floor};
    if (procs == 1000) {
      to_floor.first = 1.6, to_floor.aim = 1.15, to_mpirun.first = 0.15;
      cpu.first = 150, cpu.aim = 80;
      cpu_to_floor.first = 150 / kLoopCpu, cpu_to_floor.aim = 80 / kLoopCpu;
    }
    one.bars = {to_floor};
    if (is_cgroup) one.bars.push_back({"ms", "run", "clone3"});
    one.bars.insert(one.bars.end(),
                    {to_mpirun, {"ms", "run with its host", "mpirun"}, cpu, cpu_to_floor});
    comparison.add(std::move(one));
  }
  comparison.add(
      {.size = 1,
       .unit = "procs",
       .sides = {{"clone3", Part::floor, "one /bin/true", [] { return floor_loop(1, false); }},
                 {"run with its host", Part::ours, "meshbus run -n 1, whole",
                  [] { return with_own_host(1); }}},
       .bars = {{"ms", "run with its host", "", Direction::at_most, 60, 15}}});
  comparison.fit("ms");
  return comparison.run();
}

}  // namespace meshbus::bench
