#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "client/src/monitors/lease_renewer.h"
#include "common/loop/reactor.h"
#include "common/wire/control.h"
#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus {

class Config;
class Gateway;
class HostMonitor;
class UpdateRouter;

/// What a connection does now and then: asks the hosts whether they live, renews leases, gives up
/// what is lost, and moves to another gateway. Lives on the reactor's thread.
class Upkeep {
 public:
  Upkeep(Reactor& reactor, const Config& config, Gateway& gateway, HostMonitor& hosts,
         UpdateRouter& updates)
      : reactor_(reactor), config_(config), gateway_(gateway), hosts_(hosts), updates_(updates) {}
  Upkeep(const Upkeep&) = delete;
  Upkeep& operator=(const Upkeep&) = delete;

  void start();
  void stop();
  /// A mesh is being handed over: its lease is renewed now, and as often as that one wants it.
  void begin_handover(const std::string& mesh, std::chrono::milliseconds lease);
  /// The host has ended, by proof: its ranks are lost now. False: it is not one of these hosts.
  bool on_host_ended(const HostAddr& host, const std::string& reason);
  /// Moves to the broker of the next host that has not ended, if `host` is the gateway.
  void leave(const HostAddr& host);
  /// Asks the agent of that host for its incarnation, if it is not known yet.
  void identify(const HostAddr& host);

 private:
  void turn();
  std::chrono::milliseconds interval() const;
  void ask(const HostAddr& host);
  void on_answer(const HostAddr& host, const Result<ControlMessage>& answer);
  void renew_leases();

  Reactor& reactor_;
  const Config& config_;
  Gateway& gateway_;
  HostMonitor& hosts_;
  UpdateRouter& updates_;
  LeaseRenewer leases_;
  Reactor::TimerId timer_ = 0;
  Reactor::Time due_{};
};

}  // namespace meshbus
