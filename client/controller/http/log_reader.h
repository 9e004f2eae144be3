#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/bus/bus.h"
#include "common/loop/reactor.h"
#include "meshbus/address.h"
#include "wire/forward.h"

namespace meshbus {

/// Reads what ranks of one mesh write, from each of their hosts by a connection of its own. It asks
/// for no more than it has handed on, so a slow reader slows no rank. When an agent is started
/// again or a connection is lost, it asks again, for the bytes that come next; a host that does not
/// answer for 30 s is given up. Lives on the reactor's thread.
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
    bool is_error;  ///< Standard error.
    /// The offset of the first byte. Bytes may be missing before it; none comes twice.
    std::uint64_t offset;
    std::string_view bytes;
  };
  struct Events {
    std::function<void(const std::vector<Piece>&)> on_pieces;
    /// No more comes from that host: everything has come, or why not.
    std::function<void(const HostAddr&, const Result<void>&)> on_end;
  };
  LogReader(Reactor& reactor, Options options, Events events);
  ~LogReader();
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  /// What was handed on has been read: the hosts may send more.
  void take();

 private:
  using Stream = std::pair<std::uint64_t, wire::Stream>;  ///< The rank, and which of its two.
  /// The streams of one host.
  struct Source {
    HostAddr host;
    std::unique_ptr<Bus> bus = nullptr;
    std::map<Stream, std::uint64_t> positions = {};  ///< The offset of the next byte.
    std::uint64_t stream = 0;   ///< The number of our last question: Logs of others are late.
    std::uint64_t heard = 0;    ///< The sequence of the last Log.
    std::uint64_t taken = 0;    ///< Up to here it was told that they are taken.
    bool is_up = false;         ///< There is a connection.
    bool is_asked = false;      ///< An answer is under way.
    bool is_streaming = false;  ///< The agent has our question.
    bool is_over = false;
    Reactor::Time last = {};   ///< Silence is counted from here.
    std::string problem = {};  ///< Why it is silent; empty: not known.
  };

  void open(Source& source);
  void ask(Source& source);
  void on_started(Source& source, const Result<ControlMessage>& answer);
  void on_log(Source& source, const wire::Log& log);
  /// Asks whether the agent still has our question.
  void check(Source& source);
  void drop_stream(Source& source);
  void look_after();
  void end(Source& source, const Result<void>& how);

  Reactor& reactor_;
  Options options_;
  Events events_;
  std::vector<std::unique_ptr<Source>> sources_;
  Reactor::TimerId timer_ = 0;
};

}  // namespace meshbus
