#pragma once

#include <chrono>

namespace meshbus::test {

/// Measures how long something takes in this process. The time in which its threads were ready to
/// run and waited for a CPU does not count: a busy machine does not break a promise.
class Stopwatch {
 public:
  Stopwatch();
  std::chrono::milliseconds elapsed() const;

 private:
  std::chrono::steady_clock::time_point start_;
  std::chrono::nanoseconds waited_;
};

}  // namespace meshbus::test
