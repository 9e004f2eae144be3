#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/mpi/exchange.h"
#include "agent/mpi/letter.h"
#include "agent/mpi/rank_layout.h"
#include "common/base/mpi_notice.h"
#include "common/loop/reactor.h"
#include "meshbus/result.h"

namespace meshbus::mpi {

/// What a service of ranks besides PMI-1 works with. All of it outlives the service, and all runs
/// on the reactor's thread.
struct ServiceParts {
  Reactor& reactor;
  Exchange& exchange;
  RankLayout layout;
  std::uint64_t host = 0;
  std::string secret;     ///< Ranks prove by it that they are of the job.
  std::string directory;  ///< For its files.
  Exchange::Send send;    ///< Letters to other hosts, for `on_letter` there.
  std::function<void(Notice)> notify;
};

/// Serves the ranks of one host in the way of one kind of MPI library. An attempt is the number of
/// restarts: all ranks of a job are in the same one. Lives on the reactor's thread.
class RankService {
 public:
  RankService() = default;
  RankService(const RankService&) = delete;
  RankService& operator=(const RankService&) = delete;
  virtual ~RankService() = default;

  /// What a rank is to have in its environment: `NAME=VALUE`.
  virtual Result<std::vector<std::string>> environment(std::uint64_t rank,
                                                       std::uint64_t attempt) = 0;
  /// Whether the ranks of this host get their environments together, when the last one has asked.
  /// Ranks that use CPU time while they wait for one another need it, when a host has more of them
  /// than CPUs.
  virtual bool begins_together() const = 0;
  /// Whether that rank has called MPI_Init, and not MPI_Finalize.
  virtual bool is_inside(std::uint64_t rank) const = 0;
  /// Whether that rank has called MPI_Init in this attempt.
  virtual bool has_begun(std::uint64_t rank) const = 0;
  /// `ask` or `answer` of another host's service.
  virtual void on_letter(std::uint64_t from, Letter letter) = 0;
};

/// Makes a service, before the helper is on the bus. Errors: what it lacks.
using MakeService = std::function<Result<std::unique_ptr<RankService>>(ServiceParts parts)>;

}  // namespace meshbus::mpi
