#pragma once

#include "meshbus/proc.h"
#include "tests/world/client_library.h"

/// What the conformance tests share. A proc of theirs is this very program.
namespace meshbus::test {

/// What the program is in a proc. The first argument says how it behaves:
///     serve                 answers on its ports until it is told to stop
///     grow                  serves, and when it is told to stop ends the hosts that it has started
///     main                  has a main() that asks whether it is to stop, and never minds
///     exit|kill RANK        that rank ends as soon as it is Ready: with 3, by SIGKILL; the others
///     serve early RANK            that rank exits with 7 instead of becoming Ready; the others
///     serve several               serves, in a process of several procs; its main() does what it
///     is told to on port `leave`;
///                           with a second argument `deaf` that does nothing, and does not ask
///                           whether it is to stop
///     hang RANK...          these ranks never say hello; the others serve
int run_as_proc(int argc, char** argv);

/// The program `exit-with-local-procs`: a launcher that exits with 7 while procs run inside of it,
/// of which one never returns.
int exit_with_local_procs();

/// Its ports.
enum Port : std::uint32_t {
  echo = 1,   ///< What it was sent.
  place = 2,  ///< "MESH RANK at POINT", and of a cast " as POINT"
  left = 3,   ///< "PROC PORT": asks that port of that proc and answers with what it says. Empty:
              ///< "left of MESH RANK".
  right = 4,  ///< The same: "right of MESH RANK".
  block = 5,  ///< Tries all that would wait for itself: the errors, by line.
  environ_of = 6,  ///< The value of that variable; "-" without.
  setting = 7,     ///< The value of that setting, for a launcher in this proc.
  die = 8,         ///< Nothing: it kills itself.
  leave = 10,      ///< Nothing: main() returns that number; or it is to "throw", "exit" with 9, or
                   ///< "stick" for ever.
  say = 11,        ///< Nothing: writes that on stdout.
  grow = 9,        ///< Starts a host, which is there as long as the proc is: a HostMeshRef as text.
};

/// Mesh procs of this program.
inline ProcSpec self(std::vector<std::string> arguments) {
  ProcSpec spec{.kind = ProcKind::mesh, .command = {bin("meshbus_conformance_tests")}};
  spec.command.insert(spec.command.end(), arguments.begin(), arguments.end());
  spec.ready_limit = in_time;
  return spec;
}

/// The values, an error in words.
inline std::vector<std::string> texts(const std::vector<Result<std::string>>& answers) {
  std::vector<std::string> found;
  for (const auto& answer : answers) found.push_back(answer ? *answer : answer.error().to_string());
  return found;
}

/// The codes of errors, `none` of a value.
inline std::vector<ErrorCode> codes(const std::vector<Result<std::string>>& answers) {
  std::vector<ErrorCode> found;
  for (const auto& answer : answers)
    found.push_back(answer ? ErrorCode::none : answer.error().code());
  return found;
}

}  // namespace meshbus::test
