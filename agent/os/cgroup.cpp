#include "agent/os/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <sstream>
#include <vector>

#include "agent/os/spawner.h"
#include "common/base/os_error.h"

namespace meshbus::os {

namespace {

// mountinfo writes blank, tab, newline and backslash as \ooo.
std::string unescape(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                               (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

struct Mount {
  std::string root;
  std::string point;
};

std::vector<Mount> find_cgroup2_mounts() {
  std::vector<Mount> found;
  std::istringstream lines(read_cgroup_file("/proc/self/mountinfo").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const auto separator = line.find(" - cgroup2 ");
    if (separator == std::string::npos) continue;
    std::istringstream fields(line.substr(0, separator));
    std::string id, parent, device, root, point;
    if (fields >> id >> parent >> device >> root >> point)
      found.push_back({unescape(root), unescape(point)});
  }
  return found;
}

// The directory of a cgroup, as that mount shows it.
std::optional<std::string> directory_of(const std::string& cgroup, const Mount& mount) {
  const std::string root = mount.root == "/" ? "" : mount.root;
  const std::string own = cgroup == "/" ? "" : cgroup;
  if (!own.starts_with(root) || (own.size() > root.size() && own[root.size()] != '/'))
    return std::nullopt;
  return mount.point + own.substr(root.size());
}

// Whether a word is in a list with commas.
bool is_listed(std::string_view word, std::string_view list) {
  return ("," + std::string(list) + ",").find("," + std::string(word) + ",") != std::string::npos;
}

}  // namespace

Result<Cgroup> Cgroup::make(const std::string& parent, const std::string& name) {
  std::string path = parent + "/" + name;
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
    return fail(ErrorCode::io_error, os_error("mkdir " + path));
  UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return fail(ErrorCode::io_error, os_error("open " + path));
  return Cgroup(std::move(path), std::move(directory));
}

Result<OwnCgroup> find_own_cgroup() {
  const auto mounts = find_cgroup2_mounts();
  if (mounts.empty()) return fail(ErrorCode::not_exist, "no cgroup v2 file system is mounted");
  const auto text = read_cgroup_file("/proc/self/cgroup");
  std::istringstream lines(text.value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("0::", 0) != 0) continue;
    const std::string own = line.substr(3);
    if (own.starts_with("/.."))
      return fail(ErrorCode::not_exist,
                  "our cgroup " + own + " is outside of this cgroup namespace");
    // The last one covers those that were mounted at the same place before.
    for (auto mount = mounts.rbegin(); mount != mounts.rend(); ++mount) {
      if (auto path = directory_of(own, *mount)) return OwnCgroup{std::move(*path), mount->point};
    }
    return fail(ErrorCode::not_exist,
                "our cgroup " + own + " is not below the mounted " + mounts.back().root);
  }
  return fail(ErrorCode::not_exist, "/proc/self/cgroup names no cgroup v2");
}

std::optional<std::string> find_v1_cgroup(std::string_view controller) {
  std::istringstream mounts(read_cgroup_file("/proc/self/mountinfo").value_or(""));
  for (std::string line; std::getline(mounts, line);) {
    const auto separator = line.find(" - cgroup ");
    if (separator == std::string::npos || !is_listed(controller, line.substr(line.rfind(' ') + 1)))
      continue;
    std::istringstream fields(line.substr(0, separator));
    std::string id, parent, device, root, point;
    if (!(fields >> id >> parent >> device >> root >> point)) continue;
    std::istringstream groups(read_cgroup_file("/proc/self/cgroup").value_or(""));
    for (std::string group; std::getline(groups, group);) {
      // "9:pids:/some/where"
      const auto controllers = group.find(':');
      const auto path = group.find(":/");
      if (path == std::string::npos ||
          !is_listed(controller, group.substr(controllers + 1, path - controllers - 1)))
        continue;
      std::string own = group.substr(path + 1);
      if (const std::string above = unescape(root); above != "/") {
        if (own.rfind(above, 0) != 0) continue;
        own.erase(0, above.size());
      }
      return unescape(point) + (own == "/" ? "" : own);
    }
  }
  return std::nullopt;
}

bool has_word(const std::string& path, std::string_view word) {
  std::istringstream words(read_cgroup_file(path).value_or(""));
  for (std::string one; words >> one;) {
    if (one == word) return true;
  }
  return false;
}

int write_file(const std::string& path, std::string_view value) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return errno;
  const ssize_t written = ::write(file.get(), value.data(), value.size());
  return written == static_cast<ssize_t>(value.size()) ? 0 : written < 0 ? errno : EIO;
}

std::optional<std::string> find_memory_counter(const std::string& host) {
  const auto own_v1 = find_v1_cgroup("memory");
  const auto own_v2 = find_own_cgroup();
  for (const std::string& file : {own_v1 ? *own_v1 + "/memory.oom_control" : std::string(),
                                  host.empty() ? host : host + "/memory.events",
                                  own_v2 ? own_v2->path + "/memory.events" : std::string()}) {
    if (!file.empty() && ::access(file.c_str(), R_OK) == 0) return file;
  }
  return std::nullopt;
}

Result<std::string> make_host_cgroup(const std::string& base, const std::string& name) {
  const std::string path = base + "/meshbus-" + name;
  const bool was_there = ::access(path.c_str(), F_OK) == 0;
  auto made = Cgroup::make(base, "meshbus-" + name);
  if (!made) return fail(made.error());
  const auto give_up = [&](std::string why) {
    if (!was_there) remove_cgroup_tree(made->path());
    return fail(ErrorCode::io_error, std::move(why));
  };
  if (::faccessat(made->fd(), "cgroup.kill", W_OK, 0) != 0)
    return give_up(os_error(made->path() + "/cgroup.kill"));
  auto spawner = Spawner::make();
  if (!spawner) return give_up(spawner.error().detail());
  // As the keeper will use it: one level further down.
  auto inner = Cgroup::make(made->path(), "probe");
  if (!inner) return give_up(inner.error().detail());
  if (const int error = spawner->probe_cgroup(inner->fd()); error != 0) {
    errno = error;
    return give_up(os_error("starting a process in " + inner->path()));
  }
  if (::rmdir(inner->path().c_str()) != 0) return give_up(os_error("rmdir " + inner->path()));
  return made->path();
}

Result<void> limit_pids(const std::string& path, std::uint64_t limit) {
  const std::string file = path + "/pids.max";
  errno = write_file(file, std::to_string(limit));
  if (errno == 0) return {};
  return fail(ErrorCode::not_exist, os_error("writing " + std::to_string(limit) + " to " + file));
}

std::string join_file_v1(const std::string& path) {
  return path + "/tasks";
}

Result<UniqueFd> make_pids_cgroup(const std::string& path, std::uint64_t limit) {
  if (::mkdir(path.c_str(), 0755) != 0)
    return fail(ErrorCode::not_exist, os_error("mkdir " + path));
  auto limited = limit_pids(path, limit);
  UniqueFd join(::open(join_file_v1(path).c_str(), O_WRONLY | O_CLOEXEC));
  if (limited && join) return join;
  auto failure = limited ? fail(ErrorCode::not_exist, os_error("open " + join_file_v1(path)))
                         : fail(limited.error());
  ::rmdir(path.c_str());
  return failure;
}

void leave_pids_cgroup(const std::string& path) {
  const auto own = find_v1_cgroup("pids");
  if (own && *own == path) write_file(join_file_v1(path.substr(0, path.rfind('/'))), "0");
}

std::string cgroup_name_of_mesh(std::string_view mesh) {
  constexpr std::size_t longest = 128;
  std::string name = "mesh-";
  bool changed = mesh.size() > longest;
  for (const char letter : mesh.substr(0, longest)) {
    const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                       (letter >= '0' && letter <= '9') || letter == '_' || letter == '-';
    name += plain ? letter : '.';
    changed = changed || !plain;
  }
  if (!changed) return name;
  std::uint64_t hash =
      14695981039346656037ull;  // FNV-1a: two names must not share a cgroup because they look alike
  for (const char letter : mesh)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ull;
  return name + "." + std::to_string(hash);
}

}  // namespace meshbus::os
