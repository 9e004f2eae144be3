#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/hands/hand_json.h"
#include "cli/hands/hand_signals.h"
#include "cli/hands/line_buffer.h"
#include "cli/hands/raw_terminal.h"
#include "client/src/hands/rank_exec.h"

namespace meshbus::cli {

/// Commands beside ranks, as their user sees them: carries stdin to them, their output to stdout
/// and stderr, and signals; see run(). One thread.
class ExecSession {
 public:
  struct Options {
    /// stdin goes to the commands.
    bool has_input = false;
    /// The only command has a terminal, which is ours.
    bool has_terminal = false;
    /// Control characters are escaped where our output is a terminal. Only with prefixes.
    bool are_lines_escaped = false;
    /// Lines and ends go to stdout as JSON.
    bool is_json = false;
  };
  ExecSession(HandSignals& signals, Options options);

  /// `name`: of the rank, for people. `prefix`: in front of its lines; may be empty.
  void add(RankExec exec, const HandRank& rank, std::string name, const std::string& prefix);
  /// A command that could not be begun.
  void add_failed(const HandRank& rank, const std::string& name, const Error& error);
  /// Until all have ended. Returns the highest exit code: that of a command, 128 + its signal,
  /// kHostLost, kOwnFailure; or that of a write that failed, kBrokenPipe or kOwnFailure, or 128 +
  /// the signal that ended us.
  ///
  /// Without a terminal the first SIGINT is passed on, and the second one ends the commands; so do
  /// SIGTERM and SIGHUP. A further one makes this program leave before they have ended.
  int run();

 private:
  struct Member {
    RankExec exec;
    HandRank rank;
    std::string name;
    LineBuffer out;
    LineBuffer err;
    bool is_over = false;
  };
  /// Bytes for one of our descriptors, and the piece that they are from.
  struct Outgoing {
    std::string bytes;
    std::size_t at = 0;
    Member* member = nullptr;
    std::uint64_t sequence = 0;
  };
  using Clock = std::chrono::steady_clock;

  /// For poll(): until deadline_.
  int time_left() const;
  /// What --json tells of the ends. Does not wait for a reader once a signal came.
  void write_ends();
  void on_signals();
  void on_end_signal(int signal);
  void read_input();
  bool may_read() const;
  void take_news(Member& member);
  void queue(Member& member, ExecPiece piece);
  void write(std::size_t fd);
  void on_broken(int error);
  void finish(Member& member, const Result<ExecEnd>& end);
  void hang_up_all();
  void note_code(int code);
  bool is_over() const;

  HandSignals& signals_;
  Options options_;
  std::optional<RawTerminal> terminal_;
  std::vector<std::unique_ptr<Member>> members_;
  std::array<Outgoing, 3> outgoing_{};  ///< By descriptor; 0 is unused.
  std::array<bool, 3> is_file_{};
  std::array<bool, 3> is_escaped_{};
  bool is_input_over_ = false;
  int broken_by_ = 0;  ///< errno of the write that failed.
  std::string ends_;   ///< With Options::is_json: told when all have ended.
  int code_ = 0;
  int interrupts_ = 0;
  std::optional<int> ended_by_;  ///< A signal.
  std::optional<Clock::time_point> deadline_;
};

}  // namespace meshbus::cli
