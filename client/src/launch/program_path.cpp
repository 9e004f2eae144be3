// Where this program and `meshbus` are.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <sys/stat.h>

#include "client/src/launch/launched_host.h"

namespace meshbus {

Result<std::string> own_executable() {
  std::string path(4096, '\0');
  const auto length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0)
    return fail(ErrorCode::io_error,
                std::string("readlink /proc/self/exe: ") + std::strerror(errno));
  path.resize(static_cast<std::size_t>(length));
  return path;
}

Result<std::string> find_meshbus_program(const std::string& wanted) {
  const auto is_program = [](const std::string& path) {
    struct stat info;
    return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
           ::access(path.c_str(), X_OK) == 0;
  };
  if (!wanted.empty()) {
    if (is_program(wanted)) return wanted;
    return fail(ErrorCode::configuration_error,
                "the meshbus program " + wanted + " is not there or cannot be executed");
  }
  if (const char* set = std::getenv("MESHBUS_BIN"); set != nullptr && *set != '\0') {
    const std::string path(set);
    if (is_program(path + "/meshbus")) return path + "/meshbus";
    if (is_program(path)) return path;
    return fail(ErrorCode::configuration_error,
                "MESHBUS_BIN is " + path +
                    ", which is neither the meshbus program nor the folder it is in");
  }
  std::string looked;
  if (const auto own = own_executable()) {
    const auto beside = own->substr(0, own->rfind('/')) + "/meshbus";
    if (is_program(beside)) return beside;
    looked = beside;
  }
  const char* path = std::getenv("PATH");
  std::string_view rest(path == nullptr ? "" : path);
  while (!rest.empty()) {
    const auto colon = rest.find(':');
    const std::string folder(rest.substr(0, colon));
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    if (!folder.empty() && is_program(folder + "/meshbus")) return folder + "/meshbus";
  }
  return fail(ErrorCode::configuration_error,
              "there is no meshbus program at " + looked +
                  " nor in PATH: install the package meshbus, or set MESHBUS_BIN to the "
                  "program or its folder");
}

}  // namespace meshbus
