#include "client/python/rank/interpreter_lock.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace meshbus::python {
namespace {

/// Threads inside of Python. Never destroyed: handlers may run until the process is gone.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;
  bool is_closed = false;
};
Gate& gate() {
  static auto* one = new Gate;
  return *one;
}

PyThreadState* thread_state() {
  thread_local PyThreadState* state = PyThreadState_New(PyInterpreterState_Main());
  return state;
}

}  // namespace

InterpreterLock::InterpreterLock() {
  {
    std::lock_guard lock(gate().mutex);
    if (gate().is_closed) return;
    ++gate().inside;
  }
  is_held_ = true;
  PyEval_RestoreThread(thread_state());
}

InterpreterLock::~InterpreterLock() {
  if (!is_held_) return;
  PyEval_SaveThread();
  std::lock_guard lock(gate().mutex);
  if (--gate().inside == 0) gate().changed.notify_all();
}

bool InterpreterLock::close(double seconds) {
  std::unique_lock lock(gate().mutex);
  gate().is_closed = true;
  const auto is_empty = [] { return gate().inside == 0; };
  // More than 10 years is for ever; nanoseconds of it would overflow.
  if (!(seconds < 3.15e8)) {
    gate().changed.wait(lock, is_empty);
    return true;
  }
  return gate().changed.wait_for(lock, std::chrono::duration<double>(seconds), is_empty);
}

}  // namespace meshbus::python
