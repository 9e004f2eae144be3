#include "cli/doctor/login_session.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <vector>

#include "common/base/file_text.h"

namespace meshbus::cli::doctor {
namespace {

namespace fs = std::filesystem;

/// logind.conf and its drop-ins, in the order in which they count.
std::string logind_text() {
  std::string text = file_text("/etc/systemd/logind.conf");
  std::vector<fs::path> files;
  for (const char* const folder : {"/usr/lib/systemd/logind.conf.d", "/run/systemd/logind.conf.d",
                                   "/etc/systemd/logind.conf.d"}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) files.push_back(entry.path());
  }
  std::stable_sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
    return a.filename() < b.filename();
  });
  for (const auto& file : files) text += "\n" + file_text(file);
  return text;
}

std::string user_name() {
  // Only one thread of a probe comes here.
  const passwd* entry = ::getpwuid(::geteuid());  // NOLINT(concurrency-mt-unsafe)
  return entry == nullptr ? std::string() : entry->pw_name;
}

bool has_word(const std::string& list, const std::string& wanted) {
  std::istringstream words(list);
  for (std::string word; words >> word;) {
    if (word == wanted) return true;
  }
  return false;
}

bool is_yes(const std::string& word) {
  return word == "yes" || word == "true" || word == "on" || word == "1";
}

}  // namespace

std::string session_scope(std::string_view cgroups) {
  constexpr std::string_view kPrefix = "/session-";
  constexpr std::string_view kSuffix = ".scope";
  const auto begin = cgroups.find(kPrefix);
  if (begin == std::string_view::npos) return {};
  const auto end = cgroups.find(kSuffix, begin);
  const auto name = cgroups.substr(begin + 1, end + kSuffix.size() - begin - 1);
  return end == std::string_view::npos || name.find_first_of("/\n") != std::string_view::npos
             ? std::string()
             : std::string(name);
}

std::string logind_setting(std::string_view text, std::string_view key, std::string_view standard) {
  std::string value(standard);
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(std::string(key) + "=")) value = line.substr(key.size() + 1);
  }
  return value;
}

SessionFacts gather_session(const std::string& run_directory) {
  SessionFacts facts{.scope = session_scope(file_text("/proc/self/cgroup"))};
  if (facts.scope.empty()) return facts;
  const auto text = logind_text();
  const auto user = user_name();
  const auto only = logind_setting(text, "KillOnlyUsers", "");
  facts.is_killed_at_logout = is_yes(logind_setting(text, "KillUserProcesses", "no")) &&
                              !has_word(logind_setting(text, "KillExcludeUsers", "root"), user) &&
                              (only.empty() || has_word(only, user));
  facts.is_run_dir_removed =
      run_directory.starts_with("/run/user/") && !fs::exists("/var/lib/systemd/linger/" + user);
  return facts;
}

}  // namespace meshbus::cli::doctor
