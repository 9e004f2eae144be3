#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "agent/proc/actors/actor_system.h"
#include "agent/proc/actors/busy_handler.h"
#include "agent/proc/loop/work_queue.h"
#include "agent/proc/runtime/bootstrap.h"
#include "agent/proc/runtime/handler_watch.h"
#include "agent/proc/runtime/message_run.h"
#include "agent/proc/runtime/program_settings.h"
#include "agent/proc/runtime/rank_index.h"
#include "agent/proc/runtime/taken_reports.h"
#include "common/base/log.h"
#include "common/bus/bus.h"
#include "common/bus/outgoing.h"
#include "common/loop/reactor.h"
#include "meshbus/proc.h"

namespace meshbus::mesh_proc {

/// Brings messages and calls from the bus to their actor or to the handlers' thread, and their
/// answers back; refuses what is for nobody, or too much. Lives on the reactor's thread unless a
/// function says otherwise.
class HandlerIntake {
 public:
  /// What it works with; outlives it.
  struct Parts {
    const Bootstrap& bootstrap;
    const std::map<std::uint32_t, ProcProgram::Handler>& handlers;  ///< By port.
    const std::function<void(Proc&, const Undelivered&)>& on_undelivered;
    const std::function<void(Proc&, const std::string&, const SettingValue&)>& on_setting;
    const std::function<void(Proc&, const ProcMeshRef&)>& on_world;
    Proc& proc;
    Reactor& reactor;
    WorkQueue& work;
    ActorSystem& actors;
    Outgoing& outgoing;
    RankIndex& ranks;
    /// Nothing is handled any more.
    const std::atomic<bool>& is_cut;
  };
  explicit HandlerIntake(const Parts& parts);
  HandlerIntake(const HandlerIntake&) = delete;
  HandlerIntake& operator=(const HandlerIntake&) = delete;

  /// Before everything else.
  void attach(Bus& bus) noexcept { bus_ = &bus; }
  void on_delivery(const Bus::Delivery& delivery);
  void on_undelivered(const wire::Envelope& envelope, const Error& error);
  /// Settings of the program have news: hands them to on_setting, if there is one.
  void on_settings(ProgramSettings& settings);
  /// The mesh is that from now on: hands it to on_world, if there is one. It lives as long as the
  /// proc.
  void on_world(const ProcMeshRef& mesh);
  /// Hands the messages that were added until now to the handlers' thread. Before anything else is
  /// queued for it.
  void close_run();
  /// Acknowledges what was taken until now.
  void acknowledge() { taken_.tell(); }
  /// Runs `then` once everything that came until now is taken.
  void when_taken(std::function<void()> then);
  /// The handler that has run for at least `limit`. Call it at every heartbeat.
  std::optional<BusyHandler> find_busy(HandlerWatch::Time now, HandlerWatch::Duration limit);

 private:
  void add_message(const ProcProgram::Handler& handler, const Bus::Delivery& delivery,
                   std::optional<Point> point);
  /// A message that an actor has already: it counts as taken after those for the handlers.
  void add_taken(const wire::Envelope& envelope);
  void add_call(const ProcProgram::Handler& handler, const Bus::Delivery& delivery,
                std::optional<Point> point);
  /// On the handlers' thread.
  void handle_message(const MessageRun::Message& message, const std::shared_ptr<const void>* owner);
  /// On the handlers' thread: a call.
  void handle_call(const ProcProgram::Handler& handler, const wire::Envelope& envelope,
                   const wire::CallHeader& header, const Incoming& incoming);
  Error is_behind() const;
  /// For a cast: the place of this rank in its view.
  std::optional<Point> point_of(const CastBody& cast);

  const Parts parts_;
  Bus* bus_ = nullptr;
  /// Messages that the handlers' thread has, or will have.
  MessageRuns runs_;
  HandlerWatch watch_;
  TakenReports taken_;
  /// Messages that came back and wait for the handlers' thread.
  std::atomic<std::size_t> returns_{0};
  log::Limited lost_log_{1};
  /// The last view that something was cast to, as it was written, and our place in it.
  std::string cast_front_;
  std::optional<Point> cast_point_;
};

}  // namespace meshbus::mesh_proc
