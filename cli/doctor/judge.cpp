#include "cli/doctor/judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "cli/doctor/judge_host.h"
#include "cli/doctor/judge_links.h"

namespace meshbus::cli::doctor {
namespace {

using std::chrono::microseconds;

/// Events, logs and exit reports of several hosts are put in order by their times. NTP keeps clocks
/// within some milliseconds.
constexpr microseconds kClockWarning = std::chrono::seconds(1);
/// Keys and join tokens expire by the clock, and file systems compare times of files.
constexpr microseconds kClockError = std::chrono::seconds(60);

std::string seconds_text(microseconds time) {
  const double seconds = std::abs(std::chrono::duration<double>(time).count());
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), seconds < 100 ? "%.1f s" : "%.0f s", seconds);
  return text.data();
}

/// Clocks are compared with the one in the middle, so that one that is wrong does not blame all
/// others; of two nobody knows which one it is.
std::vector<Finding> judge_clocks(const std::vector<HostExam>& hosts) {
  struct Clock {
    std::string host;
    ClockReading reading;
    bool is_synchronised;
  };
  std::vector<Clock> clocks;
  bool has_own = false;
  for (const auto& host : hosts) {
    if (host.clock)
      clocks.push_back({host.host, *host.clock, !host.facts || host.facts->is_clock_synchronised});
    has_own = has_own || host.host == kThisMachine;
  }
  if (!has_own && !clocks.empty()) clocks.push_back({kThisMachine, {}, true});
  if (clocks.size() < 2) return {};
  std::vector<microseconds> sorted;
  for (const auto& clock : clocks) sorted.push_back(clock.reading.ahead);
  std::sort(sorted.begin(), sorted.end());
  const bool is_two = clocks.size() == 2;
  const auto middle = is_two ? microseconds(0) : sorted[sorted.size() / 2];
  std::vector<Finding> findings;
  for (const auto& clock : clocks) {
    const auto ahead = clock.reading.ahead - middle;
    const auto sure = std::chrono::abs(ahead) - clock.reading.error;
    if (sure < kClockWarning) continue;
    findings.push_back({sure < kClockError ? Severity::warning : Severity::error,
                        "clock",
                        {clock.host},
                        "its clock is " + seconds_text(ahead) +
                            (ahead > microseconds(0) ? " ahead of " : " behind ") +
                            (is_two ? "this machine's" : "the others'") +
                            (clock.is_synchronised ? "" : " (nothing keeps it in step)"),
                        "let chrony or systemd-timesyncd keep it in step: see timedatectl"});
  }
  return findings;
}

/// The release of most hosts is the right one.
std::vector<Finding> judge_versions(const std::vector<HostExam>& hosts) {
  std::map<std::string, std::size_t> counts;
  for (const auto& host : hosts) {
    if (!host.version.empty()) ++counts[host.version];
  }
  if (counts.size() < 2) return {};
  const auto usual =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
        return a.second < b.second;
      })->first;
  std::vector<Finding> findings;
  for (const auto& host : hosts) {
    if (host.version.empty() || host.version == usual) continue;
    findings.push_back({Severity::warning,
                        "version",
                        {host.host},
                        "it runs meshbus " + host.version + ", others run " + usual,
                        "install the same release on all hosts"});
  }
  return findings;
}

/// One machine may run several hosts.
bool is_one_machine(const std::vector<HostExam>& hosts) {
  std::set<std::string> nodes;
  for (const auto& host : hosts) {
    if (!host.node.empty()) nodes.insert(host.node);
  }
  return nodes.size() < 2;
}

/// Hosts that have the same finding share it; errors come first.
std::vector<Finding> merged(std::vector<Finding> findings) {
  std::vector<Finding> all;
  for (auto& finding : findings) {
    const auto same = std::find_if(all.begin(), all.end(), [&](const Finding& one) {
      return one.code == finding.code && one.text == finding.text && one.remedy == finding.remedy &&
             one.severity == finding.severity;
    });
    if (same == all.end()) {
      all.push_back(std::move(finding));
    } else {
      same->hosts.insert(same->hosts.end(), finding.hosts.begin(), finding.hosts.end());
    }
  }
  std::stable_partition(all.begin(), all.end(),
                        [](const Finding& one) { return one.severity == Severity::error; });
  return all;
}

}  // namespace

std::vector<Finding> judge(const SiteExam& site) {
  std::vector<Finding> findings;
  const auto add = [&](std::vector<Finding> more) {
    findings.insert(findings.end(), std::make_move_iterator(more.begin()),
                    std::make_move_iterator(more.end()));
  };
  const bool is_alone = is_one_machine(site.hosts);
  for (const auto& host : site.hosts) add(judge_host(host, site.time, is_alone));
  add(judge_versions(site.hosts));
  add(judge_clocks(site.hosts));
  add(judge_links(site));
  return merged(std::move(findings));
}

}  // namespace meshbus::cli::doctor
