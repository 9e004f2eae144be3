// Preloaded into a host, it makes the clock of all its processes differ by SKEW_SECONDS: a time
// namespace moves the monotonic clocks only.
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

namespace {

time_t skew() {
  const char* text = std::getenv("SKEW_SECONDS");
  return text == nullptr ? 0 : std::atol(text);
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    time->tv_sec += skew();
  return result;
}

int gettimeofday(timeval* time, void*) noexcept {
  timespec now{};
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return result;
}

time_t time(time_t* copy) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (copy != nullptr) *copy = now.tv_sec;
  return now.tv_sec;
}
}
