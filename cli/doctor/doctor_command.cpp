#include "cli/doctor/doctor_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <utility>
#include <variant>

#include "cli/doctor/doctor_report.h"
#include "cli/doctor/exam_groups.h"
#include "cli/doctor/examine_site.h"
#include "cli/doctor/judge.h"
#include "cli/doctor/probe.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/find_hosts.h"
#include "cli/support/rank_json.h"

namespace meshbus::cli {
namespace {

using namespace doctor;

struct DoctorArguments {
  HostChoice hosts;
  bool only_here = false;
};

int run_doctor(const DoctorArguments& arguments) {
  if (arguments.only_here) be_probe();
  FoundHosts hosts;
  if (!arguments.only_here) {
    auto found = find_hosts(arguments.hosts);
    if (const int* code = std::get_if<int>(&found)) return *code;
    hosts = std::get<FoundHosts>(std::move(found));
  }
  // Hosts that are named may be far away: this machine then only looks.
  const bool looks_here = arguments.only_here || hosts.source.empty();
  const auto site = examine_site(groups_of(hosts), arguments.hosts.timeout, looks_here);
  const auto findings = judge(site);
  if (arguments.hosts.json) {
    std::cout << dump(report_json(site, findings), 2) << "\n";
  } else {
    std::cout << report_text(site, findings);
  }
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.severity == Severity::error; })
             ? kFailed
             : 0;
}

}  // namespace

void add_doctor(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<DoctorArguments>();
  arguments->hosts.timeout = std::chrono::seconds(10);
  auto& verb = commands.add(
      app, "doctor",
      {.meaning = "Find what is wrong with this machine, with hosts, and between them",
       .examples = {"doctor", "doctor --hosts tcp:node[1-4]:7420", "doctor --json"},
       .details =
           "Each finding is one line with what to do about it. Without --hosts and its like this "
           "machine is examined, and your hosts on it. On each host a probe runs for a moment, as "
           "a proc. --timeout is for each step, and hosts are examined at the same time, so that "
           "one that is silent costs it once.",
       .exit_codes = "0 sound, or warnings only; 1 an error was found"},
      [arguments] { return run_doctor(*arguments); });
  add_host_choice(verb, arguments->hosts);
  verb.add_flag("--here", arguments->only_here, "Examine this machine only, none of its hosts");
}

}  // namespace meshbus::cli
