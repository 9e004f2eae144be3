#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/bytes.h"
#include "common/bus/destination.h"
#include "meshbus/proc_mesh_ref.h"
#include "meshbus/result.h"
#include "wire/bus_generated.h"
#include "wire/forward.h"

namespace meshbus {

/// Flags of envelopes between brokers; see relay.fbs.
inline constexpr std::uint32_t kFlagDetachedCast = 8;
inline constexpr std::uint32_t kFlagRelay = 16;

/// The body of a message or call with flag `cast`, taken apart; see CastHead in bus.fbs. The bytes
/// may stand at any address.
class CastBody {
 public:
  /// `body` must outlive what rest() is used for. Errors: malformed_message.
  static Result<CastBody> open(Bytes body);
  const wire::CastHead& head() const noexcept {
    return *flatbuffers::GetRoot<wire::CastHead>(head_.get());
  }
  /// Header and head, with padding: equal bytes mean the same.
  Bytes front() const noexcept { return front_; }
  /// What the receivers get: of a call the CallHeader too.
  Bytes rest() const noexcept { return rest_; }

 private:
  CastBody(std::unique_ptr<std::uint64_t[]> head, Bytes front, Bytes rest)
      : head_(std::move(head)), front_(front), rest_(rest) {}
  std::unique_ptr<std::uint64_t[]> head_;
  Bytes front_;
  Bytes rest_;
};

/// Header and head as bytes: what comes before the rest. `view` may be of another message.
std::string cast_front(std::string_view mesh, const std::vector<wire::CastRun>& runs,
                       const wire::RegionT& view);

/// A view of a mesh made ready to be cast to: computed once, used for any number of casts. A plain
/// value, never changed.
struct CastPlan {
  /// A view may have so many ranks.
  static constexpr std::uint64_t kMostRanks = 1024 * 1024;
  /// One message names so many runs of ranks; a view that is more scattered takes several. Every
  /// rank is in one of them.
  static constexpr std::size_t kMostRuns = 1024;

  /// `without_host`: leaves out the ranks of that host; 0: none. Errors: too_large (more than
  /// kMostRanks).
  static Result<std::shared_ptr<const CastPlan>> make(ProcMeshRef view,
                                                      std::uint64_t without_host = 0);

  struct Target {
    std::uint64_t proc;
    std::uint64_t host;
  };
  struct Piece {
    /// What its body begins with.
    std::string front;
    std::vector<std::uint64_t> ordinals;
  };
  ProcMeshRef view;
  /// By ordinal.
  std::vector<Target> targets;
  std::unordered_map<std::uint64_t, std::uint64_t> ordinal_of_proc;
  /// Hosts that have a rank of it.
  std::vector<Destination> hosts;
  std::vector<Piece> pieces;
  /// The largest body of a cast or call that is one message: what a message may have, less the
  /// ranks that it is for; nearly all of 1 MiB. Larger ones go before their message (CastBodies).
  std::size_t body_limit = 0;
};

/// The plan of the view that was asked for last: a sender that casts to it again does not
/// compute it again. One thread at a time.
class CastPlans {
 public:
  /// Errors: as CastPlan::make().
  Result<std::shared_ptr<const CastPlan>> get(const ProcMeshRef& view);

 private:
  std::shared_ptr<const CastPlan> last_;
};

/// Collects the answers to a cast_call for another thread. A rank that is left when the last copy
/// goes, because its Bus did, is of unknown fate.
class CastAnswers {
 public:
  using Answers = std::vector<Result<std::string>>;
  /// At least one rank.
  explicit CastAnswers(std::size_t ranks);
  ~CastAnswers();
  CastAnswers(const CastAnswers&) = delete;
  CastAnswers& operator=(const CastAnswers&) = delete;

  std::future<Answers> get_future() { return promise_.get_future(); }
  /// For each ordinal once.
  void fill(std::uint64_t ordinal, Result<std::string> answer);

 private:
  Answers answers_;
  std::size_t left_;
  std::promise<Answers> promise_;
};

}  // namespace meshbus
