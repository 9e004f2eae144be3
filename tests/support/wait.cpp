#include "tests/support/wait.h"

#include <poll.h>

#include <algorithm>
#include <ctime>
#include <vector>

#include "tests/support/sanitizer_scale.h"

namespace meshbus::test {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<Watched*>& all_watched() {
  static std::vector<Watched*> all;
  return all;
}

// Other things than our own processes (a file, /proc) give no event; this is how late we notice
// them.
constexpr std::chrono::nanoseconds longest_nap = std::chrono::milliseconds(5);

void nap(std::chrono::nanoseconds longest) {
  std::vector<pollfd> polled;
  for (Watched* one : all_watched()) {
    one->add_descriptors([&](int fd) { polled.push_back({fd, POLLIN, 0}); });
  }
  const timespec time{
      0, static_cast<long>(std::clamp(longest, std::chrono::nanoseconds(0), longest_nap).count())};
  ::ppoll(polled.data(), polled.size(), &time, nullptr);
}

}  // namespace

Watched::Watched() {
  all_watched().push_back(this);
}
Watched::~Watched() {
  std::erase(all_watched(), this);
}

bool wait_until(const std::function<bool()>& predicate, std::chrono::milliseconds deadline) {
  const auto end = Clock::now() + deadline * slowness;
  while (true) {
    for (Watched* one : all_watched()) one->read_available();
    if (predicate()) return true;
    const auto left = end - Clock::now();
    if (left <= std::chrono::nanoseconds(0)) return false;
    nap(left);
  }
}

}  // namespace meshbus::test
