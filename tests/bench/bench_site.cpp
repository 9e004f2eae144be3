// Benchmark site: thousands of procs that sleep on one or two hosts, seen as a site: the first
// view, then what it costs to go on looking while nothing changes.
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <thread>

#include "bench/child.h"
#include "bench/crowd.h"
#include "bench/measured.h"
#include "meshbus/client.h"
#include "meshbus/site.h"
#include "tests/bench/benches.h"
#include "tests/bench/cockpit.h"

namespace meshbus::bench {

namespace {

using Direction = Bar::Direction;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr std::chrono::seconds kSiteLimit{300};
/// A host takes a third of the files that it may open: 6666 of 20,000.
constexpr std::size_t kMostProcsOfHost = 5000;

std::size_t hosts_for(std::size_t procs) {
  return (procs + kMostProcsOfHost - 1) / kMostProcsOfHost;
}

double own_cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

pid_t parent_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto behind = text.rfind(") ");
  return behind == std::string::npos ? 0 : std::stoi(text.substr(behind + 4));
}

/// The children of wardens: agents, brokers, keepers, and the exporters if there are some.
std::vector<pid_t> roles_of(const std::vector<pid_t>& wardens) {
  std::vector<pid_t> roles;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t pid = std::stoi(name);
    if (std::ranges::find(wardens, parent_of(pid)) != wardens.end()) roles.push_back(pid);
  }
  return roles;
}

double cpu_seconds_of(const std::vector<pid_t>& pids) {
  double sum = 0;
  for (const pid_t pid : pids) sum += std::chrono::duration<double>(cpu_of(pid)).count();
  return sum;
}

double mib_of(const std::vector<pid_t>& pids) {
  double sum = 0;
  for (const pid_t pid : pids) sum += static_cast<double>(memory_of(pid)) / (1U << 20U);
  return sum;
}

/// A site with metrics and a page, with or without those that look at it.
Figures attend(std::size_t procs, std::chrono::milliseconds time, bool is_attended) {
  const SocketFolder folder;
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  Cockpit cockpit(folder.path(), hosts_for(procs));
  auto context = must(Context::create());
  std::vector<HostAddr> addresses;
  for (const auto& address : cockpit.addresses())
    addresses.push_back(must(HostAddr::parse(address)));
  auto hosts = must(HostMesh::attach(context, "site", addresses));
  auto mesh = must(hosts.spawn_n("crowd", procs,
                                 {.command = {"/bin/sleep", "1000"}, .ready_limit = kSiteLimit},
                                 {.on_failure = [](const RankReport&) {}}));
  if (is_attended) cockpit.attach();
  const auto roles = roles_of(cockpit.wardens());
  // Until the host has looked at what each of them uses.
  std::this_thread::sleep_for(time);  // sleep-ok: what is measured follows
  const auto now = [&] {
    return std::array{cpu_seconds_of(roles), cpu_seconds_of({cockpit.controller()}),
                      is_attended ? cpu_seconds_of({cockpit.top()}) : 0};
  };
  const auto before = now();
  const auto start = Clock::now();
  std::this_thread::sleep_for(time);  // sleep-ok: this is measured
  const auto after = now();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const auto permille = [&](std::size_t i) { return 1000 * (after[i] - before[i]) / seconds; };
  Figures figures{{"host_permille", permille(0)},
                  {"host_mib", mib_of(roles)},
                  {"controller_permille", permille(1)},
                  {"controller_mib", mib_of({cockpit.controller()})}};
  if (is_attended) {
    figures["top_permille"] = permille(2);
    figures["top_mib"] = mib_of({cockpit.top()});
  }
  must(mesh.stop(
      {.reason = "measured", .grace = std::chrono::milliseconds(0), .deadline = kSiteLimit}));
  return figures;
}

Figures look(std::size_t procs, std::chrono::milliseconds time, bool is_watched) {
  const SocketFolder folder;
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  auto context = must(Context::create());
  auto hosts = must(
      HostMesh::process(context, must(Extent::parse("host=" + std::to_string(hosts_for(procs)))),
                        {.program = own_folder() + "meshbus"}));
  auto mesh = must(hosts.spawn_n("crowd", procs,
                                 {.command = {"/bin/sleep", "1000"}, .ready_limit = kSiteLimit},
                                 {.on_failure = [](const RankReport&) {}}));
  std::vector<pid_t> wardens;
  for (const auto& host : must(hosts.states()))
    wardens.push_back(parent_of(static_cast<pid_t>(host.pid)));
  const auto roles = roles_of(wardens);
  Figures figures;
  std::optional<Site> site;
  std::uint64_t sequence = 0;
  if (is_watched) {
    const auto start = Clock::now();
    site.emplace(must(Site::watch(context, hosts.hosts())));
    if (!site->settle(kSiteLimit)) throw std::runtime_error("the host has not answered");
    const auto view = site->view();
    figures["first_ms"] = Milliseconds(Clock::now() - start).count();
    if (view.meshes.at(0).ranks.size() != procs) throw std::runtime_error("ranks are missing");
    sequence = view.sequence;
  }
  // Until the host has looked at what each of them uses.
  std::this_thread::sleep_for(time);  // sleep-ok: what is measured follows
  const double own = own_cpu_seconds();
  const double host = cpu_seconds_of(roles);
  const auto start = Clock::now();
  while (Clock::now() - start < time) {
    if (!site) {
      std::this_thread::sleep_for(std::chrono::seconds(1));  // sleep-ok: nothing is to happen
    } else if (site->wait(sequence, std::chrono::seconds(1))) {
      sequence = site->view(sequence).sequence;
    }
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  figures["watcher_permille"] = 1000 * (own_cpu_seconds() - own) / seconds;
  figures["host_permille"] = 1000 * (cpu_seconds_of(roles) - host) / seconds;
  site.reset();
  must(mesh.stop(
      {.reason = "measured", .grace = std::chrono::milliseconds(0), .deadline = kSiteLimit}));
  must(hosts.shutdown(kSiteLimit));
  return figures;
}

}  // namespace

int run_site(const Settings& settings, const Amounts& amounts) {
  Comparison comparison(
      "site",
      "N sleeping procs, at most 5000 a host, as a site: the first view, then CPU while "
      "nothing changes (1000 = all of one)",
      settings);
  comparison.note(
      "watcher: this process, the launcher of these procs; host: agents, brokers, keepers, "
      "exporters");
  const std::chrono::milliseconds time(amounts.duration_ms);
  for (const std::size_t procs : amounts.sizes) {
    comparison.add(
        {.size = static_cast<double>(procs),
         .unit = "procs",
         .sides = {{"watched", Part::ours, "meshbus/site.h, asked once a second",
                    [=] { return look(procs, time, true); }},
                   {"alone", Part::floor, "nobody looks", [=] { return look(procs, time, false); }},
                   {"cockpit", Part::ours, "host and controller, with top, a page and a scraper",
                    [=] { return attend(procs, time, true); }},
                   {"unattended", Part::floor, "the same without these three",
                    [=] { return attend(procs, time, false); }}},
         .bars = {{"first_ms", "watched", "", Direction::at_most, 300, 10},
                  {"watcher_permille", "watched", "", Direction::at_most, 10, 10},
                  {"top_permille", "cockpit", "", Direction::at_most, 20, 20},
                  {"host_permille", "cockpit", "unattended"},
                  {"host_mib", "cockpit", "unattended"},
                  {"controller_mib", "cockpit", "unattended"}}});
  }
  return comparison.run();
}

}  // namespace meshbus::bench
