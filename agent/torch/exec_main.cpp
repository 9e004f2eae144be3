// meshbus-torch-exec PROGRAM ARGUMENTS...: becomes that program, with the variables that one
// written for torchrun reads. `meshbus torchrun` and `meshbus run --torch` put it in front of the
// command.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "agent/torch/own_interface.h"
#include "agent/torch/torch_variables.h"

namespace {

constexpr int kUsage = 2;
constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;

std::optional<std::string> read_variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::uint64_t usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<std::uint64_t>(CPU_COUNT(&set))
                                                       : 1;
}

/// "h2" of "tcp:h2:7420,train_3-13Se1Maqzryj"; empty for a host that has no tcp address.
std::string own_host() {
  std::string address = read_variable("MESHBUS_ADDR").value_or("");
  if (!address.starts_with("tcp:")) return {};
  address = address.substr(4, address.find(',') - 4);
  address.resize(std::min(address.rfind(':'), address.size()));
  if (address.starts_with('[') && address.ends_with(']'))
    address = address.substr(1, address.size() - 2);
  return address;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("meshbus-torch-exec: which program? meshbus torchrun starts this one\n", stderr);
    return kUsage;
  }
  const auto host = own_host();
  const meshbus::torch::TorchHost facts{
      .cpus = usable_cpus(),
      .interface = host.empty() ? std::string()
                                : meshbus::torch::find_own_interface(
                                      host, read_variable("MASTER_ADDR").value_or(""))};
  for (const auto& [name, value] : meshbus::torch::torch_variables(read_variable, facts))
    ::setenv(name.c_str(), value.c_str(), 1);
  for (const char* ours :
       {"MESHBUS_TORCH_HOSTS", "MESHBUS_TORCH_MAX_RESTARTS", "MESHBUS_TORCH_GANG"})
    ::unsetenv(ours);
  ::execvp(argv[1], argv + 1);
  const int error = errno;
  std::fprintf(stderr, "meshbus-torch-exec: cannot execute %s: %s\n", argv[1],
               std::strerror(error));
  return error == ENOENT ? kNotFound : kCannotExecute;
}
