#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/host/model/mesh_spec.h"
#include "common/base/unique_fd.h"
#include "common/config/config.h"
#include "common/security/token.h"

namespace meshbus::host {

/// The setting that a mesh proc gets: the one of its host, `config`, or, where that is only a
/// default, the one of its launcher (spec 11.2).
std::chrono::milliseconds setting_for_proc(const Config& config, DurationKey key,
                                           const std::vector<NamedValue>& of_launcher);

/// Makes what a mesh proc finds behind MESHBUS_BOOTSTRAP (schemas/bootstrap.fbs).
class BootstrapWriter {
 public:
  /// `broker`: ZeroMQ endpoint. `config`: the settings of this host; see setting_for_proc().
  BootstrapWriter(TokenMaker tokens, std::string broker, Config config)
      : tokens_(std::move(tokens)), broker_(std::move(broker)), config_(std::move(config)) {}

  /// One proc of the process.
  struct Rank {
    std::uint64_t rank;
    std::uint64_t incarnation;
  };
  /// The bytes for a process with these ranks, at least one.
  std::vector<std::uint8_t> encode(const MeshSpec& spec, const std::vector<Rank>& ranks) const;
  /// The same in sealed memory, read position at the start. Errors: io_error.
  Result<UniqueFd> write(const MeshSpec& spec, const std::vector<Rank>& ranks) const;

 private:
  TokenMaker tokens_;
  std::string broker_;
  Config config_;
};

}  // namespace meshbus::host
