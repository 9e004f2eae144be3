#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "client/controller/host_update.h"
#include "client/controller/owner_word.h"
#include "client/controller/question_state.h"
#include "client/controller/report_queue.h"

namespace meshbus {

/// The part of a mesh on one host, as a MeshController knows it: whether the host has the mesh,
/// whether it answers, and what it is asked. Pure.
struct MeshPart {
  using Time = std::chrono::steady_clock::time_point;

  /// The host has the mesh.
  void on_listed() {
    is_listed = true;
    word.on_listed();
    absent_since.reset();
  }
  /// The host does not have it.
  void on_absent(Time now) {
    is_listed = false;
    if (!absent_since) absent_since = now;
  }
  /// The host answers, or does not. Returns whether that is new.
  bool on_silence(bool is_so, const std::string& why) {
    if (std::exchange(is_silent, is_so) == is_so) return false;
    if (is_so) word.on_silent();
    problem = is_so ? why : std::string();
    stream.reopen();
    return true;
  }
  /// A question has failed. Returns whether that is to be told: silence is judged for the host as a
  /// whole, and the rest is told once.
  bool on_error(const Error& error, Time now) {
    ask_after = now + ReportQueue::kAskAgain;
    return !is_silence(error.code()) && !std::exchange(has_failed, true);
  }

  /// Whether it is known what the host has of the mesh, or that it has nothing.
  bool is_known() const { return is_listed ? is_whole : absent_since.has_value(); }
  /// Whether the ranks there are known, or that there are none any more.
  bool are_ranks_known() const { return is_whole || word.is_denial(); }
  /// Whether the owner there is known, or nobody waits for that.
  bool has_spoken() const { return word.is_heard() || is_silent; }

  bool is_listed = false;
  /// All that the agent has was heard once, even where a list has no room for it.
  bool is_whole = false;
  std::optional<Time> absent_since = {};
  QuestionState stream = {};
  QuestionState stop = {};
  bool wants_state = false;
  bool is_state_asked = false;
  /// Not before: a question has failed.
  Time ask_after{};
  bool is_silent = false;
  std::string problem = {};
  /// Restarts began without its ranks, as it did not answer: they are taken in when it does.
  bool is_missed = false;
  /// query_failed was reported.
  bool has_failed = false;
  OwnerWord word = {};
};

}  // namespace meshbus
