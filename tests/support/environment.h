#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "tests/support/own_cgroups.h"

namespace meshbus::test {

/// The surroundings of a test program, made first thing in main() and removed at its end: a
/// directory of its own for everything that programs write (TMPDIR, XDG_RUNTIME_DIR,
/// XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_CACHE_HOME, HOME), no MESHBUS_* variable from outside but
/// MESHBUS_TEST_*, SIGPIPE ignored, stdout written line by line, and the role of a child subreaper:
/// whatever escapes from a process under test becomes a child of the test program and is seen. And
/// OwnCgroups.
class Environment {
 public:
  Environment();
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::filesystem::path root_;
  OwnCgroups cgroups_;
};

/// The directory that Environment made; empty before and after.
const std::filesystem::path& environment_root();

/// The path of a program of this build: bin("meshbus-broker"). Throws when it was not built.
std::string bin(std::string_view program);

}  // namespace meshbus::test
