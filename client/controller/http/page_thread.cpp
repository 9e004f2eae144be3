#include "client/controller/http/page_thread.h"

#include <utility>

namespace meshbus {

PageThread::PageThread(http::HttpSocket socket, PageServer::Options options)
    : server_(reactor_, std::move(socket), std::move(options)),
      thread_([this] { reactor_.run(); }) {}

PageThread::~PageThread() {
  reactor_.stop();
  thread_.join();
}

void PageThread::set_counts(const ControllerCounts& counts) {
  reactor_.post([this, counts] { server_.set_counts(counts); });
}

}  // namespace meshbus
