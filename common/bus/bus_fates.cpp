// What became of the messages that have no answer (common/bus/fates.h).
#include <utility>

#include "common/base/log.h"
#include "common/bus/bus.h"
#include "wire/bus_generated.h"

namespace meshbus {
namespace {

/// How long a receiver waits for more before it says what it has taken.
constexpr std::chrono::milliseconds kTakenDelay{100};
/// A receiver that says nothing for one to two of these is asked.
constexpr std::chrono::milliseconds kSilentInterval{1000};
constexpr std::chrono::seconds kAskLimit{30};

}  // namespace

void Bus::taken(const wire::Envelope& envelope) {
  if (!has_fate(envelope)) return;
  if (taken_.take(envelope)) {
    say_taken();
  } else if (taken_timer_ == 0) {
    taken_timer_ = reactor_.after(kTakenDelay, [this] {
      taken_timer_ = 0;
      if (taken_.has_unsaid() && is_up()) say_taken();
    });
  }
}

void Bus::say_taken() {
  for (auto& report : taken_.reports()) {
    wire::TakenT taken;
    taken.incarnation = report.to.incarnation;
    taken.runs = std::move(report.runs);
    tell({report.to.proc, report.to.host, {}}, std::move(taken));
  }
}

void Bus::on_ask_taken(const wire::Envelope& from, std::uint64_t id) {
  if (id == 0) return;
  const auto answer = [this, from, id, alive = std::weak_ptr<void>(alive_)] {
    if (alive.expired()) return;
    wire::TakenT taken;
    taken.incarnation = from.source_incarnation();
    taken.runs =
        taken_.report({from.source_proc(), from.source_host(), from.source_incarnation()}).runs;
    send_answer({from, {.id = id}},
                encode_control({.id = id, .is_answer = true}, std::move(taken)));
  };
  // What came before the question and still waits for its handler is not lost.
  if (!events_.when_taken) return answer();
  events_.when_taken(answer);
}

void Bus::on_taken(const SentFates::Receiver& from, const wire::Taken& taken) {
  if (taken.incarnation() != incarnation_ || taken.runs() == nullptr) return;
  std::vector<wire::TakenRun> runs;
  for (const auto* run : *taken.runs()) runs.push_back(*run);
  std::vector<wire::Envelope> unknown;
  {
    const auto lock = session_->lock();
    fates_.on_taken(from, runs,
                    [&](const wire::Envelope& envelope) { unknown.push_back(envelope); });
  }
  for (const auto& envelope : unknown) tell_unknown(envelope);
}

bool Bus::forget_fate(const SentFates::Receiver& to, const wire::Envelope& envelope,
                      bool is_unknown) {
  const auto lock = session_->lock();
  return fates_.remove(to, envelope, is_unknown);
}

void Bus::settle(const SentFates::Receiver& receiver, std::uint64_t end) {
  std::vector<wire::Envelope> unknown;
  {
    const auto lock = session_->lock();
    fates_.settle(receiver, end,
                  [&](const wire::Envelope& envelope) { unknown.push_back(envelope); });
  }
  for (const auto& envelope : unknown) tell_unknown(envelope);
}

void Bus::on_undeliverable(const wire::Envelope& from, const wire::Undeliverable& undeliverable) {
  const wire::Envelope& envelope = *undeliverable.envelope();
  const auto id = pending_.of_sequence(envelope.sequence());
  const auto* const asked = id ? pending_.find(*id) : nullptr;
  // Only a process that had it can tell: our own broker, that of its host, and its receiver.
  const bool is_broker = from.source_proc() == 0 && from.role() == Role::broker;
  const bool is_own = is_broker && is_of_host(from, 0);
  const auto host = asked == nullptr ? envelope.destination_host() : asked->host;
  const auto proc = asked == nullptr ? envelope.destination_proc() : asked->proc;
  if (!is_own && !((is_broker || from.source_proc() == proc) && is_of_host(from, host))) {
    log::warn("bus: an Undeliverable is dropped: it comes from one that the message did not reach");
    return;
  }
  const Error error(from_wire(undeliverable.code()), text_of(undeliverable.detail()));
  if ((envelope.flags() & kFlagCast) != 0) {
    if (is_own && error.code() == ErrorCode::no_such_host)
      forget_introduced(envelope.destination_host());
    return fail_cast(envelope, error);
  }
  // Our broker has forgotten that host: it is introduced again with the next message.
  if (is_own && error.code() == ErrorCode::no_such_host)
    forget_introduced(envelope.destination_host());
  if (id) return pending_.fail(*id, error);
  // What is known to be taken, or was told already, is not told again.
  if (has_fate(envelope) &&
      !forget_fate(receiver_of(envelope.destination_proc(), envelope.destination_host()), envelope,
                   error.code() == ErrorCode::fate_unknown))
    return;
  if (events_.on_undeliverable) {
    events_.on_undeliverable(*undeliverable.envelope(), error);
  }
}

void Bus::give_back(const wire::Envelope& message, const Error& error) {
  if ((message.flags() & kFlagNoReturn) != 0) return;
  wire::UndeliverableT undeliverable;
  undeliverable.envelope = std::make_unique<wire::Envelope>(message);
  undeliverable.code = to_wire(error.code());
  undeliverable.detail = cut_text(error.detail());
  tell(Destination::back(message), std::move(undeliverable));
}

void Bus::fail_queued(const wire::Envelope& envelope) {
  if (envelope.sequence() == 0) return;  // the session's own
  const Error error(ErrorCode::queue_full, "the queue to the broker is full");
  if ((envelope.flags() & kFlagCast) != 0) {
    reactor_.post([this, envelope, error, alive = std::weak_ptr<void>(alive_)] {
      if (!alive.expired()) fail_cast(envelope, error);
    });
    return;
  }
  if (has_fate(envelope))
    forget_fate(receiver_of(envelope.destination_proc(), envelope.destination_host()), envelope);
  if (const auto id = pending_.of_sequence(envelope.sequence())) {
    pending_.fail_later(*id, error);
  } else if (events_.on_undeliverable) {
    reactor_.post([this, envelope, error, alive = std::weak_ptr<void>(alive_)] {
      if (!alive.expired()) events_.on_undeliverable(envelope, error);
    });
  }
}

void Bus::tell_unknown(const wire::Envelope& envelope) {
  if (!events_.on_undeliverable) return;
  events_.on_undeliverable(envelope, Error(ErrorCode::fate_unknown,
                                           "its receiver has not said that it took it, and never "
                                           "will: a broker, or the receiver, has died on the way"));
}

void Bus::watch_fates() {
  if (fates_timer_ != 0) return;
  {
    const auto lock = session_->lock();
    if (fates_.empty()) return;
  }
  fates_timer_ = reactor_.after(kSilentInterval, [this] {
    fates_timer_ = 0;
    if (!is_up()) return;  // the end of this turn begins again
    auto lock = session_->lock();
    const auto silent = fates_.silent();
    lock.unlock();
    for (const auto& receiver : silent) ask_taken(receiver);
  });
}

void Bus::ask_taken(const SentFates::Receiver& receiver) {
  const auto id = next_id_++;
  pending_.add(
      id, {receiver.proc, receiver.host}, kAskLimit,
      [this, receiver](const Result<ControlMessage>& answer) { on_asked(receiver, answer); });
  const auto limit = static_cast<std::uint32_t>(std::chrono::milliseconds(kAskLimit).count());
  const auto sequence =
      post({receiver.proc, receiver.host, {}}, 0, wire::Kind::control, wire::Lane::data,
           encode_control({.id = id, .deadline_ms = limit}, wire::AskTakenT()));
  {
    // Whatever is sent from now on has a higher number.
    const auto lock = session_->lock();
    fates_.on_asked(receiver, sequence == 0 ? next_sequence_ : sequence + 1);
  }
  if (sequence == 0) {
    pending_.fail_later(id, Error(ErrorCode::queue_full, "the queue to the broker is full"));
    return;
  }
  pending_.set_sequence(id, sequence);
}

void Bus::on_asked(const SentFates::Receiver& receiver, const Result<ControlMessage>& answer) {
  std::uint64_t end = 0;
  {
    const auto lock = session_->lock();
    end = fates_.take_asked(receiver);
  }
  if (answer) {
    if (const auto* taken = answer->body_as<wire::Taken>()) {
      on_taken(receiver, *taken);
      settle(receiver, end);
    }
    return;
  }
  switch (answer.error().code()) {
    // An older release, which does not know the question.
    case ErrorCode::no_such_port:
    case ErrorCode::unauthorised: {
      const auto lock = session_->lock();
      return fates_.ignore(receiver);
    }
    // Nobody will ever answer for it.
    case ErrorCode::no_such_proc:
    case ErrorCode::no_such_host:
    case ErrorCode::host_unreachable:
    case ErrorCode::identity_mismatch:
    case ErrorCode::version_mismatch:
    case ErrorCode::unroutable:
    case ErrorCode::expired: return settle(receiver, end);
    // Asked again: the question itself was lost, or waits.
    default: log::debug("bus: what was taken: " + answer.error().to_string()); return;
  }
}

Bus::Traffic Bus::traffic() const {
  const auto lock = session_->lock();
  return {.sent = fates_.totals(),
          .outstanding = fates_.count(),
          .no_return = no_return_,
          .taken = taken_.taken()};
}

}  // namespace meshbus
