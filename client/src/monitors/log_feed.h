#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "client/src/base/handler_gate.h"
#include "client/src/base/handler_thread.h"
#include "common/bus/bus.h"
#include "meshbus/logs.h"
#include "wire/forward.h"

namespace meshbus {

class Gateway;

/// One reader of logs: asks the agents of a mesh, keeps what they send in order, asks again after a
/// loss, and hands it on (schemas/logs.fbs: StreamLogs, Log). Lives on the reactor's thread; its
/// handlers on theirs.
class LogFeed : public std::enable_shared_from_this<LogFeed> {
 public:
  /// The ranks to read on one host.
  struct Place {
    HostAddr host;
    RankSet ranks;
  };
  LogFeed(std::string mesh, std::vector<Place> places, LogOptions options, LogHandlers handlers,
          HandlerThread& thread, std::chrono::milliseconds patience);

  std::uint64_t number() const noexcept { return number_; }

  // On the reactor's thread, by the UpdateRouter.

  void start(Gateway& gateway);
  void on_log(const HostAddr& from, const wire::Log& log);
  /// Now and then: looks whether something got lost, or a host.
  void on_upkeep();
  void on_closed(const std::string& reason);
  /// Tells the agents.
  void stop();

  /// No handler is called any more. Waits for one that is running, unless it is called by it. Any
  /// thread.
  void shut() { gate_.shut(); }

 private:
  struct Host {
    HostAddr address;
    RankSet ranks;
    std::uint64_t expected = 1;  // sequence
    std::uint64_t unhandled = 0;
    Reactor::Time heard{};
    std::optional<Reactor::Time> silent_since;
    bool is_asked = false;
    bool is_done = false;
  };
  using Position = std::pair<std::uint64_t, wire::Stream>;
  void ask(Host& host, bool again);
  void on_started(Host& host, const Result<ControlMessage>& answer);
  void check(Host& host);
  void note_silence(Host& host, const Error& error);
  void finish(Host& host, const Result<void>& how);
  void say_taken(Host& host, std::uint64_t sequence);

  const std::string mesh_;
  const LogOptions options_;
  const LogHandlers handlers_;
  HandlerThread& thread_;
  const std::chrono::milliseconds patience_;
  const std::uint64_t number_;
  Gateway* gateway_ = nullptr;
  std::vector<Host> hosts_;
  std::map<Position, std::uint64_t> positions_;
  std::optional<Error> problem_;
  bool is_over_ = false;

  HandlerGate gate_;
};

}  // namespace meshbus
