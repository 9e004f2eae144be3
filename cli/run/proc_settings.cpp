#include "cli/run/proc_settings.h"

#include <grp.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string>
#include <utility>

#include "common/base/find_user.h"
#include "common/base/quantity.h"

namespace meshbus::cli {
namespace {

constexpr std::uint32_t kMostCpus = 1024;
constexpr auto kLimits =
    std::to_array<std::pair<std::string_view, int>>({{"as", RLIMIT_AS},
                                                     {"core", RLIMIT_CORE},
                                                     {"cpu", RLIMIT_CPU},
                                                     {"data", RLIMIT_DATA},
                                                     {"fsize", RLIMIT_FSIZE},
                                                     {"memlock", RLIMIT_MEMLOCK},
                                                     {"msgqueue", RLIMIT_MSGQUEUE},
                                                     {"nofile", RLIMIT_NOFILE},
                                                     {"nproc", RLIMIT_NPROC},
                                                     {"sigpending", RLIMIT_SIGPENDING},
                                                     {"stack", RLIMIT_STACK}});

/// "1024", "2G", "unlimited"
std::optional<std::uint64_t> parse_amount(std::string_view text) {
  if (text == "unlimited") return ResourceLimit::none;
  unsigned shift = 0;
  if (!text.empty()) {
    const auto unit = std::string_view("KMGT").find(text.back());
    if (unit != std::string_view::npos) {
      shift = 10 * (static_cast<unsigned>(unit) + 1);
      text.remove_suffix(1);
    }
  }
  const auto number = parse_whole(text);
  if (!number || *number > (ResourceLimit::none >> shift)) return std::nullopt;
  return *number << shift;
}

constexpr Units kMemoryUnits = {
    {{"t", 1ULL << 40}, {"g", 1ULL << 30}, {"m", 1ULL << 20}, {"k", 1ULL << 10}}};
constexpr Units kCpuUnits = {{{"", 1000}, {"", 1000}, {"", 1000}, {"", 1000}}};

}  // namespace

Result<std::uint64_t> parse_memory(std::string_view text) {
  // As people know it from other programs: 64M, 64m, 64MiB, 67108864, 67108864B.
  const auto digits = std::min(text.find_first_not_of("0123456789."), text.size());
  std::string unit(text.substr(digits));
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  if (unit.size() == 3 && unit.ends_with("ib")) unit.resize(1);
  const auto number = std::string(text.substr(0, digits));
  const auto bytes = unit.empty() || unit == "b" ? parse_whole(number)
                                                 : parse_quantity(number + unit, kMemoryUnits, "k");
  if (!bytes || *bytes == 0)
    return fail(ErrorCode::parse_error,
                "takes bytes like 512MiB, 1.5GiB or 64M, not '" + std::string(text) + "'");
  return *bytes;
}

Result<double> parse_cpus(std::string_view text) {
  const auto milli = text.find_first_not_of("0123456789.") == std::string_view::npos
                         ? parse_quantity(text, kCpuUnits, "")
                         : std::nullopt;
  if (!milli || *milli < 10 || *milli > 10'000'000)
    return fail(
        ErrorCode::parse_error,
        "takes a number of CPUs from 0.01 to 10000 like 2 or 1.5, not '" + std::string(text) + "'");
  return static_cast<double>(*milli) / 1000;
}

Result<unsigned> parse_umask(std::string_view text) {
  const auto value = parse_whole<unsigned>(text, 8);
  if (!value || *value > 0777)
    return fail(ErrorCode::parse_error,
                "takes an octal number up to 777, not '" + std::string(text) + "'");
  return *value;
}

Result<void> set_user(std::string_view text, ProcSettings& settings) {
  auto found = find_user(std::string(text));
  if (!found) return fail(found.error());
  settings.uid = found->user;
  if (!settings.gid) settings.gid = found->group;
  settings.groups.assign(found->groups.begin(), found->groups.end());
  return {};
}

Result<void> set_group(std::string_view text, ProcSettings& settings) {
  const std::string name(text);
  const auto number = parse_whole<std::uint32_t>(text);
  const struct group* found = number ? nullptr : ::getgrnam(name.c_str());
  if (found == nullptr && (!number || *number == UINT32_MAX))
    return fail(ErrorCode::parse_error,
                "this machine knows no group '" + name + "'; a number needs no name");
  settings.gid = found != nullptr ? found->gr_gid : *number;
  return {};
}

Result<std::vector<std::uint32_t>> parse_cpu_set(std::string_view text) {
  std::vector<std::uint32_t> cpus;
  const auto bad = [whole = std::string(text)] {
    return fail(ErrorCode::parse_error,
                "takes CPUs below 1024 like 0-3,8, ascending, not '" + whole + "'");
  };
  std::uint32_t least = 0;
  while (true) {
    const auto comma = text.find(',');
    const auto one = text.substr(0, comma);
    const auto dash = one.find('-');
    const auto first = parse_whole<std::uint32_t>(one.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : parse_whole<std::uint32_t>(one.substr(dash + 1));
    if (!first || !last || *first < least || *last < *first || *last >= kMostCpus) return bad();
    for (auto cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
    least = *last + 1;
    if (comma == std::string_view::npos) return cpus;
    text.remove_prefix(comma + 1);
  }
}

Result<ResourceLimit> parse_rlimit(std::string_view text) {
  const auto equals = text.find('=');
  std::string names;
  for (const auto& [name, resource] : kLimits) {
    names += (names.empty() ? "" : ", ") + std::string(name);
    if (text.substr(0, equals) != name || equals == std::string_view::npos) continue;
    const auto value = text.substr(equals + 1);
    const auto colon = value.find(':');
    const auto soft = parse_amount(value.substr(0, colon));
    const auto hard =
        colon == std::string_view::npos ? soft : parse_amount(value.substr(colon + 1));
    if (!soft || !hard || *soft > *hard)
      return fail(ErrorCode::parse_error,
                  "takes a number (with K, M, G or T), `unlimited`, or SOFT:HARD for " +
                      std::string(name) + ", not '" + std::string(value) + "'");
    return ResourceLimit{.resource = resource, .soft = *soft, .hard = *hard};
  }
  return fail(ErrorCode::parse_error,
              "takes NAME=VALUE with one of " + names + ", not '" + std::string(text) + "'");
}

}  // namespace meshbus::cli
