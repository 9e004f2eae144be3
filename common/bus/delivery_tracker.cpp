#include "common/bus/delivery_tracker.h"

#include <chrono>
#include <utility>

#include "common/base/log.h"

namespace meshbus {
namespace {

/// How long a receiver waits for more messages before it acknowledges.
constexpr std::chrono::milliseconds kAckDelay{100};
/// A receiver that says nothing for one to two of these is asked.
constexpr std::chrono::milliseconds kSilentInterval{1000};
constexpr std::chrono::seconds kAskLimit{30};

wire::TakenT taken_message(std::uint64_t incarnation, std::vector<wire::TakenRun> runs) {
  wire::TakenT taken;
  taken.incarnation = incarnation;
  taken.runs = std::move(runs);
  return taken;
}

}  // namespace

DeliveryTracker::DeliveryTracker(Reactor& reactor, Postbox& postbox, Requests& requests,
                                 std::uint64_t incarnation, Events events)
    : reactor_(reactor),
      postbox_(postbox),
      requests_(requests),
      incarnation_(incarnation),
      events_(std::move(events)) {}

DeliveryTracker::~DeliveryTracker() {
  reactor_.cancel(ack_timer_);
  reactor_.cancel(silence_timer_);
}

void DeliveryTracker::take(const wire::Envelope& envelope) {
  if (!is_tracked(envelope)) return;
  if (acks_.take(envelope)) {
    acknowledge();
  } else if (ack_timer_ == 0) {
    ack_timer_ = reactor_.after(kAckDelay, [this] {
      ack_timer_ = 0;
      if (postbox_.is_up()) acknowledge();
    });
  }
}

void DeliveryTracker::acknowledge() {
  for (auto& report : acks_.reports()) {
    const Destination to{report.to.proc, report.to.host, {}};
    postbox_.post(to.envelope(0, wire::Kind::control, wire::Lane::control),
                  encode_control({}, taken_message(report.to.incarnation, std::move(report.runs))));
  }
}

void DeliveryTracker::on_question(const wire::Envelope& from, std::uint64_t id) {
  if (id == 0) return;
  const auto answer = [this, from, id, alive = std::weak_ptr<void>(alive_)] {
    if (alive.expired()) return;
    auto report = acks_.report({from.source_proc(), from.source_host(), from.source_incarnation()});
    if (postbox_.post(
            Destination::back(from).envelope(0, wire::Kind::control, wire::Lane::control),
            encode_control({.id = id, .is_answer = true},
                           taken_message(from.source_incarnation(), std::move(report.runs)))) == 0)
      log::warn("bus: an answer is dropped: the queue to the broker is full");
  };
  // Messages that came before the question and still wait for their handler are not lost.
  if (!events_.when_taken) return answer();
  events_.when_taken(answer);
}

void DeliveryTracker::on_acknowledged(const wire::Envelope& from, const wire::Taken& taken) {
  apply(postbox_.receiver_of(from.source_proc(), from.source_host()), taken);
}

void DeliveryTracker::apply(const Receiver& from, const wire::Taken& taken) {
  if (taken.incarnation() != incarnation_ || taken.runs() == nullptr) return;
  std::vector<wire::TakenRun> runs;
  for (const auto* run : *taken.runs()) runs.push_back(*run);
  std::vector<wire::Envelope> unknown;
  postbox_.with_sent([&](SentMessages& sent, std::uint64_t) {
    sent.on_taken(from, runs, [&](const wire::Envelope& envelope) { unknown.push_back(envelope); });
  });
  report(unknown);
}

void DeliveryTracker::settle(const Receiver& receiver, std::uint64_t end) {
  std::vector<wire::Envelope> unknown;
  postbox_.with_sent([&](SentMessages& sent, std::uint64_t) {
    sent.settle(receiver, end,
                [&](const wire::Envelope& envelope) { unknown.push_back(envelope); });
  });
  report(unknown);
}

void DeliveryTracker::report(const std::vector<wire::Envelope>& unknown) const {
  for (const auto& envelope : unknown) events_.on_unknown(envelope);
}

void DeliveryTracker::watch() {
  if (silence_timer_ != 0 ||
      postbox_.with_sent([](SentMessages& sent, std::uint64_t) { return sent.empty(); }))
    return;
  silence_timer_ = reactor_.after(kSilentInterval, [this] {
    silence_timer_ = 0;
    if (!postbox_.is_up()) return;  // the end of this turn calls watch() again
    const auto silent =
        postbox_.with_sent([](SentMessages& sent, std::uint64_t) { return sent.silent(); });
    for (const auto& receiver : silent) ask(receiver);
  });
}

void DeliveryTracker::ask_all() {
  const auto owing =
      postbox_.with_sent([](SentMessages& sent, std::uint64_t) { return sent.owing(); });
  for (const auto& receiver : owing) ask(receiver);
}

void DeliveryTracker::acknowledge_again() {
  acks_.restart();
  acknowledge();
}

void DeliveryTracker::ask(const Receiver& receiver) {
  const auto sequence = requests_.request(
      {receiver.proc, receiver.host, {}}, wire::AskTakenT(), kAskLimit,
      [this, receiver](const Result<ControlMessage>& answer) { on_asked(receiver, answer); },
      wire::Lane::data);
  // Messages that are sent from now on have a higher number.
  postbox_.with_sent([&](SentMessages& sent, std::uint64_t next) {
    sent.on_asked(receiver, sequence == 0 ? next : sequence + 1);
  });
}

void DeliveryTracker::on_asked(const Receiver& receiver, const Result<ControlMessage>& answer) {
  const std::uint64_t end = postbox_.with_sent(
      [&](SentMessages& sent, std::uint64_t) { return sent.take_asked(receiver); });
  if (answer) {
    if (const auto* taken = answer->body_as<wire::Taken>()) {
      apply(receiver, *taken);
      settle(receiver, end);
    }
    return;
  }
  switch (answer.error().code()) {
    // An older release, which does not know the question.
    case ErrorCode::no_such_port:
    case ErrorCode::unauthorised:
      postbox_.with_sent([&](SentMessages& sent, std::uint64_t) { sent.ignore(receiver); });
      return;
    // It will never be answered.
    case ErrorCode::no_such_proc:
    case ErrorCode::no_such_host:
    case ErrorCode::host_unreachable:
    case ErrorCode::identity_mismatch:
    case ErrorCode::version_mismatch:
    case ErrorCode::unroutable:
    case ErrorCode::expired: return settle(receiver, end);
    // Asked again later: the question itself was lost, or waits.
    default: log::debug("bus: acknowledgements: " + answer.error().to_string()); return;
  }
}

}  // namespace meshbus
