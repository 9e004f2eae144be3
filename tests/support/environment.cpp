#include "tests/support/environment.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "tests/support/leftovers.h"

namespace meshbus::test {

namespace fs = std::filesystem;

namespace {

fs::path& root() {
  static fs::path path;
  return path;
}

void unset_our_variables() {
  std::vector<std::string> names;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view entry(*at);
    if (entry.starts_with("MESHBUS_") && !entry.starts_with("MESHBUS_TEST_"))
      names.emplace_back(entry.substr(0, entry.find('=')));
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

}  // namespace

Environment::Environment() {
  // A test program that is killed has said how far it came, also when it writes to a file.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  // Short, and always below /tmp: the path of a unix socket has room for 107 bytes.
  std::string name = "/tmp/mbtest-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr)
    throw std::system_error(errno, std::generic_category(), "cannot make " + name);
  root_ = root() = name;
  unset_our_variables();
  const auto make = [&](const char* variable, const char* folder) {
    fs::create_directory(root_ / folder);
    fs::permissions(root_ / folder, fs::perms::owner_all);
    ::setenv(variable, (root_ / folder).c_str(), 1);
  };
  make("XDG_RUNTIME_DIR", "run");
  make("TMPDIR", "tmp");
  make("HOME", "home");
  make("XDG_CONFIG_HOME", "config");
  make("XDG_STATE_HOME", "state");
  make("XDG_CACHE_HOME", "cache");
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot become a subreaper");
  ::signal(SIGPIPE, SIG_IGN);
}

Environment::~Environment() {
  kill_children({});
  cgroups_.leave();
  std::error_code ignored;
  fs::remove_all(root_, ignored);
  root().clear();
}

const fs::path& environment_root() {
  return root();
}

std::string bin(std::string_view program) {
  const fs::path path = fs::path(MESHBUS_TEST_BIN_DIR) / program;
  if (::access(path.c_str(), X_OK) != 0)
    throw std::runtime_error(path.string() + " is not there: build it first (ninja " +
                             std::string(program) + ")");
  return path.string();
}

}  // namespace meshbus::test
