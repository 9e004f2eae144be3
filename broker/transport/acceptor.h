#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "broker/transport/connection_gate.h"
#include "common/base/log.h"
#include "common/base/unique_fd.h"
#include "common/loop/reactor.h"
#include "common/zmtp/tcp_address.h"

namespace meshbus {

/// Listening sockets: takes connections in bounded portions, those over unix sockets only of users
/// that may connect (common/base/unix_peer.h). Lives on the reactor's thread.
class Acceptor {
 public:
  /// `from`: where a connection over tcp comes from; nothing for a unix socket.
  using OnConnection = std::function<void(UniqueFd, const std::optional<TcpAddress>& from)>;
  Acceptor(Reactor& reactor, ConnectionGate::Limits limits, OnConnection on_connection)
      : reactor_(reactor), gate_(limits), on_connection_(std::move(on_connection)) {}
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  /// Listens at that path, or abstract name; the file gets the mask of the process. `kept`: a
  /// socket that is bound there already; empty: none. Throws std::system_error.
  void listen(const std::string& path, UniqueFd kept);
  /// Returns where it listens, with the port that the kernel chose. Throws std::system_error.
  TcpAddress listen(const TcpAddress& address, UniqueFd kept);
  /// The listening sockets; they stay ours.
  std::vector<int> listeners() const;

 private:
  /// A socket that is bound there; `kept`, if there is one.
  UniqueFd bound(const sockaddr* address, socklen_t size, UniqueFd kept);
  void add(UniqueFd listener, bool is_tcp);
  void watch(int listener, bool is_tcp);
  void accept_all(int listener, bool is_tcp);
  void accept_later(int listener, bool is_tcp);
  void take(UniqueFd fd, bool is_tcp);
  /// Whether the user at the other end of a unix socket may connect.
  bool is_trusted(int descriptor);

  Reactor& reactor_;
  /// Whose sockets these are: the process may become another user afterwards.
  const uid_t own_user_ = ::geteuid();
  ConnectionGate gate_;
  OnConnection on_connection_;
  std::vector<UniqueFd> listeners_;
  log::Limited limited_log_{1};
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
