#pragma once

#include <unistd.h>

#include <array>
#include <string>

namespace meshbus {

/// The host name of this machine, as hostname(1) prints it. Empty: the kernel does not say.
inline std::string machine_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

}  // namespace meshbus
