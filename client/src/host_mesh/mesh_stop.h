#pragma once

#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/src/context/connection.h"
#include "client/src/context/context_core.h"
#include "meshbus/host_mesh.h"

namespace meshbus {

/// Stops a mesh of any owner on a set of hosts, and follows it to its end: each host gets the
/// order, says what it has, and answers when that has ended. Lives on the reactor's thread.
class MeshStop : public std::enable_shared_from_this<MeshStop> {
 public:
  using Outcome = Result<std::vector<RankReport>>;
  using Time = Reactor::Time;
  struct Order {
    std::string mesh;
    StopOptions options;
    std::chrono::milliseconds grace;
    Time end;
  };

  /// `core` and `connection` outlive run().
  MeshStop(ContextCore& core, Connection& connection, const std::vector<HostAddr>& hosts,
           Order order);

  /// Once, on another thread than the reactor's: waits for the outcome, until `Order::end`. Errors:
  /// as HostMesh::stop_mesh().
  Outcome run();

 private:
  /// The state of one host.
  struct Place {
    HostAddr host;
    std::optional<MeshReport> report = {};
    /// Ranks that were meant and have ended, while processes that they have started have not.
    std::vector<std::uint64_t> descendants = {};
    std::string problem = {};
    bool is_done = false;
    /// We can see its unix socket: somebody listened there when the stop began.
    bool has_socket = false;
    Time awaited = {};
  };
  using Step = void (MeshStop::*)(std::size_t place);
  using Taker = void (MeshStop::*)(std::size_t place, const Result<ControlMessage>& answer);

  void start();
  void order(std::size_t place);
  void read(std::size_t place);
  void await(std::size_t place);
  void on_ordered(std::size_t place, const Result<ControlMessage>& answer);
  void on_read(std::size_t place, const Result<ControlMessage>& answer);
  void on_awaited(std::size_t place, const Result<ControlMessage>& answer);
  /// Does that step a little later, and not before there is a broker to ask.
  void again(std::size_t place, Step step);
  void after(std::chrono::milliseconds pause, std::size_t place, Step step);
  bool is_connected() const;
  template <typename Body>
  void ask(std::size_t place, Body body, std::chrono::milliseconds limit, Taker take);

  /// What connecting to its unix socket says; other hosts have none (refused).
  Result<void> probe_socket(const Place& place) const;
  /// Whether that is a host of this machine that has ended: nobody listens at its socket any more,
  /// which its warden holds open, and nothing outlives the warden.
  bool has_ended(const Place& place) const;
  /// Whether its broker has said that the host ends, which it does after all else there.
  bool has_said_bye(const Place& place) const;
  /// Whether it has ended. If so, its ranks count as ended when nothing of them can be left.
  bool may_end_with_host(std::size_t place);
  /// Its ranks have ended with it.
  void end_with_host(Place& place);
  std::vector<std::uint64_t> open_ranks(const Place& place) const;
  bool is_meant(std::uint64_t rank) const;
  void done(Place& place);
  void finish(Outcome outcome);
  Outcome outcome() const;
  std::string problem_of(const Place& place) const;
  /// At most `most`.
  std::chrono::milliseconds left(std::chrono::milliseconds most) const;

  ContextCore& core_;
  Connection& connection_;
  const Order order_;
  std::vector<Place> places_;
  bool is_over_ = false;
  Reactor::TimerId timer_ = 0;
  std::promise<Outcome> promise_;
};

}  // namespace meshbus
