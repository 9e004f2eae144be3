#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <zmq.hpp>

#include "broker/observe/tool_context.h"
#include "broker/transport/unix_socket.h"
#include "common/base/bytes.h"
#include "common/base/unique_fd.h"
#include "common/loop/reactor.h"
#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus {

/// A ZeroMQ XPUB socket at a unix address that only this user's tools reach. What nobody reads is
/// lost. Until the first tool connects, it is a listening socket that libzmq does not know. Lives
/// on the reactor's thread.
class ToolSocket {
 public:
  struct Options {
    /// Begins the text of errors, as in "the monitor".
    std::string name;
    /// Messages that wait for one subscriber; what comes then is lost to it.
    int most_unsent = 0;
    /// In bytes, with the one in front of the topic.
    std::size_t longest_subscription = 0;
    /// Also of a second subscriber to the same topic.
    bool tells_each_subscriber = false;
  };
  /// `on_subscription`: there is something to receive; see Reactor::SocketHandler.
  ToolSocket(Reactor& reactor, ToolContext& context, Options options,
             Reactor::SocketHandler on_subscription);
  ~ToolSocket();
  ToolSocket(const ToolSocket&) = delete;
  ToolSocket& operator=(const ToolSocket&) = delete;

  /// Errors: configuration_error (no concrete unix address), io_error.
  Result<void> listen(const HostAddr& address);
  /// The next byte 1 (or 0) and the topic that somebody (or nobody any more) subscribes to.
  std::optional<std::string> receive();
  /// To the tools that subscribe to the topic, if there are any.
  void publish(std::string_view topic, Bytes body);

 private:
  void watch();
  void on_tool();
  /// Throws std::exception.
  void open();

  Reactor& reactor_;
  ToolContext& context_;
  Options options_;
  Reactor::SocketHandler on_subscription_;
  std::string endpoint_;
  UniqueFd listener_;
  std::optional<SocketFile> file_;
  Reactor::TimerId timer_ = 0;
  std::optional<zmq::socket_t> socket_;
};

}  // namespace meshbus
