#pragma once

#include <cstddef>
#include <system_error>
#include <utility>

#include <zmq.h>

#include "common/loop/reactor.h"

namespace meshbus {

/// How the reactor hears of a ZeroMQ socket.
enum class ZmqWatch {
  /// It is asked before the loop sleeps: for a socket that is sent on, too.
  asked,
  /// Only when its descriptor is readable, which saves two system calls a turn: for a socket that
  /// is never sent on, or whose senders call Reactor::call_again() afterwards.
  quiet,
};

/// Calls `handler` when the ZeroMQ socket has something to receive. The caller closes the socket
/// after Reactor::forget_socket(). Here and not in the reactor, so that programs without a ZeroMQ
/// socket do not load libzmq. Throws std::system_error.
inline void watch_zmq(Reactor& reactor, void* socket, Reactor::SocketHandler handler,
                      ZmqWatch how = ZmqWatch::asked) {
  int fd = -1;
  std::size_t size = sizeof fd;
  if (zmq_getsockopt(socket, ZMQ_FD, &fd, &size) != 0)
    throw std::system_error(zmq_errno(), std::generic_category(), "reactor: ZMQ_FD");
  const auto is_readable = [](void* key) {
    int events = 0;
    std::size_t bytes = sizeof events;
    return zmq_getsockopt(key, ZMQ_EVENTS, &events, &bytes) == 0 && (events & ZMQ_POLLIN) != 0;
  };
  // ZMQ_FD only says that something may have changed, and may stay readable while there is nothing
  // to receive. A send may swallow what it had to say.
  reactor.watch_edges(socket, fd, EPOLLIN, std::move(handler),
                      how == ZmqWatch::asked ? Reactor::Readable(is_readable) : nullptr);
}

}  // namespace meshbus
