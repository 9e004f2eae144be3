#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "client/src/gateway/gateway.h"
#include "client/src/gateway/host_monitor.h"
#include "common/bus/bus.h"
#include "common/bus/cast.h"
#include "common/bus/held_body.h"
#include "meshbus/address.h"
#include "meshbus/body_parts.h"
#include "meshbus/proc_mesh_ref.h"

namespace meshbus {

class AsyncCall;
class ContextCore;
class UpdateRouter;

/// The calls and casts of a launcher through one connection. On any thread while the caller has a
/// ConnectionUse, unless it says otherwise; what waits, not on the reactor's.
class Calls {
 public:
  Calls(ContextCore& core, Gateway& gateway, HostMonitor& hosts, const UpdateRouter& updates)
      : core_(core), gateway_(gateway), hosts_(hosts), updates_(updates) {}
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  /// A deadline that the Bus can count.
  static std::chrono::milliseconds clamp(std::chrono::milliseconds deadline);
  Result<std::string> call(const ProcId& proc, std::uint32_t port, const BodyParts& body,
                           std::chrono::milliseconds deadline);
  /// The same without waiting: `call` gets the answer.
  void call_async(const ProcId& proc, std::uint32_t port, const BodyParts& body,
                  std::chrono::milliseconds deadline, const std::shared_ptr<AsyncCall>& call);
  /// Waits for the ranks when the body is above CastPlan::body_limit.
  Result<void> cast(const ProcMeshRef& to, std::uint32_t port, const BodyParts& body);
  /// By ordinal.
  Result<CastAnswers::Answers> call_all(const ProcMeshRef& to, std::uint32_t port,
                                        const BodyParts& body, std::chrono::milliseconds deadline);
  /// The same without waiting: `call` gets the answers.
  void call_all_async(const ProcMeshRef& to, std::uint32_t port, const BodyParts& body,
                      std::chrono::milliseconds deadline, const std::shared_ptr<AsyncCall>& call);

  /// Within a visit or a turn.
  Result<std::shared_ptr<const CastPlan>> plan(const ProcMeshRef& view) { return plans_.get(view); }

 private:
  Result<void> cast_large(const std::shared_ptr<const CastPlan>& to, std::uint32_t port,
                          const BodyParts& body);
  /// How HeldBody has to hold a call's body for that host. Errors: too_large; host_unreachable,
  /// when the connection is closed.
  Result<std::optional<bool>> how_to_hold(const BodyParts& body, const HostAddr& host);
  /// What of a call to all ranks of a view is known before it is sent.
  struct Prepared {
    std::shared_ptr<const CastPlan> plan;
    /// Ranks that answer nothing: their host is proved lost, or they are plain procs. By ordinal.
    std::map<std::uint64_t, Error> losses;
  };
  /// Within a visit or a turn. Errors: host_unreachable, and those of the view.
  Result<Prepared> prepare(const ProcMeshRef& to);
  /// Within a visit or a turn; errors as prepare(). The call leaves at once.
  Result<std::uint64_t> begin_call(const ProcId& proc, const Destination& to, std::uint32_t port,
                                   const HeldBody& body, std::chrono::milliseconds deadline,
                                   Bus::CallAnswer answer);
  /// The error of a call to that proc, with what this launcher knows.
  Error explain(const ProcName& proc, const Error& error) const;
  Error explain(const ProcMeshRef& view, std::uint64_t ordinal, const Error& error) const;
  std::uint64_t begin_call_all(const Prepared& prepared, std::uint32_t port, const HeldBody& body,
                               std::chrono::milliseconds deadline, Bus::CastAnswer answer);

  ContextCore& core_;
  Gateway& gateway_;
  HostMonitor& hosts_;
  const UpdateRouter& updates_;
  CastPlans plans_;
};

}  // namespace meshbus
