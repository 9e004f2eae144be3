#include "cli/run/role_hosts.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>

#include "cli/run/job_plan.h"

namespace meshbus::cli {
namespace {

using From = RunArguments::From;

tl::unexpected<Error> refuse(const RunArguments& run, const RoleArguments& role,
                             const std::string& why) {
  return fail(ErrorCode::configuration_error, place_of(run, role) + why);
}

std::string machine_of(const HostWord& word) {
  return word.text.starts_with("ssh:") ? word.text.substr(4) : word.text;
}

From kind_of(const HostList& list, bool is_number) {
  return is_number ? From::here : is_ssh(list) ? From::ssh : From::addresses;
}

std::string_view words_of(From from) {
  switch (from) {
    case From::here: return "started on this machine";
    case From::addresses: return "running hosts";
    case From::ssh: return "started by ssh";
    case From::slurm: return "the nodes of this Slurm job";
  }
  return "";
}

/// How many hosts the job has so far; nothing: only Slurm knows.
std::optional<std::uint64_t> count_hosts(const RunArguments& run) {
  if (run.from == From::slurm) return std::nullopt;
  return run.from == From::here ? run.hosts : run.list.words.size();
}

/// The numbers that this list of a role has among the hosts of the job, to which it is added.
std::vector<std::uint64_t> add(RunArguments& run, const HostList& list,
                               std::optional<std::uint64_t> number) {
  std::vector<std::uint64_t> numbers;
  if (number) {
    numbers.resize(*number);
    std::iota(numbers.begin(), numbers.end(), run.hosts);
    run.hosts += *number;
    return numbers;
  }
  auto& words = run.list.words;
  for (const auto& word : list.words) {
    const auto known = std::find_if(words.begin(), words.end(), [&](const HostWord& one) {
      return machine_of(one) == machine_of(word);
    });
    numbers.push_back(static_cast<std::uint64_t>(known - words.begin()));
    if (known != words.end()) continue;
    words.push_back(word);
    if (run.list.source.empty()) run.list.source = list.source;
  }
  return numbers;
}

}  // namespace

Result<std::optional<std::uint64_t>> number_of_hosts(const HostList& list) {
  if (list.words.size() != 1) return std::optional<std::uint64_t>();
  const auto& text = list.words.front().text;
  const bool is_number =
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (text.empty() || !is_number) return std::optional<std::uint64_t>();
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number == 0 || number > kMostHosts)
    return fail(ErrorCode::configuration_error,
                list.source + " takes 1 to 1024 hosts on this machine, not " + text);
  return std::optional(number);
}

Result<void> share_hosts(RunArguments& run, const std::vector<HostList>& own, bool is_said) {
  const auto has_own = [](const HostList& list) { return !list.words.empty(); };
  // The host that is there by default is for roles that have none.
  bool is_empty = !is_said && std::all_of(own.begin(), own.end(), has_own);
  if (is_empty) run.hosts = 0;
  const auto of_job = count_hosts(run);
  for (std::size_t number = 0; number < run.roles.size(); ++number) {
    auto& role = run.roles[number];
    role.hosts.clear();
    if (!has_own(own[number])) continue;
    const auto count = number_of_hosts(own[number]);
    if (!count) return refuse(run, role, count.error().detail());
    const auto from = kind_of(own[number], count->has_value());
    if (std::exchange(is_empty, false)) run.from = from;
    if (from != run.from)
      return refuse(run, role,
                    "its hosts are " + std::string(words_of(from)) +
                        ", and others of the job are " + std::string(words_of(run.from)) +
                        ": take hosts of one kind");
    role.hosts = add(run, own[number], *count);
  }
  const auto all = count_hosts(run);
  if (run.from == From::here && run.hosts > kMostHosts)
    return fail(ErrorCode::configuration_error, "the roles have " + std::to_string(run.hosts) +
                                                    " hosts on this machine; there can be 1024");
  for (auto& role : run.roles) {
    const bool shares = role.hosts.empty();
    if (shares && of_job && of_job != all) {
      role.hosts.resize(*of_job);
      std::iota(role.hosts.begin(), role.hosts.end(), 0);
    }
    if (role.on.empty()) continue;
    const auto mine = role.hosts;
    role.hosts.clear();
    for (const auto& block : role.on) {
      for (auto one = block.begin; one < block.end; ++one) {
        if (mine.empty() && !all) {
          role.hosts.push_back(one);  // Its number is checked when Slurm has been asked.
          continue;
        }
        const auto size = mine.empty() ? *all : mine.size();
        if (one >= size)
          return refuse(run, role,
                        "there is no host " + std::to_string(one) + " for --on; there " +
                            (size == 1 ? "is 1 host" : "are " + std::to_string(size) + " hosts") +
                            ", numbered from 0");
        role.hosts.push_back(mine.empty() ? one : mine[one]);
      }
    }
  }
  return {};
}

}  // namespace meshbus::cli
