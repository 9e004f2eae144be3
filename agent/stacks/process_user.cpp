#include "agent/stacks/process_user.h"

#include <sstream>
#include <string>

#include "agent/stacks/proc_files.h"

namespace meshbus::stacks {

std::optional<UserIds> parse_process_user(std::string_view status) {
  UserIds ids;
  bool has_user = false;
  bool has_group = false;
  std::istringstream lines{std::string(status)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name == "Uid:") {
      has_user = static_cast<bool>(words >> ids.user);
    } else if (name == "Gid:") {
      has_group = static_cast<bool>(words >> ids.group);
    } else if (name == "Groups:") {
      for (gid_t group = 0; words >> group;) ids.groups.push_back(group);
    }
  }
  if (!has_user || !has_group) return std::nullopt;
  return ids;
}

std::optional<UserIds> user_of_process(pid_t pid) {
  return parse_process_user(read_proc_file(pid, "status"));
}

}  // namespace meshbus::stacks
