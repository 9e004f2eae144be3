#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zmq.hpp>

#include "agent/metrics/broker_listener.h"
#include "agent/metrics/host_metrics.h"
#include "agent/metrics/role_report.h"
#include "common/bus/bus.h"
#include "common/http/http_access.h"
#include "common/http/http_server.h"
#include "common/loop/reactor.h"
#include "meshbus/address.h"

namespace meshbus::metrics {

/// Serves `/metrics` and `/healthz` of one host. It asks the agent when it is asked itself, at most
/// twice a second, and every few seconds besides, so that little is lost when an agent ends. Lives
/// on the reactor's thread.
class Exporter {
 public:
  struct Options {
    HostAddr host;     ///< As the broker advertises it.
    HostAddr broker;   ///< Where the broker listens for this host's own procs.
    HostAddr monitor;  ///< Where it publishes its counters.
    HostMetrics::Limits limits;
  };
  Exporter(Reactor& reactor, zmq::context_t& context, http::HttpSocket socket, Options options);
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  /// The warden told how the roles are.
  void on_roles(const RoleReport& roles);

 private:
  void on_request(const http::HttpRequest& request, const http::HttpServer::Reply& reply);
  /// Calls `then` when the agent has answered, or is not going to in time.
  void refresh(std::function<void()> then);
  void ask();
  void on_answer(Reactor::Time asked, const Result<ControlMessage>& answer);
  void tick();
  http::HttpResponse health() const;
  std::string render();

  Reactor& reactor_;
  Options options_;
  http::HttpAccess access_;
  HostMetrics metrics_;
  RoleReport roles_;
  Reactor::Time heard_broker_;                ///< The last counters; at first, the start.
  std::optional<Reactor::Time> heard_agent_;  ///< The last answer.
  bool has_answered_ = false;                 ///< The last question was answered.
  bool is_asking_ = false;
  std::vector<std::function<void()>> waiting_;
  Reactor::TimerId timer_ = 0;
  Bus bus_;
  BrokerListener listener_;
  http::HttpServer server_;
};

}  // namespace meshbus::metrics
