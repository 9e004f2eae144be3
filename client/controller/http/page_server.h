#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/controller/controller_counts.h"
#include "client/controller/http/controller_metrics.h"
#include "client/controller/http/page_acts.h"
#include "client/controller/http/page_logs.h"
#include "client/src/site/site_feed.h"
#include "common/http/http_access.h"
#include "common/http/http_server.h"
#include "common/loop/reactor.h"

namespace meshbus {

/// The page of a controller, the API behind it (share/openapi/controller.json) and its metrics. It
/// only reads, unless Options::acts is there. Lives on the reactor's thread.
class PageServer {
 public:
  struct Options {
    std::string token;  ///< What requests to the API must bear; empty: nothing.
    SiteFeed::Options site;
    /// How the page acts; nothing: it only reads.
    std::optional<PageActs::Options> acts = {};
  };
  PageServer(Reactor& reactor, http::HttpSocket socket, Options options);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  /// How the controller is now.
  void set_counts(const ControllerCounts& counts);

 private:
  /// A reader of the stream of changes.
  struct Reader {
    http::HttpServer::Reply reply;
    std::uint64_t since;
    Reactor::Time written;
  };

  void on_request(const http::HttpRequest& request, const http::HttpServer::Reply& reply);
  void on_api(const http::HttpRequest& request, const http::HttpServer::Reply& reply);
  void on_order(const http::HttpRequest& request, const http::HttpServer::Reply& reply);
  http::HttpResponse health() const;
  void add_reader(const http::HttpServer::Reply& reply, std::uint64_t since);
  void add_log_reader(const http::HttpRequest& request, const http::HttpServer::Reply& reply);
  void on_change();
  /// Tells readers what they do not know yet, if they have taken what came before.
  void tell_readers();
  std::string make_view(std::uint64_t since) const;

  Reactor& reactor_;
  http::HttpAccess access_;
  ControllerMetrics metrics_;
  ControllerCounts counts_;
  std::optional<Reactor::Time> counted_;
  std::vector<Reader> readers_;
  Reactor::TimerId timer_ = 0;
  Reactor::TimerId beat_ = 0;
  std::function<void(const HostAddr&, Session::Options&)> reach_;
  PageLogs logs_;
  SiteFeed site_;
  std::optional<PageActs> acts_;
  http::HttpServer server_;
};

}  // namespace meshbus
