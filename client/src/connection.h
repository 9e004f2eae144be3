#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/bus/bus.h"
#include "common/bus/cast.h"
#include "meshbus/accumulation.h"
#include "meshbus/address.h"
#include "meshbus/rank_report.h"
#include "wire/forward.h"

namespace meshbus {

class Accumulating;
class ActorMonitor;
class ContextCore;
class LogFeed;
class MeshMonitor;

/// A launcher's way to a set of hosts: one Bus to the broker of its home host, and through it to all others. It also looks after the meshes
/// that were spawned through it: hands them what the agents tell, asks the hosts whether they are there, renews leases, and finds out what
/// was missed after a loss.
///
/// Made, closed and destroyed on the reactor's thread by the ContextCore; functions say when they may be called from elsewhere.
class Connection {
 public:
  using Answer = std::future<Result<ControlMessage>>;

  Connection(ContextCore& core, HostAddr home);
  /// To nobody: closed from the start.
  explicit Connection(ContextCore& core);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // From any thread while the caller has a ConnectionUse. What waits must not be the reactor's thread.

  /// Waits until the broker has registered this launcher. Errors: host_unreachable, the broker's refusal.
  Result<void> wait_up(std::chrono::milliseconds deadline);
  /// This launcher's ProcId, as agents know it. Empty before the first wait_up().
  std::string self() const;
  /// Asks; `get()` on what is returned waits, `deadline` at most.
  template <typename NativeBody>
  Answer ask(const Destination& to, NativeBody body, std::chrono::milliseconds deadline) {
    auto shared = std::make_shared<NativeBody>(std::move(body));
    const auto limit = clamp(deadline);
    return ask_with([to, shared, limit](Bus& bus, Bus::Answer answer) { bus.request(to, std::move(*shared), limit, std::move(answer)); });
  }
  Result<std::string> call(const ProcId& proc, std::uint32_t port, std::string_view body, std::chrono::milliseconds deadline);
  Result<void> send(const ProcId& proc, std::uint32_t port, std::string_view body);
  Result<void> send(const ProcId& proc, std::uint32_t port, const SharedBody& body);
  Result<void> cast(const ProcMeshRef& to, std::uint32_t port, std::string_view body);
  /// By ordinal.
  Result<CastAnswers::Answers> call_all(const ProcMeshRef& to, std::uint32_t port, std::string_view body,
                                        std::chrono::milliseconds deadline);
  /// `body`: as that of a call. The hosts know the reducer.
  Result<Accumulation> accumulate(const ProcMeshRef& to, std::uint32_t port, std::string_view body, Reducer reducer,
                                  const AccumulateOptions& options);

  // On the reactor's thread.

  const HostAddr& home() const noexcept { return home_; }
  bool is_open() const noexcept { return bus_ != nullptr && !retired_; }
  bool is_up() const noexcept { return bus_ != nullptr && bus_->is_up(); }
  Bus* bus() noexcept { return bus_.get(); }
  bool knows(const HostAddr& host) const { return hosts_.contains(host); }
  /// Hosts that can be reached through this connection, and may become its home when the first one is gone.
  void add_hosts(const std::vector<HostAddr>& hosts);
  /// Starts looking after a mesh. What agents tell about it goes to the monitor from now on.
  void add(std::shared_ptr<MeshMonitor> monitor);
  void remove(const MeshMonitor& monitor);
  /// A mesh is being handed over, with that lease: until all of its hosts have confirmed that, it is renewed as that lease wants it.
  void begin_handover(const std::string& mesh, std::chrono::milliseconds lease);
  /// Starts a feed of logs, and hands it what comes for it.
  void add(std::shared_ptr<LogFeed> feed);
  void remove(const LogFeed& feed);
  /// Hands it what the procs say of its actors, and the ends of these procs, which that other monitor hears of.
  void add(const std::shared_ptr<ActorMonitor>& actors, const std::shared_ptr<MeshMonitor>& procs);
  void remove(const ActorMonitor& actors);
  /// That host is gone for ever, by proof: its ranks are lost, now.
  void on_host_dead(const HostAddr& host, const std::string& reason);
  /// Its hosts were shut down: it stays for those who use it, but is not shared with new ones, and does not look for a new home.
  void retire() { retired_ = true; }
  /// Leaves the bus; all that waits fails.
  void close(const std::string& reason);

 private:
  Result<void> send_with(const ProcId& proc, std::uint32_t port, const std::function<Result<void>(Bus&)>& send);
  struct HostWatch {
    bool is_dead = false;
    bool is_asked = false;
    std::uint64_t incarnation = 0;
    std::optional<Reactor::Time> silent_since;
    /// Why it did not answer; of a dead one, how it ended.
    std::string problem;
  };
  struct Followed {
    std::shared_ptr<MeshMonitor> monitor;
    /// Who the agents think answers for it: this launcher, as it was called when it spawned the mesh.
    std::string owner;
    Reactor::Time lease_due{};
    /// While it is being handed over: the lease that the hosts have on which that is done already. Nobody else renews those yet.
    std::chrono::milliseconds given_lease{0};
    /// By host: the life of its agent that has answered the last resync(). Whoever is another one is asked for all that it knows.
    std::map<HostAddr, std::uint64_t> synced = {};
  };
  using Asker = std::function<void(Bus&, Bus::Answer)>;

  static std::chrono::milliseconds clamp(std::chrono::milliseconds deadline);
  Answer ask_with(Asker asker);
  Error explain(const Error& error) const;
  void open_bus();
  void move_home();
  void on_up(const wire::Welcome& welcome);
  void on_down(const std::string& reason);
  void on_refused(const Error& error);
  void on_state_changed(const Request& request, const wire::StateChanged& changed);
  void on_output(const Request& request, const wire::Output& output);
  void on_log(const Request& request, const wire::Log& log);
  /// What comes for a port.
  void on_data(const wire::Envelope& envelope, const wire::CallHeader& header, Bytes body);
  void on_actor_event(const Request& request, const wire::ActorEvent& event);
  /// A proc in which somebody may wait for an actor has ended.
  void on_proc_end(const std::weak_ptr<ActorMonitor>& actors, const RankReport& proc);
  std::shared_ptr<MeshMonitor> find(const flatbuffers::String* mesh) const;
  /// The host whose agent sent that; null when it was no agent of ours.
  const HostAddr* agent_behind(const wire::Envelope& envelope) const;
  void on_upkeep();
  std::chrono::milliseconds upkeep_interval() const;
  void check_host(const HostAddr& host, HostWatch& watch);
  void on_host_answer(const HostAddr& host, const Result<ControlMessage>& answer);
  void lose(const HostAddr& host, const std::string& reason);
  /// What a call to that host gets at once, because the host is proved lost; nothing for any other host.
  std::optional<Error> loss_of(const HostAddr& host) const;
  void lose_all(const std::string& reason);
  /// Asks an agent for all that it knows of a mesh; after a move also to be told of changes, since it knows its owner under another
  /// address.
  void resync(Followed& mesh, const HostAddr& host);
  /// The agents send again what of its output was not taken.
  void ask_for_output(const Followed& mesh);
  void renew_leases();

  ContextCore& core_;
  HostAddr home_;
  std::unique_ptr<Bus> bus_;
  std::map<HostAddr, HostWatch> hosts_;
  /// Key of a host's agent -> the host.
  std::map<std::uint64_t, HostAddr> agents_;
  std::map<std::string, Followed, std::less<>> meshes_;
  std::map<std::uint64_t, std::shared_ptr<LogFeed>> feeds_;
  std::vector<std::shared_ptr<ActorMonitor>> actors_;
  Name name_;
  std::uint64_t incarnation_;
  CastPlans plans_;
  Reactor::TimerId upkeep_timer_ = 0;
  Reactor::Time upkeep_due_{};
  std::optional<Reactor::Time> down_since_;
  Reactor::Time home_since_{};
  bool given_up_ = false;
  bool retired_ = false;
  std::shared_ptr<void> alive_ = std::make_shared<char>();

  /// Read from other threads.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string self_;
  bool up_ = false;
  bool closed_ = false;
  std::optional<Error> refusal_;
  std::string last_problem_;

  /// Reactor thread. By ticket; those that are over leave at their end.
  std::map<std::uint64_t, std::shared_ptr<Accumulating>> accumulating_;
};

/// Keeps a connection, and the core that owns it. Move-only; goes on any thread.
class ConnectionUse {
 public:
  ConnectionUse() = default;
  ConnectionUse(std::shared_ptr<ContextCore> core, Connection* connection) : core_(std::move(core)), connection_(connection) {}
  ConnectionUse(ConnectionUse&& other) noexcept : core_(std::move(other.core_)), connection_(std::exchange(other.connection_, nullptr)) {}
  ConnectionUse& operator=(ConnectionUse&& other) noexcept;
  ~ConnectionUse();

  Connection* operator->() const noexcept { return connection_; }
  Connection* get() const noexcept { return connection_; }
  const std::shared_ptr<ContextCore>& core() const noexcept { return core_; }

 private:
  std::shared_ptr<ContextCore> core_;
  Connection* connection_ = nullptr;
};

}  // namespace meshbus
