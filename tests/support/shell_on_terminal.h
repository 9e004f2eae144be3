#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/support/process.h"

namespace meshbus::test {

/// A shell on a terminal of 80x24, which runs a command and then says how that ended and whether
/// the terminal is as before. Says "tty=PATH=" at first, "rc=CODE" and "restored" at the end.
class ShellOnTerminal {
 public:
  /// Starts these words with these options.
  using Start = std::function<Process(const std::vector<std::string>&, ProcessOptions)>;
  explicit ShellOnTerminal(const std::vector<std::string>& command);
  /// Elsewhere than here, or as somebody else.
  ShellOnTerminal(const std::vector<std::string>& command, const Start& start);

  void type(const std::string& keys) { process_.write_stdin(keys); }
  void wait_for(const std::string& text);
  const std::string& out() const { return process_.out(); }
  /// What is between these words, which are there.
  std::string between(const std::string& begin, const std::string& end) const;
  /// Where stty finds the terminal.
  std::string tty() const { return between("tty=", "="); }
  Process& process() { return process_; }

 private:
  Process process_;
};

}  // namespace meshbus::test
