#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zmq.hpp>

#include "common/bus/bus.h"
#include "common/loop/reactor.h"
#include "meshbus/address.h"
#include "wire/forward.h"

namespace meshbus {

/// Reads what ranks of one mesh write, from each of their hosts by a connection of its own. It asks
/// for no more than it has handed on, so a slow reader slows no rank. Lives on the reactor's
/// thread.
class LogReader {
 public:
  struct Options {
    std::string mesh;
    std::vector<HostAddr> hosts;
    std::optional<std::uint64_t> rank;  ///< Nothing: all ranks.
    std::uint64_t tail = 200;           ///< So many last lines of each stream come first.
    /// Writes into the options of a session how to come to the broker of a host.
    std::function<void(const HostAddr&, Session::Options&)> reach;
  };
  /// Bytes that a rank wrote.
  struct Piece {
    std::uint64_t rank;
    bool is_error;         ///< Standard error.
    std::uint64_t offset;  ///< The offset of the first byte. Bytes may be missing before it.
    std::string_view bytes;
  };
  struct Events {
    std::function<void(const std::vector<Piece>&)> on_pieces;
    /// No more comes from that host: everything has come, or why not.
    std::function<void(const HostAddr&, const Result<void>&)> on_end;
  };
  LogReader(Reactor& reactor, zmq::context_t& context, Options options, Events events);
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  /// What was handed on has been read: the hosts may send more.
  void take();

 private:
  /// The stream of one host.
  struct Source {
    HostAddr host;
    std::unique_ptr<Bus> bus;
    std::uint64_t heard = 0;  ///< The sequence of the last Log.
    std::uint64_t taken = 0;  ///< Up to here it was told that they are taken.
    bool is_over = false;
  };

  void open(Source& source);
  void ask(Source& source);
  void on_log(Source& source, const wire::Log& log);
  void end(Source& source, const Result<void>& how);

  Reactor& reactor_;
  zmq::context_t& context_;
  Options options_;
  Events events_;
  std::vector<std::unique_ptr<Source>> sources_;
};

}  // namespace meshbus
