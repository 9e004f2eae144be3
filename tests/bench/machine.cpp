#include "tests/bench/machine.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <ctime>
#include <fstream>

#include <zmq.h>

namespace meshbus::bench {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

int core_count() {
  return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
}

std::string kernel_version() {
  utsname names{};
  if (::uname(&names) != 0) return "unknown";
  const std::string release = names.release;
  return release.substr(0, release.find_first_not_of("0123456789."));
}

std::string zmq_version() {
  int major = 0, minor = 0, patch = 0;
  ::zmq_version(&major, &minor, &patch);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

double load_average() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 ? load : 0;
}

int nice_value() {
  return ::getpriority(PRIO_PROCESS, 0);
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[16];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d", &parts)};
}

bool is_optimised() noexcept {
#if defined(NDEBUG)
  return true;
#else
  return false;
#endif
}

}  // namespace meshbus::bench
