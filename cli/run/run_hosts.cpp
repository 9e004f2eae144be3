#include "cli/run/run_hosts.h"

#include "cli/run/role_hosts.h"
#include "cli/support/exit_codes.h"
#include "cli/support/text_error.h"
#include "meshbus/remote_hosts.h"

namespace meshbus::cli {

std::optional<int> choose_run_hosts(RunArguments& arguments) {
  using From = RunArguments::From;
  auto list = hosts_said(arguments.said);
  // Where this shell runs counts more than what was chosen for all of them.
  const bool is_slurm = list && list->words.empty() && is_in_slurm_job();
  if (list && list->words.empty() && !is_slurm) list = hosts_in_use();
  if (!list) {
    complain(list.error().detail());
    return kUsage;
  }
  const auto number = number_of_hosts(*list);
  if (!number) {
    complain(number.error().detail());
    return kUsage;
  }
  const bool is_said = is_slurm || !list->words.empty();
  arguments.hosts = number->value_or(1);
  if (*number) list->words.clear();
  arguments.from = is_slurm              ? From::slurm
                   : is_ssh(*list)       ? From::ssh
                   : list->words.empty() ? From::here
                                         : From::addresses;
  // The command line's own come last: they win.
  std::vector<std::string> settings;
  for (const auto& [key, value] : list->settings) settings.push_back(key + "=" + value);
  arguments.settings.insert(arguments.settings.begin(), settings.begin(), settings.end());
  arguments.list = std::move(*list);
  std::vector<HostList> own;
  for (const auto& role : arguments.roles) {
    auto hosts = role.said.is_empty() ? Result<HostList>(HostList()) : hosts_said(role.said);
    if (!hosts) {
      complain(hosts.error().detail());
      return kUsage;
    }
    own.push_back(std::move(*hosts));
  }
  if (const auto shared = share_hosts(arguments, own, is_said); !shared) {
    complain(shared.error().detail());
    return kUsage;
  }
  if (arguments.from == From::addresses) {
    if (const auto addresses = parse_hosts(arguments.list); !addresses) {
      complain(addresses.error().detail());
      return kUsage;
    }
  }
  return std::nullopt;
}

}  // namespace meshbus::cli
