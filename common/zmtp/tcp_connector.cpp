#include "common/zmtp/tcp_connector.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "common/zmtp/tcp_address.h"

namespace meshbus {
namespace {

constexpr std::chrono::milliseconds kNextAddress{250};

}  // namespace

TcpConnector::TcpConnector(Reactor& reactor, const HostAddr& host, Done done)
    : reactor_(reactor), done_(std::move(done)), resolver_(reactor) {
  if (Resolver::is_literal(host)) {
    untried_.push_back(host);
    try_next();
    return;
  }
  resolver_.resolve(host, [this](Result<std::vector<std::string>> endpoints) {
    if (endpoints) {
      begin(*endpoints);
    } else {
      finish(fail(endpoints.error()));
    }
  });
}

TcpConnector::~TcpConnector() {
  reactor_.cancel(next_timer_);
  for (const UniqueFd& fd : tried_) reactor_.forget(fd.get());
}

void TcpConnector::begin(const std::vector<std::string>& endpoints) {
  for (const std::string& endpoint : endpoints) {
    if (const auto address = HostAddr::parse(endpoint)) untried_.push_back(*address);
  }
  try_next();
}

void TcpConnector::try_next() {
  reactor_.cancel(std::exchange(next_timer_, 0));
  while (!untried_.empty()) {
    const auto address = TcpAddress::of(untried_.front());
    untried_.pop_front();
    if (!address) continue;
    UniqueFd fd(::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd) set_tcp_options(fd.get());
    if (!fd ||
        (::connect(fd.get(), address->get(), address->size()) != 0 && errno != EINPROGRESS)) {
      why_ = std::generic_category().message(errno);
      continue;
    }
    reactor_.watch(fd.get(), EPOLLOUT,
                   [this, descriptor = fd.get()](std::uint32_t) { on_writable(descriptor); });
    tried_.push_back(std::move(fd));
    if (!untried_.empty()) next_timer_ = reactor_.after(kNextAddress, [this] { try_next(); });
    return;
  }
  if (tried_.empty()) fail_later();
}

void TcpConnector::fail_later() {
  // Not from within the constructor.
  next_timer_ = reactor_.after(std::chrono::milliseconds(0), [this] {
    finish(fail(ErrorCode::host_unreachable, why_.empty() ? "it has no address" : why_));
  });
}

void TcpConnector::on_writable(int descriptor) {
  const auto found = std::find_if(tried_.begin(), tried_.end(), [descriptor](const UniqueFd& fd) {
    return fd.get() == descriptor;
  });
  UniqueFd fd = std::move(*found);
  tried_.erase(found);
  reactor_.forget(descriptor);
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error == 0) {
    finish(std::move(fd));
    return;
  }
  why_ = std::generic_category().message(error);
  try_next();
}

void TcpConnector::finish(Result<UniqueFd> result) {
  // The handler may destroy this.
  const Done done = std::move(done_);
  done(std::move(result));
}

}  // namespace meshbus
