// Benchmarks ready and stop: many procs that stay, from the order to the last one's Ready, and to
// the last one's end.
#include <stdlib.h>
#include <sys/mman.h>

#include <stdexcept>

#include "bench/casts.h"
#include "bench/child.h"
#include "bench/measured.h"
#include "meshbus/client.h"
#include "tests/bench/benches.h"

namespace meshbus::bench {

namespace {

using Direction = Bar::Direction;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr std::chrono::seconds kProcsLimit{120};
constexpr std::size_t kBallast = std::size_t{1} << 30;

/// A launcher with hosts of its own.
class OwnHosts {
 public:
  explicit OwnHosts(std::size_t count)
      : environment_(::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1)),
        context_(must(Context::create())),
        hosts_(
            must(HostMesh::process(context_, must(Extent::parse("host=" + std::to_string(count))),
                                   {.program = own_folder() + "meshbus"}))) {}
  /// `ranks` on all hosts together.
  ProcMesh spawn(std::size_t ranks, std::vector<std::string> command, ProcKind kind) {
    return must(hosts_.spawn_n(
        "crowd", ranks, {.kind = kind, .command = std::move(command), .ready_limit = kProcsLimit},
        {.on_failure = [](const RankReport&) {}}));
  }
  Context& context() { return context_; }
  void end() { must(hosts_.shutdown(kProcsLimit)); }

 private:
  SocketFolder folder_;
  int environment_;
  Context context_;
  HostMesh hosts_;
};

double since(Clock::time_point start) {
  return Milliseconds(Clock::now() - start).count();
}

Figures mesh_procs(std::size_t procs, std::size_t hosts) {
  OwnHosts own(hosts);
  const auto start = Clock::now();
  auto mesh = own.spawn(procs, {own_folder() + "echo_proc"}, ProcKind::mesh);
  const double took = since(start);
  must(mesh.stop({.reason = "measured", .grace = std::chrono::milliseconds(0)}));
  own.end();
  return {{"ms", took}, {"us_per_proc", took * 1000 / static_cast<double>(procs)}};
}

Figures cast_once(std::size_t procs, std::size_t hosts, std::size_t count) {
  OwnHosts own(hosts);
  auto mesh = own.spawn(procs, {own_folder() + "meshbus", "bench", "member"}, ProcKind::mesh);
  const auto figures = cast_to(own.context(), mesh.ref(), 64, count);
  must(mesh.stop({.reason = "measured", .grace = std::chrono::milliseconds(0)}));
  own.end();
  return {{"ms", figures.p50_us / 1000},
          {"p99_ms", figures.p99_us / 1000},
          {"us_per_proc", figures.p50_us / static_cast<double>(procs)}};
}

Figures reduced_once(std::size_t procs, std::size_t count) {
  OwnHosts own(1);
  auto mesh = own.spawn(procs, {own_folder() + "meshbus", "bench", "member"}, ProcKind::mesh);
  auto actors = must(mesh.spawn_actors(kCastActor, "members", ""));
  const auto figures = cast_and_reduce(actors.all(), 64, count);
  must(actors.stop());
  must(mesh.stop({.reason = "measured", .grace = std::chrono::milliseconds(0)}));
  own.end();
  return {{"ms", figures.p50_us / 1000},
          {"p99_ms", figures.p99_us / 1000},
          {"us_per_proc", figures.p50_us / static_cast<double>(procs)}};
}

Figures floor_casts(std::size_t procs, std::size_t count) {
  Child floor({own_folder() + "meshbus-floor-hello", std::to_string(procs), std::to_string(count)});
  floor.read_line();
  const double took = std::stod(floor.read_line());
  return {{"ms", took}, {"us_per_proc", took * 1000 / static_cast<double>(procs)}};
}

Figures stopped(std::size_t procs) {
  OwnHosts own(1);
  auto mesh = own.spawn(procs, {"/bin/sleep", "1000"}, ProcKind::plain);
  const auto start = Clock::now();
  must(mesh.stop({.reason = "measured", .deadline = kProcsLimit}));
  const double took = since(start);
  own.end();
  return {{"ms", took}, {"us_per_proc", took * 1000 / static_cast<double>(procs)}};
}

/// `ballast` bytes are in this process's memory meanwhile.
Figures launched(std::size_t procs, std::size_t ballast) {
  void* memory = ballast == 0 ? nullptr
                              : ::mmap(nullptr, ballast, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory for a large launcher");
  const auto start = Clock::now();
  OwnHosts own(1);
  const double hosts = since(start);
  auto mesh = own.spawn(procs, {"/bin/true"}, ProcKind::plain);
  must(mesh.wait(kProcsLimit));
  const double took = since(start);
  own.end();
  if (memory != nullptr) ::munmap(memory, ballast);
  return {{"ms", took - hosts}, {"with_host_ms", took}};
}

Figures floor_says(const std::vector<std::string>& argv, double procs) {
  Child floor(argv);
  const double took = std::stod(floor.read_line());
  return {{"ms", took}, {"us_per_proc", took * 1000 / procs}};
}

Figures said_hello(std::size_t procs) {
  return floor_says({own_folder() + "meshbus-floor-hello", std::to_string(procs)},
                    static_cast<double>(procs));
}

}  // namespace

int run_ready(const Settings& settings, const Amounts& amounts) {
  Comparison comparison("ready", "N mesh procs on one host, from the order to the last one's Ready",
                        settings);
  for (const std::size_t procs : amounts.sizes) {
    Bar to_floor{"ms", "spawn", "hello"};
    if (procs == 1000) to_floor.first = 1.4;
    comparison.add({.size = static_cast<double>(procs),
                    .unit = "procs",
                    .sides = {{"hello", Part::floor,
                               "children with one DEALER each say hello to a bare ROUTER",
                               [=] { return said_hello(procs); }},
                              {"spawn", Part::ours, "ranks of a program that calls bootstrap()",
                               [=] { return mesh_procs(procs, 1); }}},
                    .bars = {to_floor}});
  }
  // 250 ms, and 80, on a machine where 48 of 1000 children that say hello take 63.
  comparison.add(
      {.size = 48,
       .unit = "procs",
       .sides = {{"hello", Part::floor, "48 such children", [] { return said_hello(48); }},
                 {"two hosts", Part::ours, "24 such ranks on each of two hosts of this machine",
                  [] { return mesh_procs(48, 2); }}},
       .bars = {{"ms", "two hosts", "hello", Direction::at_most, 250. / 63, 80. / 63}}});
  comparison.fit("ms");
  return comparison.run();
}

int run_cast(const Settings& settings, const Amounts& amounts) {
  Comparison comparison(
      "cast", "64 B to every rank of a mesh of real procs, until all have answered", settings);
  const std::size_t count = amounts.count;
  for (const std::size_t procs : amounts.sizes) {
    Bar to_floor{"ms", "cast", "children"};
    if (procs == 1000) to_floor.first = 1.3, to_floor.aim = 0.7;
    comparison.add(
        {.size = static_cast<double>(procs),
         .unit = "procs",
         .sides = {{"children", Part::floor,
                    "children with one DEALER each, sent to and heard one by one by a bare ROUTER",
                    [=] { return floor_casts(procs, count); }},
                   {"cast", Part::ours, "a call to the mesh from its launcher",
                    [=] { return cast_once(procs, 1, count); }},
                   {"two hosts", Part::ours,
                    "the same, half of them on each of two hosts of this machine",
                    [=] { return cast_once(procs, 2, count); }},
                   {"reduced", Part::ours,
                    "to an actor in each, whose answers are added up at the host",
                    [=] { return reduced_once(procs, count); }}},
         .bars = {to_floor, {"ms", "reduced", "cast", Direction::at_most, 1.5, 1.0}}});
  }
  comparison.fit("ms");
  return comparison.run();
}

int run_stop(const Settings& settings, const Amounts& amounts) {
  Comparison comparison("stop", "N sleeping procs get SIGTERM, to the last one's end", settings);
  for (const std::size_t procs : amounts.sizes) {
    comparison.add(
        {.size = static_cast<double>(procs),
         .unit = "procs",
         .sides = {{"kill", Part::floor, "their parent kills and reaps them, by pidfd and epoll",
                    [=] {
                      return floor_says({own_folder() + "meshbus-floor-notice",
                                         std::to_string(procs), "0", "all"},
                                        static_cast<double>(procs));
                    }},
                   {"stop", Part::ours, "ProcMesh::stop(), to its return",
                    [=] { return stopped(procs); }}},
         .bars = {{"ms", "stop", "kill", Direction::at_most, 3, 1.5}}});
  }
  comparison.fit("ms");
  return comparison.run();
}

int run_ballast(const Settings& settings, const Amounts& amounts) {
  Comparison comparison("ballast", "N times /bin/true from a launcher that has 1 GiB in memory",
                        settings);
  comparison.note("with_host_ms: the start of the host by this launcher is in it");
  for (const std::size_t procs : amounts.sizes) {
    comparison.add(
        {.size = static_cast<double>(procs),
         .unit = "procs",
         .sides = {{"small", Part::floor, "a small launcher", [=] { return launched(procs, 0); }},
                   {"1 GiB", Part::ours, "a launcher of 1 GiB",
                    [=] { return launched(procs, kBallast); }}},
         .bars = {{"ms", "1 GiB", "small", Direction::at_most, 1.2, 1.05},
                  {"with_host_ms", "1 GiB", "small", Direction::at_most, 1.2, 1.05}}});
  }
  return comparison.run();
}

}  // namespace meshbus::bench
