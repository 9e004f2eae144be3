#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include <unistd.h>

#include <pybind11/pybind11.h>

namespace meshbus::python {

/// How long a wait goes on without a look at signals: what Ctrl-C takes at most to get through.
inline constexpr std::chrono::milliseconds kSignalLook{50};
/// The same of threads that get no signals.
inline constexpr std::chrono::milliseconds kOtherLook{1000};

/// A time as Python gives it; none, or more than 10 years, is for ever.
inline std::chrono::milliseconds milliseconds_of(std::optional<double> seconds) {
  if (!seconds || !(*seconds < 3.15e8)) return std::chrono::milliseconds::max();
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(std::ceil(std::max(0.0, *seconds) * 1000)));
}

/// Waits in short pieces, without the GIL, until `wait(until)` is true or the time is over; between
/// two of them the signal handlers of Python run, and what they raise ends the wait. Whether it
/// became true. Needs the GIL.
template <typename Wait>
bool wait_with_signals(std::optional<double> seconds, Wait wait) {
  namespace py = pybind11;
  using Clock = std::chrono::steady_clock;
  const auto limit = milliseconds_of(seconds);
  const bool has_end = limit != std::chrono::milliseconds::max();
  static const thread_local bool is_main = ::gettid() == ::getpid();
  const auto look = is_main ? kSignalLook : kOtherLook;
  const auto end = has_end ? Clock::now() + limit : Clock::time_point::max();
  for (;;) {
    {
      py::gil_scoped_release release;
      const bool is_true = wait(std::min(end, Clock::now() + look));
      // A daemon thread at the end of Python must not ask for the GIL: that would end the thread in
      // the middle of C++, and the process with it.
      while (!is_main && _Py_IsFinalizing() != 0) ::pause();
      if (is_true) return true;
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (has_end && Clock::now() >= end) return false;
  }
}

}  // namespace meshbus::python
