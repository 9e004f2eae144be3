#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/mpi/pmix_upcalls.h"
#include "agent/mpi/rank_service.h"

namespace meshbus::mpi {

/// PMIx for the ranks of one host, by libpmix's server. What libpmix asks on its thread is carried
/// to the reactor's, on which everything else lives.
class PmixService final : public RankService, private PmixHost {
 public:
  /// Errors: io_error (libpmix says why).
  static Result<std::unique_ptr<RankService>> make(ServiceParts parts);
  /// libpmix itself is not ended: that can hang (docs/guide/mpi.md). The process must end soon.
  ~PmixService() override = default;

  Result<std::vector<std::string>> environment(std::uint64_t rank, std::uint64_t attempt) override;
  bool begins_together() const override;
  bool is_inside(std::uint64_t rank) const override;
  bool has_begun(std::uint64_t rank) const override;
  void on_letter(std::uint64_t from, Letter letter) override;

 private:
  struct Request {
    pmix_modex_cbfunc_t done;
    void* data;
  };

  explicit PmixService(ServiceParts parts) : parts_(std::move(parts)) {}
  Result<void> start();
  /// A namespace of its own for each attempt: late words of the one before cannot disturb it.
  Result<void> begin_attempt(std::uint64_t attempt);
  std::string name_space(std::uint64_t attempt) const;
  pmix_proc_t proc(std::uint64_t rank) const;
  std::string directory(const char* name) const { return parts_.directory + "/" + name; }
  void fence(const std::string& name_space, const std::vector<std::uint64_t>& ranks,
             std::string part, Request request);
  void answer_ask(std::uint64_t from, const Letter& letter);

  // On libpmix's thread:
  void on_inside(std::uint64_t rank, bool is_inside) override;
  void on_abort(std::uint64_t rank, int code, std::string text) override;
  void on_refused(std::uint64_t rank, std::string call) override;
  void on_logged(pmix_op_cbfunc_t done, void* data) override;
  void on_fence(std::string name_space, std::vector<std::uint64_t> ranks, std::string part,
                pmix_modex_cbfunc_t done, void* data) override;
  void on_direct_modex(std::uint64_t rank, pmix_modex_cbfunc_t done, void* data) override;

  ServiceParts parts_;
  std::uint64_t attempt_ = 0;
  std::optional<std::uint64_t> ended_;             ///< The attempt before, still registered.
  std::map<std::string, std::uint64_t> meetings_;  ///< How often these ranks have met.
  std::map<std::string, Request> requests_;        ///< For what ranks of other hosts have put.
  std::uint64_t next_request_ = 0;
  mutable std::mutex mutex_;
  std::set<std::uint64_t> inside_;  ///< Guarded by mutex_.
  std::set<std::uint64_t> begun_;   ///< Guarded by mutex_.
};

}  // namespace meshbus::mpi
