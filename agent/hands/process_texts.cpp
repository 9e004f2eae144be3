#include "agent/hands/process_texts.h"

#include <elf.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cstring>
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

/// The numbers of a line of status. False: there are fewer.
template <typename Number>
bool read_four(std::istream& words, std::array<Number, 4>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [&](Number& number) { return static_cast<bool>(words >> number); });
}

/// The set of capabilities that a line of status has; null: it has none.
std::uint64_t* find_set(Capabilities& capabilities, const std::string& name) {
  if (name == "CapInh:") return &capabilities.inheritable;
  if (name == "CapPrm:") return &capabilities.permitted;
  if (name == "CapEff:") return &capabilities.effective;
  if (name == "CapBnd:") return &capabilities.bounding;
  if (name == "CapAmb:") return &capabilities.ambient;
  return nullptr;
}

/// Pairs of a type and a value, in words of the program's size.
template <typename Word>
bool is_secure_in(std::string_view auxv) {
  for (; auxv.size() >= 2 * sizeof(Word); auxv.remove_prefix(2 * sizeof(Word))) {
    std::array<Word, 2> entry{};
    std::memcpy(entry.data(), auxv.data(), sizeof entry);
    if (entry[0] == AT_SECURE) return entry[1] != 0;
  }
  return false;
}

}  // namespace

bool ProcessUser::has_one_user() const noexcept {
  return std::count(users.begin(), users.end(), users[0]) == 4 &&
         std::count(user_groups.begin(), user_groups.end(), user_groups[0]) == 4;
}

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
      has_users = read_four(words, user.users);
    } else if (name == "Gid:") {
      has_groups = read_four(words, user.user_groups);
    } else if (name == "Groups:") {
      for (gid_t group = 0; words >> group;) user.groups.push_back(group);
    } else if (name == "Umask:") {
      words >> std::oct >> user.umask;
    } else if (name == "NoNewPrivs:") {
      int value = 0;
      words >> value;
      user.has_no_new_privs = value != 0;
    } else if (name == "Seccomp:") {
      int mode = 0;
      words >> mode;
      user.is_filtered = mode != 0;
    } else if (name == "Seccomp_filters:") {
      words >> user.filters;
    } else if (auto* const set = find_set(user.capabilities, name); set != nullptr) {
      words >> std::hex >> *set;
    }
  }
  if (!has_users || !has_groups) return std::nullopt;
  return user;
}

bool is_secure_execution(std::string_view auxv) {
  // A type above 32 bits is two words of a program of 32 bits.
  std::uint64_t first = 0;
  if (auxv.size() >= sizeof first) std::memcpy(&first, auxv.data(), sizeof first);
  return first >> 32U == 0 ? is_secure_in<std::uint64_t>(auxv) : is_secure_in<std::uint32_t>(auxv);
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
