#pragma once

#include "agent/hands/command.h"
#include "agent/os/terminal_records.h"

namespace meshbus::hands {

/// Runs a command on a terminal of its own: what comes by our stdin are records
/// (agent/os/terminal_records.h), and what the terminal shows goes to our stdout. SIGHUP and
/// SIGTERM hang it up. Returns how the command ended, as waitpid() does.
int run_on_terminal(const RankPlace& place, const Command& command, os::TerminalSize size);

}  // namespace meshbus::hands
