#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "tests/lab/lab.h"
#include "tests/support/environment.h"
#include "tests/support/leftovers.h"

int main(int argc, char** argv) {
  const meshbus::test::Environment environment;
  doctest::Context context(argc, argv);
  if (const std::string& reason = meshbus::test::Lab::why_not(); !reason.empty()) {
    std::printf("all multihost tests are skipped: %s\n", reason.c_str());
    context.addFilter("test-case-exclude", "*");  // counted in doctest's summary
  }
  meshbus::test::check_every_test_case(std::chrono::seconds(180));
  return context.run();
}
