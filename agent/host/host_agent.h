#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "agent/host/model/environment.h"
#include "agent/host/procs/keeper_loss.h"
#include "agent/host/records/ledger.h"
#include "agent/host/streams/output_spool.h"
#include "agent/os/limit_places.h"
#include "common/base/event_log.h"
#include "common/base/unique_fd.h"
#include "common/config/config.h"
#include "common/loop/reactor.h"
#include "common/security/token.h"
#include "meshbus/address.h"

namespace meshbus::host {

/// Starts, watches and stops the procs of one host, at the request of peers that may ask by message
/// (schemas/lifecycle.fbs, supervision.fbs, logs.fbs, bootstrap.fbs, replies.fbs). Connects the
/// services that answer with the procs below them. Lives on its reactor's thread. The process must
/// ignore SIGPIPE.
class HostAgent {
 public:
  struct Options {
    HostAddr host;            ///< As the broker advertises it.
    HostAddr broker;          ///< Where the broker listens for this host's own procs.
    std::string containment;  ///< For GetHost: "cgroup v2", "sweep".
    TokenMaker tokens;
    Config config;
    Environment environment;      ///< What procs inherit; see own_environment().
    UniqueFd keeper;              ///< Socket to the keeper.
    Ledger ledger = {};           ///< What another agent has left, to go on with. May be none.
    OutputSpool spool = {};       ///< Likewise.
    EventLog events = {};         ///< May be none.
    os::LimitPlaces limits = {};  ///< Where the keeper makes cgroups for procs with limits.
    std::string progress = {};    ///< The directory of progress beats; may be empty.
  };
  struct Events {
    /// Registered with the broker; again after each loss.
    std::function<void()> on_up;
    /// The broker refuses this agent; final.
    std::function<void(const Error&)> on_refused;
    /// ShutdownHost is done and answered: the host may end. `ok`: every proc has ended.
    std::function<void(bool ok)> on_shutdown;
    /// The keeper is gone, and owners and subscribers were told: nothing can be done here any more.
    std::function<void()> on_keeper_lost;
    /// Asks the warden to disturb a role; see ChaosService. May be empty.
    std::function<void(const std::string&)> ask_warden = {};
    /// Asks the warden to replace programs; see UpgradeService. May be empty.
    std::function<void(const std::string&)> ask_upgrade = {};
    /// Why the keeper is gone, as it is now. May be empty.
    std::function<KeeperLoss()> why_keeper_lost = {};
  };

  HostAgent(Reactor& reactor, Options options, Events events);
  ~HostAgent();
  HostAgent(const HostAgent&) = delete;
  HostAgent& operator=(const HostAgent&) = delete;

  /// The host is to end, for another reason than a ShutdownHost: stops every proc, tells their
  /// owners, leaves the bus, then calls `done`. A second call only hastens that.
  void stop(std::chrono::milliseconds grace, const std::string& reason, std::function<void()> done);
  /// The warden answers to Events::ask_warden.
  void on_warden_answer(std::string_view answer);
  /// The warden tells of the roles, of an upgrade, or answers to Events::ask_upgrade. False: it is
  /// none of that.
  bool on_warden_report(std::string_view word, std::string_view text);
  /// Procs that have not ended.
  std::size_t live() const;
  std::uint64_t incarnation() const noexcept { return incarnation_; }

 private:
  struct Parts;

  void on_turn_end();
  void on_up();
  /// Closes the bus and tells the owner of this object, once.
  void leave_without_keeper();

  Reactor& reactor_;
  Events events_;
  std::string host_text_;
  std::uint64_t incarnation_;
  std::uint64_t turn_end_ = 0;
  bool was_up_ = false;
  bool is_leaving_ = false;
  Reactor::TimerId forget_timer_ = 0;
  /// Lets a callback see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
  std::unique_ptr<Parts> parts_;
};

}  // namespace meshbus::host
