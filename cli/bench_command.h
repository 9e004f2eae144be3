#pragma once

#include "cli/command_line.h"

namespace meshbus::cli {

/// `meshbus bench VERB`. Returns the exit code: 0; 1 when it cannot be measured (it has been said why); 130 and 143 after a signal.
int bench_command(const BenchArguments& arguments);

}  // namespace meshbus::cli
