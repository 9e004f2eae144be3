#pragma once

#include <thread>

#include "client/controller/controller_counts.h"
#include "client/controller/http/page_server.h"
#include "common/loop/reactor.h"

namespace meshbus {

/// The page on a thread and a reactor of its own: writing the view of a large site takes time that
/// the controller must not lose.
class PageThread {
 public:
  PageThread(http::HttpSocket socket, PageServer::Options options);
  ~PageThread();
  PageThread(const PageThread&) = delete;
  PageThread& operator=(const PageThread&) = delete;

  /// From any thread.
  void set_counts(const ControllerCounts& counts);

 private:
  Reactor reactor_;
  PageServer server_;
  std::thread thread_;
};

}  // namespace meshbus
