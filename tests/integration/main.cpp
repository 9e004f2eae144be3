#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/integration/needs.h"
#include "tests/support/environment.h"
#include "tests/support/leftovers.h"
#include "tests/support/ssh_server.h"

int main(int argc, char** argv) {
  const meshbus::test::Environment environment;
  doctest::Context context(argc, argv);
  std::string reasons;
  const auto add = [&](const std::string& reason) {
    reasons += (reasons.empty() ? "" : "; ") + reason;
  };
  if (const auto& reason = meshbus::test::SshServer::why_not(); !reason.empty())
    add("no sshd can be had: " + reason);
  // tests/dev/deal has asked before, and chosen this case.
  if (std::getenv("TEST_CHOSEN") == nullptr) {
    for (const auto& [need, reason] : meshbus::test::unmet_needs()) {
      context.addFilter("test-suite-exclude", need.c_str());
      add("what " + need + ": " + reason);
    }
  }
  if (!reasons.empty()) std::printf("some integration tests are skipped: %s\n", reasons.c_str());
  // For what hangs: the longest takes 141 s on a busy machine (tests/slow).
  meshbus::test::check_every_test_case(std::chrono::seconds(360));
  return context.run();
}
