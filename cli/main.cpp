#include <cstdio>
#include <exception>

#include "cli/command_line.h"
#include "cli/support/exit_codes.h"
#include "common/base/standard_streams.h"

int main(int argc, char** argv) {
  meshbus::fill_standard_streams();
  try {
    return meshbus::cli::run_command_line(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "meshbus: %s\n", error.what());
    return meshbus::cli::kOwnFailure;
  }
}
