#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/loop/reactor.h"
#include "common/zmtp/resolver.h"
#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus {

/// Connects to a host over tcp. A name is looked up off the loop. Of several addresses the next one
/// is tried beside the others when one has failed, or has not answered for 250 ms (RFC 8305). Lives
/// on the reactor's thread.
class TcpConnector {
 public:
  /// Called once, never from within the constructor; may destroy the connector.
  /// Errors: host_unreachable, with the reason of the last address.
  using Done = std::function<void(Result<UniqueFd>)>;
  TcpConnector(Reactor& reactor, const HostAddr& host, Done done);
  ~TcpConnector();
  TcpConnector(const TcpConnector&) = delete;
  TcpConnector& operator=(const TcpConnector&) = delete;

 private:
  void begin(const std::vector<std::string>& endpoints);
  void try_next();
  void on_writable(int descriptor);
  void finish(Result<UniqueFd> result);
  void fail_later();

  Reactor& reactor_;
  Done done_;
  Resolver resolver_;
  std::deque<HostAddr> untried_;
  std::vector<UniqueFd> tried_;
  std::string why_;
  Reactor::TimerId next_timer_ = 0;
};

}  // namespace meshbus
