#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/mpi/rank_hello.h"
#include "common/base/unique_fd.h"
#include "common/loop/reactor.h"
#include "meshbus/result.h"

namespace meshbus::mpi {

/// Takes the connections of the ranks of this host, reads lines from them, and notices their end:
/// that of the process which connected; its children may have the connection too. Lives on the
/// reactor's thread.
class RankDoor {
 public:
  struct Handlers {
    /// Whether the rank may come in. One that may not is told why.
    std::function<Result<void>(const RankHello&)> check;
    /// The connection is that of the rank from now on. It waits for answer().
    std::function<void(const RankHello&)> on_hello;
    std::function<void(const RankHello&, std::string_view line)> on_line;
    std::function<void(const RankHello&)> on_end;
  };

  RankDoor(Reactor& reactor, Handlers handlers);
  ~RankDoor();
  RankDoor(const RankDoor&) = delete;
  RankDoor& operator=(const RankDoor&) = delete;

  /// Errors: io_error.
  Result<void> open(const std::string& name);
  /// To a rank that waits: what it is to have in its environment (`NAME=VALUE`), or why it gets
  /// nothing and ends.
  void answer(std::uint64_t rank, const Result<std::vector<std::string>>& entries);
  /// To the rank, if it is connected. It reads what it asked for, so this never waits long.
  void write(std::uint64_t rank, std::string_view text);
  /// Sends SIGKILL to the process that connected as this rank, if it is there. Errors: io_error.
  Result<void> kill(std::uint64_t rank);

 private:
  struct Connection {
    UniqueFd socket;
    UniqueFd process;  ///< A pidfd.
    std::string unread;
    RankHello hello;
    bool is_known = false;
  };
  void accept_all();
  void read(int fd);
  void take_line(int fd, std::string_view line);
  void close(int fd);

  Reactor& reactor_;
  Handlers handlers_;
  UniqueFd listener_;
  std::map<int, std::unique_ptr<Connection>> connections_;  ///< By descriptor of the socket.
  std::map<std::uint64_t, int> by_rank_;
};

}  // namespace meshbus::mpi
