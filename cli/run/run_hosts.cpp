#include "cli/run/run_hosts.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "cli/support/exit_codes.h"
#include "cli/support/text_error.h"
#include "meshbus/remote_hosts.h"

namespace meshbus::cli {
namespace {

constexpr std::uint64_t kMostHosts = 1024;

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

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
  if (list->words.size() == 1 && is_number(list->words.front().text)) {
    const auto& text = list->words.front().text;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), arguments.hosts);
    if (error != std::errc() || arguments.hosts == 0 || arguments.hosts > kMostHosts) {
      complain(list->source + " takes 1 to 1024 hosts on this machine, not " + text);
      return kUsage;
    }
    list->words.clear();
  }
  arguments.from = is_slurm              ? From::slurm
                   : is_ssh(*list)       ? From::ssh
                   : list->words.empty() ? From::here
                                         : From::addresses;
  if (arguments.from == From::addresses) {
    if (const auto addresses = parse_hosts(*list); !addresses) {
      complain(addresses.error().detail());
      return kUsage;
    }
  }
  // The command line's own come last: they win.
  std::vector<std::string> settings;
  for (const auto& [key, value] : list->settings) settings.push_back(key + "=" + value);
  arguments.settings.insert(arguments.settings.begin(), settings.begin(), settings.end());
  arguments.list = std::move(*list);
  return std::nullopt;
}

}  // namespace meshbus::cli
