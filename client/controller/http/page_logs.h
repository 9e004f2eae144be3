#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>

#include "client/controller/http/log_reader.h"
#include "common/http/http_server.h"
#include "common/loop/reactor.h"

namespace meshbus {

/// The readers of logs that a page serves: server-sent events `pieces` and `end` (share/openapi).
/// What a browser has not read is not asked for. Lives on the reactor's thread.
class PageLogs {
 public:
  PageLogs(Reactor& reactor) : reactor_(reactor) {}
  ~PageLogs();
  PageLogs(const PageLogs&) = delete;
  PageLogs& operator=(const PageLogs&) = delete;

  /// No reader more can be served now.
  bool is_full() const noexcept;
  /// The reply has begun as a stream.
  void add(const http::HttpServer::Reply& reply, LogReader::Options options);

 private:
  struct Stream {
    http::HttpServer::Reply reply;
    std::string waiting = {};  ///< Events that are not written yet.
    Reactor::Time written = {};
    std::unique_ptr<LogReader> reader = {};
  };

  void tick();

  Reactor& reactor_;
  std::list<Stream> streams_;
  Reactor::TimerId timer_ = 0;
};

}  // namespace meshbus
