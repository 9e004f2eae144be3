#pragma once

namespace meshbus::cli {

/// Reads the command line and runs the command that it names. Help, and mistakes, end here: stderr
/// says what is wrong. Returns the exit code.
int run_command_line(int argc, char** argv);

}  // namespace meshbus::cli
