#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/src/monitors/exec_mailbox.h"
#include "common/loop/reactor.h"
#include "common/wire/control.h"
#include "meshbus/address.h"
#include "wire/forward.h"

namespace meshbus {

class Gateway;

/// What to do beside a rank.
struct ExecRequest {
  HostAddr host;  ///< Where the rank is.
  std::string mesh;
  std::uint64_t rank = 0;
  wire::ExecTask task{};
  std::vector<std::string> arguments;
  /// Variables over those of the rank.
  std::vector<std::pair<std::string, std::string>> environment = {};
  /// Rows and columns; nothing: there is no terminal.
  std::optional<std::pair<std::uint16_t, std::uint16_t>> terminal = {};
  bool has_input = false;
  std::chrono::milliseconds lease{60'000};
};

/// One exec, from its requester's side: asks the agent, keeps what it sends in order, says what was
/// taken, and asks again after a loss (schemas/hands.fbs). Lives on the reactor's thread; hands on
/// by its mailbox.
class ExecStream : public std::enable_shared_from_this<ExecStream> {
 public:
  explicit ExecStream(ExecRequest request);
  ~ExecStream() = default;
  ExecStream(const ExecStream&) = delete;
  ExecStream& operator=(const ExecStream&) = delete;

  /// Any thread.
  ExecMailbox& mailbox() noexcept { return mailbox_; }
  std::uint64_t number() const noexcept { return number_; }
  const HostAddr& host() const noexcept { return request_.host; }

  // For its consumer.

  void taken(std::uint64_t sequence);
  void write(std::string data, bool end);
  void control(const wire::ExecControlT& control);

  // By the ExecRouter.

  void start(Gateway& gateway);
  void on_output(const wire::ExecOutput& output);
  void on_ended(const wire::ExecEnded& ended);
  /// Messages may have been lost.
  void resync() { say_taken(/*resend=*/true); }
  void on_lost(const std::string& reason);
  /// Nobody consumes it any more.
  void stop();

 private:
  void finish(Result<ExecEnd> end);
  void finish_if_complete();
  void send_input();
  void say_taken(bool resend);
  void note_answer(const Result<ControlMessage>& answer);
  void arm();
  void turn();

  const ExecRequest request_;
  const std::uint64_t number_;
  ExecMailbox mailbox_;
  Gateway* gateway_ = nullptr;
  bool is_over_ = false;
  bool is_started_ = false;
  std::uint64_t received_ = 0;  ///< Sequences.
  std::uint64_t taken_ = 0;
  std::optional<std::pair<std::uint64_t, ExecEnd>> ended_;  ///< After that sequence.
  bool has_missed_ = false;
  std::string input_;
  std::uint64_t offset_ = 0;  ///< Where `input_` begins.
  bool is_input_end_ = false;
  std::optional<Reactor::Time> silent_since_;
  Reactor::TimerId timer_ = 0;
};

}  // namespace meshbus
