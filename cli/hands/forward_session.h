#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "cli/hands/hand_signals.h"
#include "cli/hands/local_listener.h"
#include "client/src/hands/rank_exec.h"

namespace meshbus::cli {

/// Connections from here to ports of ranks; see run(). One thread.
class ForwardSession {
 public:
  /// Begins a connection beside the rank.
  using Connect = std::function<Result<RankExec>()>;

  explicit ForwardSession(HandSignals& signals);

  /// `name`: where it goes, for people: "train[3]:80".
  void add(LocalListener listener, std::string name, Connect connect);
  /// Until a signal comes. Returns the exit code.
  int run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Door {
    LocalListener listener;
    std::string name;
    Connect connect;
  };
  /// One connection, and the process beside the rank that carries it on.
  struct Link {
    UniqueFd socket;
    RankExec exec;
    std::string name;
    std::string pending = {};  ///< For the socket.
    std::size_t at = 0;
    std::optional<std::uint64_t> sequence = {};  ///< What is taken when `pending` is written.
    std::string said = {};                       ///< By the other side, on stderr.
    bool is_read = false;                        ///< The socket is at its end.
    bool is_back_ended = false;                  ///< The other side sends no more.
    bool is_over = false;
  };

  void accept(Door& door);
  /// No door is open for a moment: otherwise it is ready again at once.
  void pause();
  /// Milliseconds.
  int pause_left() const;
  void turn(Link& link, short ready);
  void read(Link& link);
  void write(Link& link);
  void finish(Link& link, const Result<ExecEnd>& end);

  HandSignals& signals_;
  std::size_t most_links_;
  Clock::time_point pause_end_;
  std::vector<Door> doors_;
  std::list<Link> links_;
};

}  // namespace meshbus::cli
