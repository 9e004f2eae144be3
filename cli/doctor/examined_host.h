#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "cli/doctor/exam.h"
#include "meshbus/client.h"

namespace meshbus::cli::doctor {

/// One host under examination: a probe runs on it until the end of this object. Every function
/// waits for answers; different objects may be used on different threads.
class ExaminedHost {
 public:
  /// For each stage that waits: the connection, the start of the probe, each of its answers.
  using Limit = std::chrono::milliseconds;
  explicit ExaminedHost(HostAddr address) : address_(std::move(address)) {}
  ~ExaminedHost();
  ExaminedHost(const ExaminedHost&) = delete;
  ExaminedHost& operator=(const ExaminedHost&) = delete;

  /// Attaches to the host by that context, starts the probe, and asks it. What fails is part of
  /// the result.
  HostExam examine(std::shared_ptr<Context> context, Limit limit);
  /// Has this host's probe measure the way to another one's. Nothing in `code`: measured.
  LinkExam measure(const ExaminedHost& other, Limit limit);
  /// Has the probe measure the way to a second one on the same host, which is started for that.
  /// Nothing: one of them does not answer.
  std::optional<Pace> measure_within(Limit limit);
  /// Reads the clock of the host, and keeps the reading that took the shortest time: the way there
  /// and back from here.
  void read_clock(HostExam& exam, Limit limit);
  bool has_probe() const { return probe_.has_value(); }

 private:
  Result<Pace> ask_pace(const ProcId& to, Limit limit);
  Result<std::string> ask(std::uint32_t port, std::string_view body, Limit limit);
  void ask_host(HostExam& exam, Limit limit);
  void start_probe(HostExam& exam, Limit limit);
  Result<ProcMesh> spawn_probe(Limit limit);

  HostAddr address_;
  std::shared_ptr<Context> context_;
  std::optional<HostMesh> host_;
  std::optional<ProcMesh> mesh_;
  std::optional<ProcMesh> second_;
  bool has_no_second_ = false;  ///< It could not be started.
  std::optional<ProcId> probe_;
};

}  // namespace meshbus::cli::doctor
