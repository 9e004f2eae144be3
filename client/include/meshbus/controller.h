#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "meshbus/address.h"
#include "meshbus/context.h"
#include "meshbus/rank_report.h"
#include "meshbus/result.h"
#include "meshbus/status.h"

/// Controllers (spec 8): hearing from one what happens to meshes of any launcher, and holding
/// one in this program. docs/supervision.md says what they notice, and within what time.
///
///     auto heard = *meshbus::Subscription::open(context,
///     {*meshbus::HostAddr::parse("tcp:h1:7420")}, {.mesh = "trainers-13Se1Maqzryj"},
///                                               [](const meshbus::SupervisionEvent& event) {
///                                               std::cout << event.describe() << "\n"; });
namespace [[gnu::visibility("default")]] meshbus {

/// Something that a controller has told, or that is to be told of it.
struct SupervisionEvent {
  /// What it is about.
  enum class Kind : std::uint8_t {
    rank,  ///< A rank is in another state than was told before: `rank`, with its exit report when
           ///< it has ended.
    trouble,  ///< A live rank is slow or frozen, or well again: `rank`, RankReport::trouble.
    host_unreachable,  ///< A host does not answer. That is no death: its procs may be well.
    host_back,         ///< It answers again.
    query_failed,  ///< The agent of a host answers, but not what it was asked: about the agent, not
                   ///< about a rank.
    ended,         ///< Every rank of a mesh has ended and was told: it is watched no longer.
    late,  ///< The controller was late: what it was to notice meanwhile it has noticed late. Only
           ///< of an EmbeddedController.
    controller_silent,  ///< Nothing is heard of the controller: what happens now is told when it,
                        ///< or another one, is there again.
    controller_lost,    ///< The same for as long as key watchdog: leases that it was to renew may
                        ///< have lapsed.
    controller_back,    ///< It is there again, at `host`; what has happened meanwhile follows.
  };
  Kind kind = Kind::rank;  ///< What happened.
  std::string mesh = {};   ///< With its uuid. Empty: about a host as a whole, or the controller.
  std::string actor = {};  ///< About the actors of that name in the procs of the mesh.
  std::optional<HostAddr> host;    ///< For rank, trouble and host_…: which one; for controller_…:
                                   ///< where the controller was at home.
  std::optional<RankReport> rank;  ///< For an actor in the terms of procs: ready = running. Without
                                   ///< RankReport::host_index, which is not told.
  std::string problem = {};        ///< In words: why a host, a query or the controller failed.
  std::uint64_t generation = 0;    ///< Counts what there was to tell of the mesh.
  /// State of the mesh: failed when a rank has failed; else running while one lives that can be
  /// heard; else unknown; else stopped.
  Status::Kind overall = Status::Kind::unknown;
  std::chrono::milliseconds lateness{0};  ///< How late `late` was.

  /// In one line: "trainers-13Se1Maqzryj: rank 1 (host=0/2,gpu=1/4 on tcp:h2:7420): killed by
  /// SIGKILL".
  std::string describe() const;
};

/// What to hear of.
struct SubscribeOptions {
  std::string mesh = {};  ///< With its uuid; empty: of every mesh.
  std::string actor =
      {};  ///< Not of its procs, but of the actors of that name in them. Only with a mesh.
  RankSet ranks =
      {};  ///< Only of these, and what is about the mesh as a whole; empty: all. Only with a mesh.
  /// For a controller to answer; one that is not there yet may come until then.
  std::chrono::milliseconds deadline = std::chrono::seconds(10);
};

/// Hears from a controller (spec 8.2): first what stands, then each change as it is noticed, each
/// once, in order for each rank, whatever is lost on its way. When the controller falls silent that
/// is told (within 5 s; key watchdog for controller_lost), and it is looked for, at all the hosts
/// that were named, until it or another one is there. Move-only; may be called from any thread.
/// Ends when it goes.
class Subscription {
 public:
  /// `hosts`: where the controller may be at home; the one where it answers counts. `on_event` runs
  /// on the Context's handlers' thread. Returns when a controller has said yes. Errors:
  /// configuration_error (no host, an actor or ranks without a mesh), parse_error (a name),
  /// host_unreachable or no_such_proc (no controller has answered in time: why, by host),
  /// unauthorised, refused by it; would_block, refused (after fork).
  static Result<Subscription> open(Context& context, std::vector<HostAddr> hosts,
                                   SubscribeOptions options,
                                   std::function<void(const SupervisionEvent&)> on_event);
  Subscription(Subscription&&) noexcept;
  Subscription& operator=(Subscription&&) noexcept;
  /// Says goodbye; no handler runs any more when this returns (unless it is called by it).
  ~Subscription();

  /// The controller that answered last.
  ProcId controller() const;

  class Impl;
  explicit Subscription(std::unique_ptr<Impl> impl);  ///< For the library.

 private:
  std::unique_ptr<Impl> impl_;
};

/// What an EmbeddedController watches.
struct EmbeddedControllerOptions {
  std::vector<HostAddr> hosts;  ///< At least one. It is at home at the first one that lets it in,
                                ///< where it is the only controller.
  std::string mesh =
      {};  ///< Only that one, by its whole name or the part before the uuid; empty: every mesh.
  /// Told all that it notices, on the Context's handlers' thread.
  std::function<void(const SupervisionEvent&)> on_event = {};
  /// For a broker to take it.
  std::chrono::milliseconds deadline = std::chrono::seconds(10);
};

/// A controller in this program: what the program `meshbus-controller` is, to those that subscribe
/// and to whom meshes are handed over, on the thread of a Context and with its settings
/// (supervision.poll, supervision.probe, lease, …). Move-only; may be called from any thread.
class EmbeddedController {
 public:
  /// Returns when a broker has taken it. Errors: configuration_error (no host), host_unreachable,
  /// unauthorised (it needs the key of an operator), identity_mismatch (there is a controller at
  /// home there already); would_block, refused (after fork).
  static Result<EmbeddedController> start(Context& context, EmbeddedControllerOptions options);
  EmbeddedController(EmbeddedController&&) noexcept;
  EmbeddedController& operator=(EmbeddedController&&) noexcept;
  /// Leaves the bus at once. Meshes that it answers for live on until their leases lapse; see
  /// end().
  ~EmbeddedController();

  /// For ProcMesh::handover() and Subscription::open(). Its host is another one when the broker
  /// there was away for too long.
  ProcId id() const;
  /// Ends in order (spec 8.5): stops the meshes that it answers for, with that reason, and waits
  /// until they have ended, for terminate.grace and stop.idle at the longest; then leaves the bus.
  /// A second call does nothing. Errors: stop_error (some have not ended: they do when their leases
  /// lapse); would_block, refused (after fork).
  Result<void> end(const std::string& reason = "the controller ends");

  class Impl;
  explicit EmbeddedController(std::unique_ptr<Impl> impl);  ///< For the library.

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshbus
