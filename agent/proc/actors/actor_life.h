#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "meshbus/status.h"

namespace meshbus::mesh_proc {

/// What went wrong in an actor, in words.
struct Fault {
  std::string error;
  /// In which handler; empty: elsewhere.
  std::string message = {};
  /// The nearest first.
  std::vector<std::string> causes = {};
};

/// What an exception, and those that are nested in it (std::throw_with_nested), say. Bounded: 16
/// causes, 1 KiB of each.
Fault describe(const std::exception_ptr& exception, std::string message);

/// The states of one actor (spec 7.3): initializing -> running -> stopping -> stopped, and failed
/// from all but stopped. Pure. A step that cannot be changes nothing and is false.
class ActorLife {
 public:
  using Time = std::chrono::system_clock::time_point;
  explicit ActorLife(Time now) : changed_(now) {}

  bool on_running(Time now);
  bool on_stopping(std::string reason, Time now);
  /// Without a stop that was asked for there is no stop.
  bool on_stopped(Time now);
  bool on_failed(Fault fault, Time now);

  Status::Kind status() const noexcept { return status_; }
  bool is_ended() const noexcept {
    return status_ == Status::Kind::stopped || status_ == Status::Kind::failed;
  }
  /// Takes messages.
  bool is_open() const noexcept {
    return status_ == Status::Kind::initializing || status_ == Status::Kind::running;
  }
  /// Counts the changes, from 1.
  std::uint64_t generation() const noexcept { return generation_; }
  Time changed() const noexcept { return changed_; }
  /// When it is stopped.
  const std::string& reason() const noexcept { return reason_; }
  const Fault& fault() const noexcept { return fault_; }
  /// "has stopped: enough", "has failed in message add: boom".
  std::string words() const;

 private:
  void change(Status::Kind status, Time now);

  Status::Kind status_ = Status::Kind::initializing;
  std::uint64_t generation_ = 1;
  Time changed_;
  std::string reason_;
  Fault fault_;
};

}  // namespace meshbus::mesh_proc
