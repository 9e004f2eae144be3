#pragma once

#include <map>
#include <set>
#include <string>

#include "agent/host/model/proc.h"
#include "common/bus/bus.h"

namespace meshbus::host {

/// Tells owners and subscribers what has changed: one batch per mesh and turn, in order, and what
/// procs wrote (StateChanged, Output). Lives on the reactor's thread.
class Publisher {
 public:
  Publisher(Bus& bus, std::string host) : bus_(bus), host_(std::move(host)) {}
  ~Publisher();
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  /// Something of that mesh is to be told.
  void mark(Mesh& mesh) { marked_.insert(&mesh); }
  /// Sends what is to be told. While there is no session nothing is sent: on_up() catches up.
  void flush();
  void forget(Mesh& mesh);
  /// Tells now what there is to tell of that mesh, so that what comes next is told to others than
  /// before.
  void flush_changes(Mesh& mesh);
  /// Tells the owner all that stands, and everybody else who the owner is. Also what was not told
  /// yet.
  void tell_owner(Mesh& mesh);
  /// The exit reports of these procs of a mesh, for one whom an answer could not tell them.
  void send_exit_reports(const Mesh& mesh, const std::vector<const Proc*>& procs, const ProcId& to);
  /// There is a new session: what was told before may be lost, so everything is told again, and
  /// output that is not taken is sent again.
  void on_up(const std::map<std::string, std::unique_ptr<Mesh>, std::less<>>& meshes);
  /// Something for the owner came back, though it is there: the state is told again a moment later,
  /// and output is sent again.
  void retry_owner(Mesh& mesh, bool was_output);

 private:
  /// Doubled each time, up to the last one; afresh when nothing came back for twice as long.
  static constexpr std::chrono::milliseconds first_retry{300};
  static constexpr std::chrono::milliseconds last_retry{10'000};
  struct Retry {
    Reactor::TimerId timer = 0;
    bool state = false;
    bool output = false;
    std::set<std::string> subscribers;  // to whom something could not be sent
    std::chrono::milliseconds delay{0};
    Reactor::Time last{};
  };
  /// The present state of a mesh. False: the queue is full.
  bool send_snapshot(const Mesh& mesh, const ProcId& to);
  void retry_subscriber(Mesh& mesh, const std::string& name);
  Retry& arm_retry(Mesh& mesh);
  void flush_output(Mesh& mesh);

  Bus& bus_;
  std::string host_;
  std::set<Mesh*> marked_;
  std::map<Mesh*, Retry> retries_;
};

}  // namespace meshbus::host
