// What ThreadSanitizer does, in every program of this build: in the program and not in the
// environment, because procs get an environment of their own. TSAN_OPTIONS, where it is set, has
// the last word.
//
// What it finds goes to a file for each process, which `./dev test --tsan` counts; exit codes stay
// the program's own, since tests look at them. Threads that were not joined are no finding:
// `meshbus run` and `logs` end by _exit() when one of theirs waits for a reader that does not come.

extern "C" const char* __tsan_default_options();       // NOLINT(bugprone-reserved-identifier): the
                                                       // sanitizer asks for these names
extern "C" const char* __tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)

const char* __tsan_default_options() {
  return "second_deadlock_stack=1:report_thread_leaks=0:exitcode=0:log_path=" MESHBUS_TSAN_REPORTS
         "/race";
}

// libzmq hands messages from thread to thread by means that ThreadSanitizer cannot see into (it is
// not compiled with it), so what libzmq itself touches is left out, and what libsodium does for it
// (CURVE). Races in our own code are seen all the same: race.cpp proves it in every run. The
// descriptor of a socket is libzmq's too: libzmq closes it unseen, and the next user of the same
// number seems to race with the reactor's last use of it.
const char* __tsan_default_suppressions() {
  return "called_from_lib:libzmq.so.5\n"
         "called_from_lib:libsodium.so.23\n"
         "race:meshbus::Reactor::forget_socket";
}
