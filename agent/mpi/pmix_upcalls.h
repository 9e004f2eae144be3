#pragma once

#include <pmix_server.h>

#include <cstdint>
#include <string>
#include <vector>

namespace meshbus::mpi {

/// What libpmix asks of its host. All of it runs on libpmix's thread, which must not be kept
/// waiting.
class PmixHost {
 public:
  PmixHost() = default;
  PmixHost(const PmixHost&) = delete;
  PmixHost& operator=(const PmixHost&) = delete;
  virtual ~PmixHost() = default;

  /// The rank is between MPI_Init and MPI_Finalize, or is no longer.
  virtual void on_inside(std::uint64_t rank, bool is_inside) = 0;
  virtual void on_abort(std::uint64_t rank, int code, std::string text) = 0;
  /// The rank asks for what a launcher without spawning cannot give.
  virtual void on_refused(std::uint64_t rank, std::string call) = 0;
  /// `done` is called once, on any thread but this one: libpmix 5 holds a lock that it takes again.
  virtual void on_logged(pmix_op_cbfunc_t done, void* data) = 0;
  /// Ranks that meet; empty = all. `done` is called once, on any thread but this one.
  virtual void on_fence(std::string name_space, std::vector<std::uint64_t> ranks, std::string part,
                        pmix_modex_cbfunc_t done, void* data) = 0;
  /// What a rank of another host has put.
  virtual void on_direct_modex(std::uint64_t rank, pmix_modex_cbfunc_t done, void* data) = 0;
};

/// The functions that libpmix calls; they call that host. There is one in a process: libpmix passes
/// nothing by which two could be told apart.
pmix_server_module_t make_module(PmixHost& host);

/// Answers a request with bytes.
void answer(pmix_modex_cbfunc_t done, void* data, pmix_status_t status, const std::string& bytes);

}  // namespace meshbus::mpi
