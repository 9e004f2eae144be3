#include "agent/hands/cgroup_lines.h"

#include <algorithm>
#include <sstream>

namespace meshbus::hands {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

/// mountinfo writes a blank as \040.
std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 3 >= text.size()) {
      plain += text[i];
      continue;
    }
    plain +=
        static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + text[i + 3] - '0');
    i += 3;
  }
  return plain;
}

bool has_all(const std::vector<std::string>& words, const std::vector<std::string>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const std::string& word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  });
}

}  // namespace

std::vector<CgroupLine> parse_cgroups(std::string_view text) {
  std::vector<CgroupLine> lines;
  for (const std::string& line : split(std::string(text), '\n')) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    lines.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return lines;
}

std::optional<std::string> find_cgroup_directory(std::string_view mounts,
                                                 const CgroupLine& cgroup) {
  const auto wanted = split(cgroup.controllers, ',');
  for (const std::string& line : split(std::string(mounts), '\n')) {
    // 36 35 98:0 ROOT MOUNT_POINT OPTIONS [FIELDS]... - TYPE SOURCE SUPER_OPTIONS
    const auto fields = split(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 6 || fields.end() - dash < 4) continue;
    const std::string& type = *(dash + 1);
    if (type != (cgroup.is_v2() ? "cgroup2" : "cgroup")) continue;
    if (!cgroup.is_v2() && !has_all(split(*(dash + 3), ','), wanted)) continue;
    const std::string root = unescaped(fields[3]);
    std::string below = cgroup.path;
    if (root != "/") {
      if (!below.starts_with(root) || (below.size() > root.size() && below[root.size()] != '/'))
        continue;
      below.erase(0, root.size());
    }
    // The process is in a cgroup outside of our cgroup namespace.
    if (below.starts_with("/..")) continue;
    return unescaped(fields[4]) + (below == "/" ? "" : below);
  }
  return std::nullopt;
}

}  // namespace meshbus::hands
