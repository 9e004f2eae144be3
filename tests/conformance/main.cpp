#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <string_view>

#include "tests/conformance/procs.h"
#include "tests/support/environment.h"
#include "tests/support/leftovers.h"

int main(int argc, char** argv) {
  // Launcher and proc in one executable (spec 4.3).
  if (meshbus::is_mesh_proc()) return meshbus::test::run_as_proc(argc, argv);
  if (argc == 2 && std::string_view(argv[1]) == "exit-with-local-procs")
    return meshbus::test::exit_with_local_procs();
  const meshbus::test::Environment environment;
  meshbus::test::check_every_test_case(std::chrono::seconds(180));
  return doctest::Context(argc, argv).run();
}
