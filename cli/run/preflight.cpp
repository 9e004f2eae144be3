#include "cli/run/preflight.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "cli/doctor/exam_groups.h"
#include "cli/doctor/examine_site.h"
#include "cli/doctor/finding.h"
#include "cli/doctor/judge.h"
#include "cli/run/say.h"
#include "cli/support/find_hosts.h"
#include "cli/support/host_list.h"

namespace meshbus::cli {
namespace {

/// For each step of a host: as meshbus doctor has it.
constexpr std::chrono::seconds kStepLimit{10};

Result<std::vector<HostAddr>> hosts_of(const RunArguments& arguments, JobHosts& hosts) {
  if (arguments.from != RunArguments::From::addresses) return hosts.all().hosts();
  return parse_hosts(arguments.list);
}

std::vector<doctor::ExamGroup> groups_of(const RunArguments& arguments, JobHosts& hosts,
                                         const std::vector<HostAddr>& addresses) {
  if (arguments.from != RunArguments::From::addresses)
    return doctor::group_of(hosts.context(), addresses);
  FoundHosts found{.addresses = addresses, .source = {}, .settings = {}, .local = {}};
  for (const auto& setting : arguments.settings) {
    const auto equals = setting.find('=');
    found.settings.emplace_back(setting.substr(0, equals), setting.substr(equals + 1));
  }
  return doctor::groups_of(found);
}

}  // namespace

Result<std::vector<HostAddr>> preflight(const RunArguments& arguments, JobHosts& hosts) {
  const auto addresses = hosts_of(arguments, hosts);
  if (!addresses) return fail(addresses.error());
  const auto site = doctor::examine_site(groups_of(arguments, hosts, *addresses), kStepLimit,
                                         /*looks_here=*/false);
  std::set<std::string> bad;
  for (const auto& finding : doctor::judge(site)) {
    say(doctor::line_of(finding));
    if (finding.severity == doctor::Severity::error)
      bad.insert(finding.hosts.begin(), finding.hosts.end());
  }
  std::vector<HostAddr> failed;
  std::copy_if(addresses->begin(), addresses->end(), std::back_inserter(failed),
               [&](const HostAddr& host) { return bad.contains(host.to_string()); });
  return failed;
}

}  // namespace meshbus::cli
