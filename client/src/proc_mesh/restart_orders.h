#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/src/context/connection.h"
#include "client/src/context/context_core.h"
#include "client/src/monitors/mesh_monitor.h"
#include "common/address/mesh_layout.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {

/// Carries out what the RestartPolicy of a mesh decides: stops the ranks of a gang, and has new
/// lives begun, each once, however often that must be asked for. It is the host agents that know
/// when a former life is over: until then they refuse. Lives on the reactor's thread.
class RestartOrders : public std::enable_shared_from_this<RestartOrders> {
 public:
  /// By host index: what it was sent for the first lives. A host that was sent nothing starts ranks
  /// as its own records say: the mesh was taken over.
  using Messages = std::map<std::uint64_t, wire::SpawnProcsT>;

  RestartOrders(ContextCore& core, Connection& connection, std::weak_ptr<MeshMonitor> monitor,
                Messages messages);

  /// The mesh was resized, or a host has the place of another one: those are the messages of its
  /// new blocks, which know its layout. Also for ranks that it had before.
  void resize(const MeshLayout& layout, Messages added);
  /// The owner of the mesh for a host that a message has not come to. An agent knows an owner by an
  /// order that the owner itself has sent: with a message that is older than the launcher's place
  /// on the bus, the ranks would belong to a launcher that is not there any more.
  using OwnerFor = std::function<std::string(const HostAddr& host)>;
  void set_owner_for(OwnerFor owner_for) { owner_for_ = std::move(owner_for); }
  void start(const std::vector<std::uint64_t>& ranks);
  /// Ranks of a lost host, on the host that the mesh has for them now, with these messages: see
  /// resize().
  void start_moved(const RestartJudge::Move& move);
  void stop(const std::vector<std::uint64_t>& ranks, const RankReport& cause);

 private:
  /// Ranks of one host that are started for the same time.
  struct Part {
    std::uint64_t host = 0;
    std::uint64_t restarts = 0;
    std::vector<std::uint64_t> ranks;
    /// It may have been done, and we do not know.
    bool is_unclear = false;
    /// What the ranks come from, and why; empty: they stay where they are.
    std::string moved_from = {};
    std::string moved_because = {};
    Reactor::Time since{};
    std::chrono::milliseconds wait{0};
  };
  struct StopPart {
    std::uint64_t host = 0;
    std::vector<std::uint64_t> ranks;
    RankReport cause;
  };
  void start(const std::vector<std::uint64_t>& ranks, const std::string& from,
             const std::string& because);
  /// Drops what was begun meanwhile, or is not wanted any more.
  void prune(Part& part, MeshMonitor& monitor) const;
  void ask(Part part);
  void on_answer(Part part, const Result<ControlMessage>& answer);
  void on_state(Part part, const Result<ControlMessage>& answer);
  void ask_again(Part part);
  void order_stop(StopPart part);
  /// Null when nobody is interested any more; then the connection may be gone too.
  std::shared_ptr<MeshMonitor> find_monitor() const;
  template <typename Function>
  void after(std::chrono::milliseconds delay, Function function);

  ContextCore& core_;
  Connection& connection_;
  std::weak_ptr<MeshMonitor> monitor_;
  Messages messages_;
  OwnerFor owner_for_;
};

/// Has the restarts of that mesh carried out, from its arm() on. Any thread.
std::shared_ptr<RestartOrders> follow_restarts(ContextCore& core, Connection& connection,
                                               const std::shared_ptr<MeshMonitor>& monitor,
                                               RestartOrders::Messages messages);

}  // namespace meshbus
