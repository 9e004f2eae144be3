#include "agent/warden/run_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <sstream>
#include <system_error>

#include "agent/os/cgroup.h"
#include "agent/os/cgroup_placement.h"
#include "agent/os/run_directory.h"
#include "agent/os/sweep.h"
#include "common/base/os_error.h"

namespace meshbus::warden {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::string_view kHostPrefix = "host-";
constexpr std::time_t kNewbornSeconds =
    10;  // a directory this young without a lock is being made right now

bool is_own_directory(const char* path) {
  struct stat status{};
  return ::stat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid();
}

// Empty for "is what we want"; else why not.
std::string find_fault(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return os_error("lstat");
  if (S_ISLNK(status.st_mode)) return "it is a symbolic link";
  if (!S_ISDIR(status.st_mode)) return "it is not a directory";
  if (status.st_uid != ::geteuid()) return "it belongs to user " + std::to_string(status.st_uid);
  if ((status.st_mode & 077) != 0) return "others may enter it (want mode 0700)";
  return {};
}

Result<std::string> random_hex() {
  std::uint32_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != static_cast<ssize_t>(sizeof random))
    return fail(ErrorCode::io_error, os_error("getrandom"));
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", random);
  return std::string(text.data());
}

void clean_one(const std::string& path, const std::string& name, int lock) {
  std::array<char, 4096> buffer{};
  const ssize_t got = ::pread(lock, buffer.data(), buffer.size(), 0);
  std::istringstream lines(std::string(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0));
  for (std::string line; std::getline(lines, line);) {
    const auto blank = line.find(' ');
    if (blank == std::string::npos) continue;
    const std::string key = line.substr(0, blank);
    const std::string value = line.substr(blank + 1);
    if (key == "mark" && value != "0")
      os::sweep_tagged(std::strtoull(value.c_str(), nullptr, 10), 1000ms);
    const std::string tail = "/meshbus-" + name;
    // A dying process is in it for a moment still; and it must not stay, because no host will
    // know of it any more.
    if (key == "limits" && value.ends_with(tail)) os::clear_cgroup_tree(value, 1000ms);
    if (key == "cgroup" && value.size() > tail.size() &&
        value.compare(value.size() - tail.size(), tail.size(), tail) == 0) {
      os::empty_cgroup(value, 500ms);
      os::remove_cgroup_tree(value);
    }
    if (key == "aside") os::clear_roles_leaf(value);
  }
  os::remove_run_directory(path, 100ms);
}

// Takes path, name and lock of a stale host; -1: it has no lock.
using TakeStale = std::function<void(const std::string&, const std::string&, int)>;

void for_each_stale_host(const std::string& base, const TakeStale& take) {
  std::error_code error;
  for (fs::directory_iterator entry(base, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path().string();
    const std::string file_name = entry->path().filename().string();
    if (file_name.rfind(kHostPrefix, 0) != 0) continue;
    const UniqueFd lock(
        ::open((path + "/" + os::kLockFile).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    // Any other reason than "there is none" says nothing about whether that host lives.
    if (!lock && errno != ENOENT) continue;
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) continue;
    if (std::time(nullptr) - status.st_mtime < kNewbornSeconds && !lock) continue;
    if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;
    // A lock without text belongs to a warden that is just being born, or that died then and has
    // nothing to kill.
    if (lock && ::fstat(lock.get(), &status) == 0 && status.st_size == 0 &&
        std::time(nullptr) - status.st_mtime < kNewbornSeconds)
      continue;
    take(path, file_name.substr(kHostPrefix.size()), lock.get());
  }
}

}  // namespace

std::string base_dir_problem(const std::string& base) {
  const auto socket = socket_address({base + "/" + std::string(kHostPrefix) + "01234567", {}, {}});
  if (!socket) return socket.error().detail();
  return ::access(base.c_str(), F_OK) == 0 || errno != ENOENT ? find_fault(base) : std::string();
}

std::string default_base_dir() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/' && is_own_directory(runtime))
    return std::string(runtime) + "/meshbus";
  return "/tmp/meshbus-" + std::to_string(::geteuid());
}

Result<std::string> prepare_base_dir(const std::string& wanted) {
  const std::string base = wanted.empty() ? default_base_dir() : wanted;
  if (base.front() != '/')
    return fail(ErrorCode::configuration_error,
                "run directory '" + base + "' must be an absolute path");
  if (::mkdir(base.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail(ErrorCode::configuration_error, os_error("cannot make the run directory " + base));
  }
  if (const std::string fault = find_fault(base); !fault.empty()) {
    return fail(ErrorCode::configuration_error,
                "the run directory " + base + " cannot be trusted: " + fault +
                    "; remove it, correct it, or choose another one");
  }
  return base;
}

Result<HostDir> make_host_dir(const std::string& base) {
  for (int attempt = 0; attempt < 16; ++attempt) {
    const auto name = random_hex();
    if (!name) return fail(name.error());
    HostDir directory{base + "/" + std::string(kHostPrefix) + *name, *name, {}};
    if (::mkdir(directory.path.c_str(), 0700) != 0) {
      if (errno == EEXIST) continue;
      return fail(ErrorCode::io_error, os_error("mkdir " + directory.path));
    }
    const std::string lock = directory.path + "/" + os::kLockFile;
    directory.lock = UniqueFd(::open(lock.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    // It may wait for a moment: others take the lock to see whether this host lives.
    if (!directory.lock || ::flock(directory.lock.get(), LOCK_EX) != 0) {
      auto failure = fail(ErrorCode::io_error, os_error("lock " + lock));
      os::remove_run_directory(directory.path, 0ms);
      return failure;
    }
    return directory;
  }
  return fail(ErrorCode::io_error, "no free name for a host directory in " + base);
}

Result<void> record_host(const HostDir& directory, const std::string& cgroup,
                         std::uint64_t process_tag, const std::vector<std::string>& limits,
                         const std::string& aside) {
  std::string text =
      "pid " + std::to_string(::getpid()) + "\nmark " + std::to_string(process_tag) + "\n";
  if (!cgroup.empty()) text += "cgroup " + cgroup + "\n";
  for (const std::string& one : limits) text += "limits " + one + "\n";
  if (!aside.empty()) text += "aside " + aside + "\n";
  if (::pwrite(directory.lock.get(), text.data(), text.size(), 0) !=
      static_cast<ssize_t>(text.size())) {
    return fail(ErrorCode::io_error, os_error("write " + directory.path + "/" + os::kLockFile));
  }
  return {};
}

Result<void> write_host_file(const HostDir& directory, const std::string& path,
                             const std::string& text) {
  const std::string whole = directory.path + "/" + path;
  for (auto slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string folder = directory.path + "/" + path.substr(0, slash);
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
      return fail(ErrorCode::io_error, os_error("mkdir " + folder));
  }
  const UniqueFd file(
      ::open(whole.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return fail(ErrorCode::io_error, os_error("write " + whole));
  return {};
}

std::vector<std::string> find_stale_hosts(const std::string& base) {
  std::vector<std::string> found;
  for_each_stale_host(
      base, [&](const std::string& path, const std::string&, int) { found.push_back(path); });
  return found;
}

int clean_stale_hosts(const std::string& base) {
  int cleaned = 0;
  for_each_stale_host(base, [&](const std::string& path, const std::string& name, int lock) {
    clean_one(path, name, lock);
    ++cleaned;
  });
  return cleaned;
}

Result<std::string> make_bus_folder(const HostDir& directory) {
  const std::string folder = directory.path + "/" + os::kBusFolder;
  // The mask of the process may take bits away.
  if (::mkdir(folder.c_str(), 0711) != 0 || ::chmod(folder.c_str(), 0711) != 0)
    return fail(ErrorCode::io_error, os_error("mkdir " + folder));
  return "unix:" + folder + "/" + os::kBusSocket;
}

Result<std::string> socket_address(const HostDir& directory) {
  const std::string path = directory.path + "/bus";
  const std::string longest_path =
      directory.path + "/" + os::kBusFolder + "/" + os::kBusSocket;  // of all sockets in it
  const std::size_t room = longest_path.size();
  constexpr std::size_t longest = sizeof(sockaddr_un::sun_path) - 1;
  if (room > longest) {
    return fail(ErrorCode::configuration_error,
                "the socket path " + longest_path + " has " + std::to_string(room) +
                    " bytes, a socket address takes " + std::to_string(longest) +
                    ": choose a shorter run directory");
  }
  return "unix:" + path;
}

}  // namespace meshbus::warden
