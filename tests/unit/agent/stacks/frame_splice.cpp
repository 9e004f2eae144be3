// Python's functions in place of the interpreter's.
#include "agent/stacks/frame_splice.h"

#include <doctest/doctest.h>

using namespace meshbus::stacks;
using meshbus::wire::FrameKind;

namespace {

NamedFrame native(const std::string& function, const std::string& file, bool is_interpreter) {
  NamedFrame named;
  named.frame.function = function;
  named.frame.file = file;
  named.is_interpreter = is_interpreter;
  return named;
}

NamedPythonFrame python(const std::string& function, bool is_last_of_call) {
  NamedPythonFrame named;
  named.frame.function = function;
  named.frame.kind = FrameKind::python;
  named.is_last_of_call = is_last_of_call;
  return named;
}

std::string names(const std::vector<meshbus::wire::StackFrameT>& frames) {
  std::string text;
  for (const auto& frame : frames) text += (text.empty() ? "" : " < ") + frame.function;
  return text;
}

}  // namespace

TEST_CASE("frame_splice: C that Python calls and that calls Python stays between the two") {
  const auto frames =
      splice({native("poll", "libc.so.6", false), native("wait_for", "libsolver.so", false),
              native("_PyEval_EvalFrameDefault", "python3.11", true),
              native("call", "python3.11", true), native("each", "libsolver.so", false),
              native("_PyEval_EvalFrameDefault.cold", "python3.11", true),
              native("main", "python3.11", true),
              native("__libc_start_main@@GLIBC_2.34", "libc.so.6", false),
              native("_start", "python3.11", true)},
             {python("inner", false), python("callback", true), python("run", false),
              python("<module>", true)});
  CHECK(names(frames) == "poll < wait_for < inner < callback < each < run < <module>");
}

TEST_CASE("frame_splice: without Python all is there but what the C library has below main") {
  CHECK(names(splice({native("read", "libc.so.6", false), native("main", "a", false),
                      native("", "libc.so.6", false), native("_start", "a", false)},
                     {})) == "read < main");
  CHECK(names(splice({native("start_thread", "libc.so.6", false)}, {})) == "start_thread");
  CHECK(splice({}, {}).empty());
}

TEST_CASE("frame_splice: Python frames are there also when the native ones cannot be walked") {
  CHECK(names(splice({native("read", "libc.so.6", false)},
                     {python("load", false), python("<module>", true)})) ==
        "read < load < <module>");
}
