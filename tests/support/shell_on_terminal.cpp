#include "tests/support/shell_on_terminal.h"

#include <chrono>

namespace meshbus::test {
namespace {

/// For what must come, on a busy machine with sanitizers.
constexpr std::chrono::milliseconds kTextLimit(60'000);

/// For sh.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

std::string line_of(const std::vector<std::string>& command) {
  std::string line = "stty rows 24 cols 80; echo tty=`tty`=;";
  for (const auto& word : command) line += " " + quoted(word);
  return line + "; echo rc=$?; stty -a | grep -q ' icanon' && echo restored";
}

}  // namespace

ShellOnTerminal::ShellOnTerminal(const std::vector<std::string>& command)
    : ShellOnTerminal(command, [](const std::vector<std::string>& words, ProcessOptions options) {
        return Process(words, std::move(options));
      }) {}

ShellOnTerminal::ShellOnTerminal(const std::vector<std::string>& command, const Start& start)
    : process_(start({"script", "-qefc", line_of(command), "/dev/null"},
                     {.environment = {{"TERM", "vt100"}}, .stdin_pipe = true})) {}

void ShellOnTerminal::wait_for(const std::string& text) {
  process_.wait_for_output(text, kTextLimit);
}

std::string ShellOnTerminal::between(const std::string& begin, const std::string& end) const {
  const auto from = out().find(begin) + begin.size();
  return out().substr(from, out().find(end, from) - from);
}

}  // namespace meshbus::test
