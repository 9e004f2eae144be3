#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "tests/support/environment.h"
#include "tests/support/leftovers.h"
#include "tests/support/ssh_server.h"

int main(int argc, char** argv) {
  const meshbus::test::Environment environment;
  if (const auto& reason = meshbus::test::SshServer::why_not(); !reason.empty())
    std::printf("some integration tests are skipped: no sshd can be had: %s\n", reason.c_str());
  meshbus::test::check_every_test_case(std::chrono::seconds(180));
  return doctest::Context(argc, argv).run();
}
