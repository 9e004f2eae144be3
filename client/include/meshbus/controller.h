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

/// Controllers: subscribing to one, which watches the meshes of any launcher, and running
/// one in this program. docs/guide/supervision.md says what they notice, and how soon.
///
///     auto heard = must(meshbus::Subscription::open(
///         context, {*meshbus::HostAddr::parse("tcp:h1:7420")}, {.mesh = "trainers-13Se1Maqzryj"},
///         [](const meshbus::SupervisionEvent& event) { std::cout << event.describe() << "\n"; }));
namespace [[gnu::visibility("default")]] meshbus {

/// A report by a controller, or about it.
struct SupervisionEvent {
  /// The kind of event.
  enum class Kind : std::uint8_t {
    rank,     ///< The state of a rank has changed: `rank`, with its exit report when it has ended.
    trouble,  ///< A live rank is slow, frozen or stuck, or well again: `rank`,
              ///< RankReport::trouble.
    host_unreachable,  ///< A host does not answer. Its procs may be well.
    host_back,         ///< It answers again.
    query_failed,      ///< The agent of a host answers, but refuses the query: about the agent, not
                       ///< about a rank.
    ended,  ///< Every rank of a mesh has ended and was reported: it is watched no longer.
    late,   ///< The controller was late, and so are its events. EmbeddedController only.
    controller_silent,  ///< The controller does not answer: events follow when it, or another one,
                        ///< answers again.
    controller_lost,  ///< It has not answered for key watchdog: leases that it should have renewed
                      ///< may have lapsed.
    controller_back,  ///< It answers again, at `host`; missed events follow.
    restarting,  ///< The controller answers for the mesh and restarts ranks: `ranks`; `problem`
                 ///< says why, how soon, and which restart of the budget it is.
    given_up,    ///< Ranks that would be restarted are not: `ranks`, and why in `problem`.
    resized,     ///< The mesh has grown or shrunk: `ranks` came, or are gone; `problem` says so.
  };
  Kind kind = Kind::rank;  ///< What happened.
  std::string mesh = {};   ///< With its uuid. Empty: about a host as a whole, or the controller.
  std::string actor = {};  ///< About the actors of that name in the procs of the mesh.
  std::optional<HostAddr> host;    ///< For rank, trouble and host_…: which one; for controller_…:
                                   ///< where the controller was connected.
  std::optional<RankReport> rank;  ///< For an actor in the terms of procs: ready = running. Without
                                   ///< RankReport::host_index.
  std::string problem = {};        ///< Why a host, a query or the controller failed.
  RankSet ranks = {};              ///< For restarting, given_up and resized.
  std::uint64_t generation = 0;    ///< Counts the events of the mesh.
  /// State of the mesh: failed if a rank has failed; else running while a reachable rank is alive;
  /// else unknown if some rank is; else stopped.
  Status::Kind overall = Status::Kind::unknown;
  std::chrono::milliseconds lateness{0};  ///< How late `late` was.

  /// As one line: "trainers-13Se1Maqzryj: rank 1 (host=0/2,gpu=1/4 on tcp:h2:7420): killed by
  /// SIGKILL".
  std::string describe() const;
};

/// Which events a subscription gets.
struct SubscribeOptions {
  std::string mesh = {};  ///< With its uuid; empty: every mesh.
  std::string actor =
      {};  ///< Instead of its procs, the actors of that name in them. Only with a mesh.
  RankSet ranks =
      {};  ///< Only these ranks, and events of the whole mesh; empty: all. Only with a mesh.
  /// The time for a controller to answer; one that is not there yet may come until then.
  std::chrono::milliseconds deadline = std::chrono::seconds(10);
};

/// A subscription to a controller: first the present state, then each change as it is
/// noticed, each once, in order for each rank, even if messages are lost. A controller that falls
/// silent is reported (within 5 s; key watchdog for controller_lost); then the subscription looks
/// for it or another one at all the hosts that were named. Move-only; may be called from any
/// thread. Its destructor ends it.
class Subscription {
 public:
  /// `hosts`: where the controller may be connected; the first that answers counts. `on_event` runs
  /// on the Context's handlers' thread. Returns when a controller has accepted. Errors:
  /// configuration_error (no host, an actor or ranks without a mesh), parse_error (a name),
  /// host_unreachable or no_such_proc (no controller has answered in time: why, by host),
  /// unauthorised, refused by it; would_block, refused (after fork).
  [[nodiscard]] static Result<Subscription> open(
      Context& context, std::vector<HostAddr> hosts, SubscribeOptions options,
      std::function<void(const SupervisionEvent&)> on_event);
  Subscription(Subscription&&) noexcept;
  Subscription& operator=(Subscription&&) noexcept;
  /// Ends the subscription; no handler runs any more when this returns (unless the handler itself
  /// calls it).
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
  std::vector<HostAddr> hosts;  ///< At least one. It connects to the first one that accepts it,
                                ///< where it is the only controller.
  std::string mesh =
      {};  ///< Only that one, by its whole name or the part before the uuid; empty: every mesh.
  /// Gets all that the controller notices, on the Context's handlers' thread.
  std::function<void(const SupervisionEvent&)> on_event = {};
  /// The time for a broker to accept it.
  std::chrono::milliseconds deadline = std::chrono::seconds(10);
};

/// A controller in this program. Subscribers and owners of meshes cannot tell it from the program
/// `meshbus-controller`. It runs on the thread of a Context and with its settings
/// (supervision.poll, supervision.probe, lease, …). Move-only; may be called from any thread.
class EmbeddedController {
 public:
  /// Returns when a broker has accepted it. Errors: configuration_error (no host),
  /// host_unreachable, unauthorised (it needs the key of an operator), identity_mismatch (a
  /// controller is connected there already); would_block, refused (after fork).
  [[nodiscard]] static Result<EmbeddedController> start(Context& context,
                                                        EmbeddedControllerOptions options);
  EmbeddedController(EmbeddedController&&) noexcept;
  EmbeddedController& operator=(EmbeddedController&&) noexcept;
  /// Leaves the bus at once. Meshes that it owns live on until their leases lapse; see end().
  ~EmbeddedController();

  /// For ProcMesh::handover() and Subscription::open(). Its host changes when the broker there was
  /// away for too long.
  ProcId id() const;
  /// Ends in order: stops the meshes that it owns, with that reason, and waits until
  /// they have ended, at most terminate.grace plus stop.idle; then leaves the bus. A second call
  /// does nothing. Errors: stop_error (some have not ended; they end when their leases lapse);
  /// would_block, refused (after fork).
  [[nodiscard]] Result<void> end(const std::string& reason = "the controller ends");

  class Impl;
  explicit EmbeddedController(std::unique_ptr<Impl> impl);  ///< For the library.

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshbus
