#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/wait.h"

namespace meshbus::test {

/// How a process ended: by exit(code) or by a signal.
struct ExitStatus {
  std::optional<int> code;
  std::optional<int> signal;

  static ExitStatus exited(int code) { return {code, std::nullopt}; }
  static ExitStatus killed_by(int signal) { return {std::nullopt, signal}; }
  bool operator==(const ExitStatus&) const = default;
  /// "exit 3", "signal 9 (Killed)"
  std::string to_string() const;
};
std::ostream& operator<<(std::ostream& out, const ExitStatus& status);

struct ProcessOptions {
  /// Changes to the environment of the test program; no value unsets a variable.
  std::vector<std::pair<std::string, std::optional<std::string>>> environment = {};
  std::string directory = {};             ///< Empty: that of the test program.
  std::optional<std::string> input = {};  ///< What it reads from stdin; nothing: /dev/null.
  bool stdin_pipe = false;                ///< Instead: a pipe for write_stdin() and close_stdin().
  std::vector<int> inherit = {};  ///< Descriptors of the test program that it gets under the same
                                  ///< number; all others are closed.
};

/// A child process under test, in a process group of its own, with its output captured. Its end of
/// scope kills it (it alone, by pid: what it leaves behind is for the leftover check to find) and
/// reaps it. It is also killed when the test program dies. The thread that starts it must live as
/// long as it does. What cannot be done throws, which fails the test case.
class Process : private Watched {
 public:
  /// argv[0] is looked up in PATH when it has no slash. Throws when it cannot be executed.
  explicit Process(std::vector<std::string> argv, ProcessOptions options = {});
  ~Process() override;

  pid_t pid() const { return pid_; }
  bool is_running();
  /// How it ended; it is reaped then, and all that it wrote is in out() and err(). Throws when it
  /// still runs at the deadline, saying what it wrote.
  ExitStatus wait_exit(std::chrono::milliseconds deadline);
  /// Waits until out() or err() contains the text. Throws at the deadline, or as soon as the
  /// process ended without it.
  void wait_for_output(std::string_view text, std::chrono::milliseconds deadline);
  /// What it wrote so far, as far as it was read: by the wait functions, of whatever process, and
  /// by is_running().
  const std::string& out() const { return out_.text; }
  const std::string& err() const { return err_.text; }

  /// Does nothing once the process was reaped.
  void send_signal(int signal);
  void send_signal_to_group(int signal);
  /// Blocks when the pipe is full and the process does not read.
  void write_stdin(std::string_view text);
  void close_stdin();

  /// The command line, how it ended or that it runs, and the last of what it wrote: for failure
  /// messages.
  std::string describe() const;

 private:
  struct Stream {
    int fd = -1;
    std::string text;
    void read_available();
    void close();
  };
  void add_descriptors(const std::function<void(int)>& add) override;
  void read_available() override;

  std::vector<std::string> argv_;
  pid_t pid_ = -1;
  int pidfd_ = -1;
  int stdin_ = -1;
  Stream out_, err_;
  std::optional<ExitStatus> status_;
};

struct Finished {
  ExitStatus status;
  std::string out;
  std::string err;
  std::chrono::milliseconds elapsed;
};

/// Runs a command to its end. Throws when it takes longer than `deadline`; it is killed then.
Finished run(std::vector<std::string> argv, std::chrono::milliseconds deadline,
             ProcessOptions options = {});

}  // namespace meshbus::test
