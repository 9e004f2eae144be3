#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/host/model/proc_table.h"
#include "common/bus/bus.h"

namespace meshbus::host {

/// Tells owners and subscribers what has changed: one batch per mesh and turn, in order; and sends
/// owners what their procs wrote (StateChanged, Output). Lives on the reactor's thread.
class Publisher {
 public:
  Publisher(Bus& bus, std::string host) : bus_(bus), host_(std::move(host)) {}
  ~Publisher();
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  /// There is something to tell of that mesh.
  void mark(Mesh& mesh) { marked_.insert(&mesh); }
  /// Sends what is to be told. While there is no session nothing is sent: on_up() catches up.
  void flush();
  /// The mesh is forgotten.
  void forget(Mesh& mesh);
  /// Tells the updates of that mesh now, to the present owner and subscribers.
  void flush_changes(Mesh& mesh);
  /// Sends the owner the whole present state and the subscribers the ownership; before that, the
  /// updates that are not sent yet.
  void tell_owner(Mesh& mesh);
  /// The mesh was resized.
  void tell_layout(Mesh& mesh);
  /// The exit reports of these procs of a mesh, for a peer whose answer had no room for them.
  void send_exit_reports(const Mesh& mesh, const std::vector<const Proc*>& procs, const ProcId& to);
  /// There is a new session: messages of the former one may be lost, so everything is told again,
  /// and output that is not taken is sent again.
  void on_up(const ProcTable::Meshes& meshes);
  /// The owner has another address: what it did not take is sent again, there. Its state is for the
  /// caller to tell; subscribers are told the address.
  void on_owner_moved(Mesh& mesh);
  /// A message to the owner came back, though the owner is there: the state is told again a moment
  /// later, and output is sent again.
  void retry_owner(Mesh& mesh, bool was_output);

 private:
  /// Doubled each time, up to the last one; reset when nothing came back for twice as long.
  static constexpr std::chrono::milliseconds kFirstRetry{300};
  static constexpr std::chrono::milliseconds kLastRetry{10'000};
  struct Retry {
    Reactor::TimerId timer = 0;
    bool state = false;
    bool output = false;
    std::set<std::string> subscribers;  ///< To these something could not be sent.
    std::chrono::milliseconds delay{0};
    Reactor::Time last{};
  };
  /// Sends the present state of a mesh. False: the queue is full.
  bool send_snapshot(const Mesh& mesh, const ProcId& to);
  void tell(Mesh& mesh, const wire::StateChangedT& message, bool with_owner);
  void retry_subscriber(Mesh& mesh, const std::string& name);
  Retry& arm_retry(Mesh& mesh);
  void on_retry(Mesh& mesh);
  void flush_output(Mesh& mesh);

  Bus& bus_;
  std::string host_;
  std::set<Mesh*> marked_;
  std::map<Mesh*, Retry> retries_;
};

}  // namespace meshbus::host
