#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace meshbus::torch {

/// The machine of a rank, as far as it is known.
struct TorchHost {
  std::uint64_t cpus = 1;  ///< Those that the rank may run on.
  std::string interface;   ///< The network interface that has the host's address; may be empty.
};

/// Reads a variable of the rank's environment; nothing when it is not set.
using ReadVariable = std::function<std::optional<std::string>(const std::string& name)>;

/// Attempts after which MASTER_PORT comes round again. The launcher's port is followed by so many
/// others that were free too.
inline constexpr std::uint64_t kMasterPorts = 8;

/// What a program that was written for torchrun reads beside what every rank has: GROUP_RANK,
/// ROLE_RANK, TORCHELASTIC_RUN_ID and their kin; a MASTER_PORT of its own for each attempt; the
/// interface for gloo, NCCL and tensorpipe, and OMP_NUM_THREADS, where they are not set. Pure.
std::vector<std::pair<std::string, std::string>> torch_variables(const ReadVariable& read,
                                                                 const TorchHost& host);

}  // namespace meshbus::torch
