#pragma once

#include <chrono>
#include <functional>

namespace meshbus::test {

/// For what must come, on a busy machine with sanitizers. What must come *soon* is measured against
/// a promise instead.
inline constexpr std::chrono::milliseconds in_time(60'000);

/// Waits until `predicate` holds; false when it does not within `deadline`. Meanwhile the output of
/// every Process is read, and the predicate is asked again at once when one of them writes or ends,
/// else every few milliseconds. This is the one place in the tests that polls. Like everything in
/// this folder it belongs to the thread that runs the test case.
bool wait_until(const std::function<bool()>& predicate, std::chrono::milliseconds deadline);

/// Something with descriptors that wait_until() watches and reads. For Process.
class Watched {
 public:
  virtual ~Watched();
  /// Appends the descriptors to wait for.
  virtual void add_descriptors(const std::function<void(int)>& add) = 0;
  /// Reads what is there, without blocking.
  virtual void read_available() = 0;

 protected:
  Watched();
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
};

}  // namespace meshbus::test
