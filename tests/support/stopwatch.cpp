#include "tests/support/stopwatch.h"

#include <filesystem>
#include <sstream>

#include "tests/support/temp_dir.h"

namespace meshbus::test {

namespace {

/// How long the threads of this process have waited for a CPU so far.
std::chrono::nanoseconds waited_for_cpu() {
  std::chrono::nanoseconds sum(0);
  std::error_code ignored;
  for (std::filesystem::directory_iterator at("/proc/self/task", ignored), end; at != end;
       at.increment(ignored)) {
    std::istringstream fields(read_file(at->path() / "schedstat"));
    std::int64_t ran = 0, waited = 0;
    if (fields >> ran >> waited) sum += std::chrono::nanoseconds(waited);
  }
  return sum;
}

}  // namespace

Stopwatch::Stopwatch() : start_(std::chrono::steady_clock::now()), waited_(waited_for_cpu()) {}

std::chrono::milliseconds Stopwatch::elapsed() const {
  const auto wall = std::chrono::steady_clock::now() - start_;
  return std::chrono::duration_cast<std::chrono::milliseconds>(wall - (waited_for_cpu() - waited_));
}

}  // namespace meshbus::test
