#include "cli/run/job_signals.h"

#include <csignal>

namespace meshbus::cli {

JobSignals::JobSignals()
    : TakenSignals({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2}) {
  // A reader of our output that went away is an error of write(); a terminal that is not ours to
  // read is the end of input.
  for (const int one : {SIGPIPE, SIGTTIN, SIGTTOU}) ::signal(one, SIG_IGN);
}

void JobSignals::release() {
  while (next()) {
  }
  TakenSignals::release();
}

void JobSignals::stop_self() {
  ::raise(SIGSTOP);
}

}  // namespace meshbus::cli
