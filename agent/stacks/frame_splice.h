#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "wire/stacks_generated.h"

namespace meshbus::stacks {

/// A native frame, and what it is to the interpreter.
struct NamedFrame {
  wire::StackFrameT frame;
  /// It is code of the Python interpreter.
  bool is_interpreter = false;
};

/// A Python frame; see PythonStacks::Frame.
struct NamedPythonFrame {
  wire::StackFrameT frame;
  bool is_last_of_call = false;
};

/// One stack of both, the innermost frame first: Python's functions in place of the frames of the
/// interpreter that runs them. Without Python frames nothing is left out but what the C library has
/// below main() and below the function of a thread. Pure.
std::vector<wire::StackFrameT> splice(std::vector<NamedFrame> native,
                                      std::vector<NamedPythonFrame> python);

}  // namespace meshbus::stacks
