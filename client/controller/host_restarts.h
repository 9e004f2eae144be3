#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "meshbus/result.h"
#include "wire/forward.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {

/// What a controller has to order of one host because ranks of a mesh are restarted: stops of
/// gangs, new incarnations, and the end of restarts. Each is ordered until the host has done it. A
/// host refuses to restart a rank whose former incarnation is not over: then it is asked again.
/// Pure.
class HostRestarts {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// From a refusal to the next question: doubled each time.
  static constexpr std::chrono::milliseconds kFirstWait{20};
  static constexpr std::chrono::milliseconds kLongestWait{500};
  /// From an answer that leaves open what was done, or none.
  static constexpr std::chrono::milliseconds kAskAgain{1000};
  /// A host that says so often in a row that it takes no orders of ours means it.
  static constexpr int kMostRefusals = 10;

  /// The rank is to begin its incarnation after so many restarts.
  void start(std::uint64_t rank, std::uint64_t restarts);
  /// A live rank is to end because of `cause`, in those words.
  void stop(std::uint64_t rank, std::uint64_t cause, const std::string& why);
  /// Nothing is restarted any more, and the host is to know.
  void end() { is_end_wanted_ = true; }
  /// What was to be started or stopped there is not wanted any more.
  void cancel(std::uint64_t rank);

  /// As the host says.
  void on_state(std::uint64_t rank, bool is_live, std::uint64_t restarts);
  /// The host has noted that restarts are over.
  void on_ended() { is_end_wanted_ = false; }
  /// What was asked is not answered any more.
  void on_connected();

  /// The order that is due now, if any: it counts as asked. Without mesh, plan and requester.
  std::optional<wire::StopProcsT> take_stop(Time now);
  std::optional<wire::RestartProcsT> take_start(Time now);
  void on_stop_answer(bool is_done, Time now);
  /// Returns the ranks of the order when they cannot be restarted.
  std::vector<std::uint64_t> on_start_answer(const Result<void>& answer, Time now);
  /// When something is due. Nothing while it is asked.
  std::optional<Time> next_due() const;
  bool is_idle() const noexcept { return starts_.empty() && stops_.empty() && !is_end_wanted_; }

 private:
  struct Stop {
    std::uint64_t cause = 0;
    std::string why;
    bool is_taken = false;
  };
  bool has_stops() const;

  std::map<std::uint64_t, std::uint64_t> starts_;  ///< Rank -> restarts.
  std::map<std::uint64_t, Stop> stops_;
  bool is_end_wanted_ = false;
  bool is_stop_asked_ = false;
  bool is_start_asked_ = false;
  /// Ranks of the questions that are under way.
  std::vector<std::uint64_t> asked_stops_;
  std::vector<std::uint64_t> asked_starts_;
  Time stop_after_{};
  Time start_after_{};
  std::chrono::milliseconds wait_ = kFirstWait;
  int refusals_ = 0;
};

}  // namespace meshbus
