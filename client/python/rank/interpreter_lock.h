#pragma once

#include <atomic>

#include <pybind11/pybind11.h>

namespace meshbus::python {

/// The GIL, for a handler of the library on one of its threads. Each thread keeps its thread state,
/// so that what Python keeps by thread lives as long as the thread.
class InterpreterLock {
 public:
  InterpreterLock();
  ~InterpreterLock();
  InterpreterLock(const InterpreterLock&) = delete;
  InterpreterLock& operator=(const InterpreterLock&) = delete;

  /// False: Python is ending, and nothing of it may be touched.
  explicit operator bool() const { return is_held_; }

  /// From now on no thread gets in. Waits until those inside are out, at most so long; whether they
  /// are. Without the GIL.
  static bool close(double seconds);

 private:
  bool is_held_ = false;
};

}  // namespace meshbus::python
