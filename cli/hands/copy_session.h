#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/hands/hand_json.h"
#include "cli/hands/hand_signals.h"
#include "client/src/hands/rank_exec.h"
#include "common/files/tree_reader.h"
#include "common/files/tree_writer.h"

namespace meshbus::cli {

/// Copies to and from ranks, all at once; see run(). One thread.
class CopySession {
 public:
  struct Options {
    bool shows_progress = false;  ///< On stderr, which is a terminal.
    bool is_json = false;         ///< What was copied goes to stdout as JSON.
  };
  CopySession(HandSignals& signals, Options options);
  ~CopySession();

  /// `name`: of the rank, for people.
  void add_upload(RankExec exec, const HandRank& rank, std::string name,
                  std::vector<std::string> paths);
  void add_download(RankExec exec, const HandRank& rank, std::string name, TreeWriter writer);
  /// One that could not be begun.
  void add_failed(const HandRank& rank, const std::string& name, const Error& error);
  /// Until all are done. Says on stdout what was copied, and on stderr what was not. Returns the
  /// exit code.
  int run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Copy {
    RankExec exec;
    HandRank rank;
    std::string name;
    std::optional<TreeReader> reader = {};
    std::optional<TreeWriter> writer = {};
    std::string said = {};     ///< By the other side, on stderr.
    std::string problem = {};  ///< On this side.
    bool is_read = false;      ///< The reader is at its end.
    bool is_over = false;
  };

  void feed(Copy& copy);
  void take_news(Copy& copy);
  void finish(Copy& copy, const Result<ExecEnd>& end);
  void report(const Copy& copy);
  /// What was not done, or left out.
  void tell(const std::string& name, const std::string& problem);
  void show_progress();
  void end_by(int signal);
  bool is_over() const;

  HandSignals& signals_;
  Options options_;
  std::unique_ptr<nlohmann::ordered_json> told_;
  std::vector<std::unique_ptr<Copy>> copies_;
  int code_ = 0;
  std::optional<int> ended_by_;
  Clock::time_point begin_ = Clock::now();
  bool has_progress_ = false;
};

}  // namespace meshbus::cli
