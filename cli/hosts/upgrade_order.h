#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "client/src/context/connection.h"
#include "meshbus/host_mesh.h"

namespace meshbus::cli {

/// Has one host replace its programs, and waits for the outcome. The broker that is asked, and the
/// agent that answers, are replaced meanwhile: what they are asked then gets lost and is asked
/// again.
class UpgradeOrder {
 public:
  /// `connection`: to that host itself. `programs`: a folder there; empty: where they are now.
  /// `has_ended`: asked when the host does not answer; true: it is not waited for any more.
  UpgradeOrder(ConnectionUse connection, HostAddr host, std::string programs,
               std::function<bool()> has_ended)
      : connection_(std::move(connection)),
        host_(std::move(host)),
        programs_(std::move(programs)),
        has_ended_(std::move(has_ended)) {}

  /// The host, when the upgrade has an outcome; which one is in `upgrade`. Errors: refused,
  /// out_of_range, io_error (nothing was replaced); timeout, and others: what came of it is not
  /// known.
  Result<HostReport> run(std::chrono::milliseconds limit);

 private:
  using Clock = std::chrono::steady_clock;
  /// Its number. Errors: as run().
  Result<std::uint32_t> start(std::chrono::milliseconds limit);
  Result<HostReport> look(std::chrono::milliseconds limit);

  ConnectionUse connection_;
  HostAddr host_;
  std::string programs_;
  std::function<bool()> has_ended_;
};

}  // namespace meshbus::cli
