#include "client/src/monitors/exec_stream.h"

#include <algorithm>

#include "client/src/gateway/gateway.h"
#include "common/bus/bus.h"
#include "common/security/token.h"
#include "wire/hands_generated.h"

namespace meshbus {
namespace {

constexpr std::chrono::seconds kStartLimit{30};
constexpr std::chrono::seconds kExecAskLimit{5};
/// A command that does not read its stdin is asked again after that.
constexpr std::chrono::seconds kInputLimit{20};
constexpr std::chrono::milliseconds kInputRetry{300};
/// How often it is asked whether the exec is there.
constexpr std::chrono::milliseconds kExecLookInterval{2000};
/// A host sends 256 KiB that we have not taken, in pieces of a few bytes at worst. One that goes on
/// beyond this is broken.
constexpr std::size_t kMostHeldOfExec = std::size_t{1} << 20U;
/// A host that is silent for so long is given up.
constexpr std::chrono::seconds kExecPatience{30};

bool may_mend(const Error& error) {
  return error.code() == ErrorCode::timeout || error.code() == ErrorCode::fate_unknown ||
         error.code() == ErrorCode::queue_full || error.code() == ErrorCode::host_unreachable ||
         error.code() == ErrorCode::link_lost || error.code() == ErrorCode::expired ||
         error.code() == ErrorCode::refused;
}

}  // namespace

ExecStream::ExecStream(ExecRequest request) : request_(std::move(request)), number_(random_u64()) {}

void ExecStream::start(Gateway& gateway) {
  gateway_ = &gateway;
  wire::StartExecT start;
  start.mesh = request_.mesh;
  start.rank = request_.rank;
  start.requester = gateway.status().self();
  start.exec = number_;
  start.task = request_.task;
  start.arguments = request_.arguments;
  for (const auto& [name, value] : request_.environment) {
    auto variable = std::make_unique<wire::KeyValueT>();
    variable->key = name;
    variable->value = value;
    start.environment.push_back(std::move(variable));
  }
  start.terminal = request_.terminal.has_value();
  if (request_.terminal) std::tie(start.rows, start.columns) = *request_.terminal;
  start.input = request_.has_input;
  start.lease_ms = static_cast<std::uint32_t>(request_.lease.count());
  gateway.bus()->request(
      Destination::to_agent(request_.host), std::move(start), kStartLimit,
      [self = shared_from_this()](const Result<ControlMessage>& answer) {
        if (self->is_over_) return;
        if (!answer && answer.error().code() == ErrorCode::no_such_port)
          return self->finish(fail(ErrorCode::version_mismatch,
                                   "host " + self->request_.host.to_string() +
                                       " has an older release of meshbus, which cannot do this"));
        if (!answer) {
          // It may have been started all the same.
          wire::ExecControlT end;
          end.end = true;
          if (may_mend(answer.error())) self->control(end);
          return self->finish(fail(answer.error()));
        }
        self->is_started_ = true;
        self->mailbox_.set_started();
        self->send_input();
        self->arm();
      });
}

void ExecStream::on_output(const wire::ExecOutput& output) {
  if (is_over_) return;
  if (output.sequence() != received_ + 1) {
    // It has come before, or one is missing.
    has_missed_ = has_missed_ || output.sequence() > received_ + 1;
    return;
  }
  if (mailbox_.held() > kMostHeldOfExec) {
    wire::ExecControlT end;
    end.end = true;
    control(end);
    return finish(fail(ErrorCode::queue_full,
                       "host " + request_.host.to_string() +
                           " sends more output than is taken, which no host does: the command is "
                           "ended"));
  }
  received_ = output.sequence();
  mailbox_.push({.sequence = received_,
                 .is_err = output.stream() == wire::Stream::err,
                 .bytes = std::string(bytes_of(output.data()->data(), output.data()->size())),
                 .is_end = output.end()});
  finish_if_complete();
}

void ExecStream::on_ended(const wire::ExecEnded& ended) {
  if (is_over_) return;
  ended_.emplace(
      ended.last(),
      ExecEnd{.code = ended.code(), .signal = ended.signal(), .reason = text_of(ended.reason())});
  finish_if_complete();
}

void ExecStream::finish_if_complete() {
  if (!ended_ || received_ < ended_->first || is_over_) return;
  wire::ExecTakenT taken;
  taken.exec = number_;
  taken.sequence = received_;
  taken.ended = true;
  if (gateway_->bus() != nullptr)
    gateway_->bus()->tell(Destination::to_agent(request_.host), taken);
  finish(std::move(ended_->second));
}

void ExecStream::finish(Result<ExecEnd> end) {
  if (std::exchange(is_over_, true)) return;
  if (gateway_ != nullptr && gateway_->bus() != nullptr)
    gateway_->bus()->reactor().cancel(std::exchange(timer_, 0));
  mailbox_.set_end(std::move(end));
}

void ExecStream::on_lost(const std::string& reason) {
  finish(fail(ErrorCode::host_unreachable,
              "host " + request_.host.to_string() + " is lost: " + reason));
}

void ExecStream::stop() {
  if (is_over_) return;
  wire::ExecControlT end;
  end.end = true;
  control(end);
  finish(fail(ErrorCode::refused, "it was given up"));
}

void ExecStream::taken(std::uint64_t sequence) {
  if (is_over_) return;
  taken_ = sequence;
  wire::ExecTakenT taken;
  taken.exec = number_;
  taken.sequence = taken_;
  if (gateway_->bus() != nullptr)
    gateway_->bus()->tell(Destination::to_agent(request_.host), taken);
}

void ExecStream::write(std::string data, bool end) {
  if (is_over_) return;
  input_ = std::move(data);
  is_input_end_ = end;
  mailbox_.set_writing(true);
  if (is_started_) send_input();
}

void ExecStream::send_input() {
  if (is_over_ || gateway_->bus() == nullptr || (input_.empty() && !is_input_end_)) return;
  wire::ExecInputT input;
  input.exec = number_;
  input.offset = offset_;
  input.data.assign(input_.begin(), input_.end());
  input.end = is_input_end_;
  gateway_->bus()->request(
      Destination::to_agent(request_.host), std::move(input), kInputLimit,
      [self = shared_from_this()](const Result<ControlMessage>& answer) {
        if (self->is_over_) return;
        if (!answer && may_mend(answer.error()) && self->gateway_->bus() != nullptr) {
          self->gateway_->bus()->reactor().after(kInputRetry, [self] { self->send_input(); });
          return;
        }
        if (!answer || self->is_input_end_) self->mailbox_.set_input_closed();
        self->offset_ += self->input_.size();
        self->input_.clear();
        self->is_input_end_ = false;
        self->mailbox_.set_writing(false);
      });
}

void ExecStream::control(const wire::ExecControlT& control) {
  if (is_over_ || gateway_ == nullptr || gateway_->bus() == nullptr) return;
  wire::ExecControlT sent = control;
  sent.exec = number_;
  gateway_->bus()->request(Destination::to_agent(request_.host), sent, kExecAskLimit,
                           [](const Result<ControlMessage>&) {});
}

void ExecStream::arm() {
  const auto interval = std::min<std::chrono::milliseconds>(
      kExecLookInterval, request_.lease.count() == 0 ? kExecLookInterval : request_.lease / 4);
  timer_ = gateway_->bus()->reactor().after(interval, [self = shared_from_this()] {
    self->timer_ = 0;
    self->turn();
  });
}

void ExecStream::turn() {
  if (is_over_ || gateway_->bus() == nullptr) return;
  say_taken(has_missed_ || ended_.has_value());
  has_missed_ = false;
  arm();
}

void ExecStream::say_taken(bool resend) {
  if (is_over_ || !is_started_ || gateway_->bus() == nullptr) return;
  wire::ExecTakenT taken;
  taken.exec = number_;
  taken.sequence = resend ? received_ : taken_;
  taken.resend = resend;
  gateway_->bus()->request(Destination::to_agent(request_.host), taken, kExecAskLimit,
                           [self = shared_from_this()](const Result<ControlMessage>& answer) {
                             self->note_answer(answer);
                           });
}

void ExecStream::note_answer(const Result<ControlMessage>& answer) {
  if (is_over_ || gateway_->bus() == nullptr) return;
  if (answer) return silent_since_.reset();
  if (!may_mend(answer.error()))
    return finish(fail(ErrorCode::host_unreachable, "the command is lost: host " +
                                                        request_.host.to_string() +
                                                        " has another agent, or has ended it (" +
                                                        answer.error().to_string() + ")"));
  const auto now = gateway_->bus()->reactor().now();
  if (!silent_since_) silent_since_ = now;
  if (now - *silent_since_ >= kExecPatience) on_lost("it does not answer");
}

}  // namespace meshbus
