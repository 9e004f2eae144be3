#include "agent/hands/process_texts.h"

#include <sys/resource.h>

#include <charconv>
#include <sstream>
#include <string>
#include <utility>

namespace meshbus::hands {
namespace {

constexpr std::pair<std::string_view, int> kLimits[] = {
    {"Max cpu time", RLIMIT_CPU},
    {"Max file size", RLIMIT_FSIZE},
    {"Max data size", RLIMIT_DATA},
    {"Max stack size", RLIMIT_STACK},
    {"Max core file size", RLIMIT_CORE},
    {"Max resident set", RLIMIT_RSS},
    {"Max processes", RLIMIT_NPROC},
    {"Max open files", RLIMIT_NOFILE},
    {"Max locked memory", RLIMIT_MEMLOCK},
    {"Max address space", RLIMIT_AS},
    {"Max file locks", RLIMIT_LOCKS},
    {"Max pending signals", RLIMIT_SIGPENDING},
    {"Max msgqueue size", RLIMIT_MSGQUEUE},
    {"Max nice priority", RLIMIT_NICE},
    {"Max realtime priority", RLIMIT_RTPRIO},
    {"Max realtime timeout", RLIMIT_RTTIME},
};

std::optional<std::uint64_t> parse_limit(const std::string& word) {
  if (word == "unlimited") return static_cast<std::uint64_t>(RLIM_INFINITY);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<ProcessUser> parse_status(std::string_view text) {
  ProcessUser user;
  bool has_users = false;
  bool has_groups = false;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name == "Uid:") {
      has_users = static_cast<bool>(words >> user.users[0] >> user.users[1] >> user.users[2]);
    } else if (name == "Gid:") {
      has_groups = static_cast<bool>(words >> user.user_groups[0] >> user.user_groups[1] >>
                                     user.user_groups[2]);
    } else if (name == "Groups:") {
      for (gid_t group = 0; words >> group;) user.groups.push_back(group);
    } else if (name == "Umask:") {
      words >> std::oct >> user.umask;
    } else if (name == "NoNewPrivs:") {
      int value = 0;
      words >> value;
      user.has_no_new_privs = value != 0;
    }
  }
  if (!has_users || !has_groups) return std::nullopt;
  return user;
}

std::vector<ProcessLimit> parse_limits(std::string_view text) {
  std::vector<ProcessLimit> limits;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    for (const auto& [name, resource] : kLimits) {
      // "Max processes" and then blanks: no other name begins so.
      if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ' ')
        continue;
      std::istringstream words(line.substr(name.size()));
      std::string soft;
      std::string hard;
      words >> soft >> hard;
      const auto low = parse_limit(soft);
      const auto high = parse_limit(hard);
      if (low && high) limits.push_back({resource, *low, *high});
      break;
    }
  }
  return limits;
}

std::optional<std::uint64_t> parse_start_ticks(std::string_view text) {
  // The name of the command may contain anything, brackets too.
  const auto bracket = text.rfind(')');
  if (bracket == std::string_view::npos) return std::nullopt;
  std::istringstream words{std::string(text.substr(bracket + 1))};
  std::string word;
  for (int field = 3; field <= 22; ++field) {
    if (!(words >> word)) return std::nullopt;
  }
  return parse_limit(word);
}

}  // namespace meshbus::hands
