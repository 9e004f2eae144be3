#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "client/controller/mesh_watch.h"
#include "client/controller/subscriptions.h"
#include "common/bus.h"
#include "common/keys.h"
#include "common/reactor.h"

namespace meshbus {

/// Polls the procs of a set of hosts, and says what changed: to whoever made it, and to subscribers on the bus (spec 8.1-8.3). Lives on the
/// reactor's thread.
class Controller {
 public:
  struct Options {
    std::vector<HostAddr> hosts;
    std::string mesh;  ///< Only that one; empty = all.
    std::chrono::milliseconds poll{1000};
    /// A host that does not answer for so long is unreachable.
    std::chrono::milliseconds answer_limit{3000};
    /// A broker that does not answer for so long is given up for that of the next host.
    std::chrono::milliseconds home_limit{3000};
    /// For hosts over tcp.
    std::optional<KeyDirectory> keys = {};
  };
  struct Events {
    /// What there is to say, in order.
    std::function<void(const std::vector<WatchEvent>&)> on_events;
    /// No broker will have this controller; final.
    std::function<void(const Error&)> on_refused;
  };

  Controller(Reactor& reactor, zmq::context_t& context, Options options, Events events);
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  /// Leaves the bus in order.
  void close(const std::string& reason);

 private:
  void open();
  void on_refused(const Error& error);
  void on_poll();
  /// `after`: for the next page of what it has.
  void ask(const HostAddr& host, const std::string& after = {});
  void ask_state(const HostAddr& host, const std::string& mesh);
  void say(const std::vector<WatchEvent>& events);
  void send(const ProcId& subscriber, const std::vector<WatchEvent>& events);
  void on_subscribe(const Request& request, const wire::Subscribe& message);
  void on_unsubscribe(const Request& request, const wire::Unsubscribe& message);
  /// The ProcId that a request is about, if it is its sender's own; otherwise it is refused.
  std::optional<ProcId> check_subscriber(const Request& request, const flatbuffers::String* text);

  Reactor& reactor_;
  zmq::context_t& context_;
  Options options_;
  Events events_;
  MeshWatch watch_;
  Subscriptions subscriptions_;
  std::size_t home_ = 0;
  std::unique_ptr<Bus> bus_;
  std::uint64_t incarnation_;
  std::map<HostAddr, bool> is_asked_;
  std::uint64_t poll_ = 0;
  Reactor::TimerId poll_timer_ = 0;
  Reactor::Time poll_due_{};
  std::optional<Reactor::Time> down_since_;
  std::size_t refusals_ = 0;
  bool is_closed_ = false;
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
