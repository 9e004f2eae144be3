#include "cli/hands/hand_signals.h"

#include <csignal>

namespace meshbus::cli {

HandSignals::HandSignals() : TakenSignals({SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGWINCH}) {
  // A reader that went away is an error of write(); a terminal that is not ours to read is the end
  // of input.
  for (const int one : {SIGPIPE, SIGTTIN, SIGTTOU}) ::signal(one, SIG_IGN);
}

}  // namespace meshbus::cli
