#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/src/context/calls.h"
#include "client/src/gateway/gateway.h"
#include "client/src/gateway/host_monitor.h"
#include "client/src/monitors/update_router.h"
#include "client/src/monitors/upkeep.h"
#include "common/bus/bus.h"
#include "meshbus/accumulation.h"
#include "meshbus/address.h"
#include "wire/forward.h"

namespace meshbus {

class Accumulating;
class ContextCore;

/// A launcher's way to a set of hosts: sends and asks through its Gateway, which an Upkeep keeps
/// going; an UpdateRouter hands out what the hosts tell.
///
/// Made, closed and destroyed on the reactor's thread by the ContextCore.
class Connection {
 public:
  using Answer = std::future<Result<ControlMessage>>;

  Connection(ContextCore& core, HostAddr gateway);
  /// A connection to no host: closed from the start.
  explicit Connection(ContextCore& core);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // On any thread while the caller has a ConnectionUse; those that wait, not on the reactor's.

  /// As GatewayStatus::wait_up().
  Result<void> wait_up(std::chrono::milliseconds deadline) const;
  /// As GatewayStatus::self().
  std::string self() const { return gateway_.status().self(); }
  /// As GatewayStatus::losses().
  std::uint64_t losses() const { return gateway_.status().losses(); }
  /// Asks; `get()` on what is returned waits, for `deadline` at most. It asks once more when our
  /// broker says that nobody had the question: it met a later life of the host instead of the one
  /// that it knew.
  template <typename NativeBody>
  Answer ask(const Destination& to, NativeBody body, std::chrono::milliseconds deadline) {
    return ask_with(asker(to, std::move(body)), Calls::clamp(deadline), /*losses=*/0);
  }
  /// The same for what may be done twice: it asks again, too, when our broker was lost meanwhile,
  /// and nobody knows whether the question has arrived.
  template <typename NativeBody>
  Answer ask_again(const Destination& to, NativeBody body, std::chrono::milliseconds deadline) {
    return ask_with(asker(to, std::move(body)), Calls::clamp(deadline), kMostLosses);
  }
  /// Calls and casts.
  Calls& calls() noexcept { return calls_; }
  /// `body`: as that of a call. The hosts know the reducer.
  Result<Accumulation> accumulate(const ProcMeshRef& to, std::uint32_t port, std::string_view body,
                                  Reducer reducer, const AccumulateOptions& options);

  /// ConnectionUse objects count themselves.
  void add_use() noexcept { ++uses_; }
  /// True when this was the last one.
  bool drop_use() noexcept { return --uses_ == 0; }
  bool is_used() const noexcept { return uses_ != 0; }

  // On the reactor's thread.

  Gateway& gateway() noexcept { return gateway_; }
  UpdateRouter& updates() noexcept { return updates_; }
  Upkeep& upkeep() noexcept { return upkeep_; }
  HostMonitor& hosts() noexcept { return hosts_; }
  /// The host has ended, by proof: its ranks are lost, and calls to it fail.
  void on_host_ended(const HostAddr& host, const std::string& reason);
  /// Leaves the bus; all that waits fails.
  void close(const std::string& reason);

 private:
  using Asker = std::function<void(Bus&, std::chrono::milliseconds, Bus::Answer)>;

  Gateway::Options make_options();
  Gateway::Events make_events();
  /// Brokers in a row that may be lost while one question is asked.
  static constexpr int kMostLosses = 3;

  template <typename NativeBody>
  static Asker asker(const Destination& to, NativeBody body) {
    return [to, shared = std::make_shared<const ControlBody>(std::move(body))](
               Bus& bus, std::chrono::milliseconds limit, Bus::Answer answer) {
      bus.request(to, *shared, limit, std::move(answer));
    };
  }
  /// One question on its way.
  struct Asked {
    Asker asker;
    std::chrono::steady_clock::time_point end;
    std::promise<Result<ControlMessage>> answer;
    bool can_meet_later_life = true;  ///< A later life of the host asks for another try, once.
    int losses = 0;                   ///< So many lost brokers it may still meet.
  };
  /// `losses`: as Asked::losses.
  Answer ask_with(Asker asker, std::chrono::milliseconds deadline, int losses);
  void send(const std::shared_ptr<Asked>& asked);
  /// A message for a port of this launcher.
  void on_data(const wire::Envelope& envelope, const wire::CallHeader& header, Bytes body);

  ContextCore& core_;
  /// Expires with this object.
  std::shared_ptr<const bool> life_ = std::make_shared<const bool>(true);
  std::atomic<unsigned> uses_{0};
  Gateway gateway_;
  HostMonitor hosts_;
  UpdateRouter updates_;
  Upkeep upkeep_;
  Calls calls_;
  /// By ticket.
  std::map<std::uint64_t, std::shared_ptr<Accumulating>> accumulating_;
};

/// Keeps a connection, and the core that owns it. Move-only; goes on any thread.
class ConnectionUse {
 public:
  ConnectionUse() = default;
  /// Counts itself. Within a visit or a turn, or while the caller has another use.
  ConnectionUse(std::shared_ptr<ContextCore> core, Connection* connection)
      : core_(std::move(core)), connection_(connection) {
    connection_->add_use();
  }
  ConnectionUse(ConnectionUse&& other) noexcept
      : core_(std::move(other.core_)), connection_(std::exchange(other.connection_, nullptr)) {}
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
