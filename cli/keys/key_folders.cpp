#include "cli/keys/key_folders.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "common/base/os_error.h"
#include "common/security/keys.h"

namespace meshbus::cli {

Result<void> make_key_directory(const std::string& path, mode_t mode) {
  const auto parent = std::filesystem::path(path).parent_path();
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  if (error)
    return fail(ErrorCode::io_error,
                "cannot make the directory " + parent.string() + ": " + error.message());
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST)
    return fail(ErrorCode::io_error,
                "cannot make the directory " + path + ": " + os_error("mkdir"));
  return check_trusted(path);
}

Result<void> make_key_directories(const std::string& path) {
  if (auto made = make_key_directory(path, 0700); !made) return made;
  if (auto made = make_key_directory(path + "/authorised", 0755); !made) return made;
  for (const auto role : kKeyRoles) {
    if (auto made = make_key_directory(path + "/authorised/" + std::string(word_of(role)), 0755);
        !made)
      return made;
  }
  return {};
}

Result<UniqueFd> lock_keys(const std::string& path) {
  UniqueFd lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock || ::flock(lock.get(), LOCK_EX) != 0)
    return fail(ErrorCode::io_error, "cannot lock " + path + ": " + os_error("flock"));
  return lock;
}

}  // namespace meshbus::cli
