#include "agent/proc/runtime/handler_intake.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "common/address/actor_words.h"
#include "common/bus/cast.h"
#include "common/bus/held_body.h"
#include "common/wire/frame.h"
#include "common/wire/wire_region.h"

namespace meshbus::mesh_proc {
namespace {

/// Messages that came back and wait for on_undelivered.
constexpr std::size_t kMostReturns = 65'536;
constexpr const char* kNoException = "an exception that is no std::exception";

void log_thrown(std::uint32_t port, const char* what) {
  log::warn("handler of port " + std::to_string(port) + ": " +
            Error(ErrorCode::call_error, what).to_string());
}

}  // namespace

HandlerIntake::HandlerIntake(const Parts& parts)
    : parts_(parts), taken_(parts.reactor, runs_, [this](const wire::Envelope& envelope) {
        bus_->taken(envelope);
      }) {}

std::optional<Point> HandlerIntake::point_of(const CastBody& cast) {
  if (cast.front() == cast_front_) return cast_point_;
  cast_front_ = cast.front();
  cast_point_.reset();
  if (const auto view = from_wire(cast.head().view())) {
    if (auto point = view->point(parts_.ranks.own())) cast_point_ = std::move(*point);
  }
  return cast_point_;
}

Error HandlerIntake::is_behind() const {
  return {ErrorCode::queue_full,
          parts_.bootstrap.proc.to_string() + " is behind: its queue for handlers is full"};
}

void HandlerIntake::on_delivery(const Bus::Delivery& delivery) {
  const wire::Envelope& envelope = delivery.envelope;
  const wire::CallHeader& header = delivery.header;
  const bool is_call = envelope.kind() == wire::Kind::call;
  std::optional<Point> point;
  if (delivery.cast != nullptr) point = point_of(*delivery.cast);
  // Messages are acknowledged in the order in which they came: an actor's ones, too, wait behind
  // those for the handlers.
  if (is_tracked(envelope) && runs_.untaken() > 0 &&
      !parts_.work.has_room(runs_.open_bytes(), runs_.open_size()))
    return bus_->give_back(envelope, is_behind());
  switch (parts_.actors.on_data(envelope, header, delivery.body, point, delivery.frame)) {
    case ActorSystem::Delivery::not_mine: break;
    case ActorSystem::Delivery::returned: return;
    case ActorSystem::Delivery::taken:
      if (!is_tracked(envelope)) return;
      if (runs_.untaken() == 0) return bus_->taken(envelope);
      return add_taken(envelope);
  }
  const auto found = parts_.handlers.find(envelope.port());
  if (found == parts_.handlers.end()) {
    const bool is_of_actor = is_actor_port(envelope.port());
    const Error error(
        ErrorCode::no_such_port,
        parts_.bootstrap.proc.to_string() +
            (is_of_actor ? no_actor_words(envelope.port())
                         : " has no handler for port " + std::to_string(envelope.port())));
    return is_call ? bus_->fail_call(envelope, header, error) : bus_->give_back(envelope, error);
  }
  if (is_call) return add_call(found->second, delivery, std::move(point));
  if (!parts_.work.has_room(runs_.open_bytes() + sizeof(MessageRun::Message) +
                                std::min(delivery.body.size(), kBodyLimit),
                            runs_.open_size()))
    return bus_->give_back(envelope, is_behind());
  add_message(found->second, delivery, std::move(point));
}

void HandlerIntake::add_message(const ProcProgram::Handler& handler, const Bus::Delivery& delivery,
                                std::optional<Point> point) {
  MessageRun& run = runs_.open();
  const Point* const kept = point ? run.keep(std::move(*point)) : nullptr;
  run.add(handler, delivery.envelope, delivery.body, kept, delivery.frame);
  if (run.is_full()) close_run();
}

void HandlerIntake::add_taken(const wire::Envelope& envelope) {
  MessageRun& run = runs_.open();
  run.add_waiting(envelope);
  if (run.is_full()) close_run();
}

void HandlerIntake::close_run() {
  if (!runs_.is_open()) return;
  const auto run = runs_.close();
  const bool is_taken = parts_.work.push(run->bytes(), run->size(), [this, run] {
    run->run([&](const MessageRun::Message& message) {
      handle_message(message, run->owner_of(message));
    });
    // If this is the last work, this very thread turns the reactor next, and tells.
    if (parts_.work.is_last()) parts_.reactor.post_quietly([this] { taken_.tell(); });
  });
  if (!is_taken) {
    runs_.drop_last();
    for (const auto& message : run->messages()) bus_->give_back(message.envelope, is_behind());
  } else {
    taken_.watch();
  }
}

void HandlerIntake::add_call(const ProcProgram::Handler& handler, const Bus::Delivery& delivery,
                             std::optional<Point> point) {
  close_run();
  Incoming incoming;
  incoming.port = delivery.envelope.port();
  incoming.is_call = true;
  incoming.point = std::move(point);
  incoming.source_proc = delivery.envelope.source_proc();
  incoming.source_host = delivery.envelope.source_host();
  incoming.body = delivery.body;
  if (delivery.header.deadline_ms() > 0)
    incoming.deadline =
        parts_.reactor.now() + std::chrono::milliseconds(delivery.header.deadline_ms());
  const bool is_taken =
      parts_.work.push(sizeof incoming + std::min(delivery.body.size(), kBodyLimit), 1,
                       [this, &handler, envelope = delivery.envelope, header = delivery.header,
                        incoming = std::move(incoming), frame = delivery.frame]() mutable {
                         incoming.owner = &frame;
                         handle_call(handler, envelope, header, incoming);
                       });
  if (!is_taken) bus_->fail_call(delivery.envelope, delivery.header, is_behind());
}

void HandlerIntake::handle_message(const MessageRun::Message& message,
                                   const std::shared_ptr<const void>* owner) {
  if (parts_.is_cut) return;
  Incoming incoming;
  incoming.body = message.body;
  incoming.port = message.envelope.port();
  incoming.source_proc = message.envelope.source_proc();
  incoming.source_host = message.envelope.source_host();
  incoming.owner = owner;
  if (message.point != nullptr) incoming.point = *message.point;
  const HandlerWatch::Run run(watch_, incoming.port);
  try {
    const auto answer = (*message.handler)(parts_.proc, incoming);
    if (!answer)
      log::warn("handler of port " + std::to_string(incoming.port) + ": " +
                answer.error().to_string());
  } catch (const std::exception& error) {
    log_thrown(incoming.port, error.what());
  } catch (...) {
    log_thrown(incoming.port, kNoException);
  }
}

void HandlerIntake::handle_call(const ProcProgram::Handler& handler, const wire::Envelope& envelope,
                                const wire::CallHeader& header, const Incoming& incoming) {
  if (parts_.is_cut) return;
  if (incoming.deadline && *incoming.deadline < std::chrono::steady_clock::now())
    return;  // nobody waits any more
  Result<std::string> answer = fail(ErrorCode::call_error, "");
  try {
    const HandlerWatch::Run run(watch_, incoming.port);
    answer = handler(parts_.proc, incoming);
  } catch (const std::exception& error) {
    answer = fail(ErrorCode::call_error, error.what());
  } catch (...) {
    answer = fail(ErrorCode::call_error, kNoException);
  }
  if (!answer && answer.error().code() != ErrorCode::call_error)
    answer = fail(ErrorCode::call_error, answer.error().to_string());
  // Before it is copied, which may take more memory than there is.
  if (answer && answer->size() > kBodyLimit) {
    const auto fits = parts_.outgoing.use([&](Bus& bus) { return bus.check_size(answer->size()); });
    if (!fits) answer = fail(fits.error().within("the answer"));
  }
  // Not in the visit: others would wait for the copy.
  std::optional<SharedBody> large;
  if (answer && answer->size() > kBodyLimit)
    large = hold_answer(std::move(*answer),
                        envelope.source_host() == parts_.bootstrap.proc.host().key());
  // At once: a message that the next handler sends must not arrive before this answer.
  (void)parts_.outgoing.use(
      [&](Bus& bus) -> Result<void> {
        if (large) {
          bus.answer_call(envelope, header, *large);
        } else if (answer) {
          bus.answer_call(envelope, header, *answer);
        } else {
          bus.fail_call(envelope, header, answer.error());
        }
        return {};
      },
      parts_.work.is_last());
}

void HandlerIntake::on_undelivered(const wire::Envelope& envelope, const Error& error) {
  if (envelope.kind() == wire::Kind::control) return parts_.actors.on_undelivered(envelope);
  if (envelope.kind() != wire::Kind::message) {
    // An answer whose caller has ended.
    return log::debug("an answer came back: " + error.to_string());
  }
  if (!parts_.on_undelivered)
    return lost_log_.warn("a message for port " + std::to_string(envelope.port()) +
                          " came back: " + error.to_string());
  if (returns_ >= kMostReturns)
    return lost_log_.warn("a message for port " + std::to_string(envelope.port()) +
                          " came back, and is not told of, because " +
                          std::to_string(kMostReturns) +
                          " others wait for on_undelivered: " + error.to_string());
  ++returns_;
  close_run();
  parts_.work.push_last([this, envelope, error] {
    --returns_;
    if (parts_.is_cut) return;
    const HandlerWatch::Run run(watch_, HandlerWatch::kUndelivered);
    try {
      parts_.on_undelivered(parts_.proc, Undelivered{parts_.ranks.find(envelope.destination_proc()),
                                                     envelope.port(), error});
    } catch (const std::exception& thrown) {
      log::warn(std::string("on_undelivered: ") + thrown.what());
    } catch (...) {
      log::warn("on_undelivered: an exception that is no std::exception");
    }
  });
}

void HandlerIntake::on_settings(ProgramSettings& settings) {
  if (!parts_.on_setting) return (void)settings.take_news();
  close_run();
  parts_.work.push_last([this, &settings] {
    for (const auto& [name, value] : settings.take_news()) {
      if (parts_.is_cut) return;
      const HandlerWatch::Run run(watch_, HandlerWatch::kSetting);
      try {
        parts_.on_setting(parts_.proc, name, value);
      } catch (const std::exception& thrown) {
        log::warn("on_setting of " + name + ": " + thrown.what());
      } catch (...) {
        log::warn("on_setting of " + name + ": an exception that is no std::exception");
      }
    }
  });
}

void HandlerIntake::on_world(const ProcMeshRef& mesh) {
  if (!parts_.on_world) return;
  close_run();
  parts_.work.push_last([this, &mesh] {
    if (parts_.is_cut) return;
    const HandlerWatch::Run run(watch_, HandlerWatch::kWorld);
    try {
      parts_.on_world(parts_.proc, mesh);
    } catch (const std::exception& thrown) {
      log::warn(std::string("on_world: ") + thrown.what());
    } catch (...) {
      log::warn("on_world: an exception that is no std::exception");
    }
  });
}

std::optional<BusyHandler> HandlerIntake::find_busy(HandlerWatch::Time now,
                                                    HandlerWatch::Duration limit) {
  const auto running = watch_.look(now);
  if (!running || running->busy < limit) return std::nullopt;
  return BusyHandler{.name = running->port == HandlerWatch::kUndelivered ? "on_undelivered"
                             : running->port == HandlerWatch::kSetting   ? "on_setting"
                             : running->port == HandlerWatch::kWorld
                                 ? "on_world"
                                 : "port " + std::to_string(running->port),
                     .busy = running->busy,
                     .waiting = parts_.work.waiting() + runs_.left() + runs_.open_size()};
}

void HandlerIntake::when_taken(std::function<void()> then) {
  taken_.tell();
  if (runs_.untaken() == 0) return then();
  // Behind the messages that wait for the handlers.
  close_run();
  parts_.work.push_last([this, then = std::move(then)] {
    parts_.reactor.post([this, then] {
      taken_.tell();
      then();
    });
  });
}

}  // namespace meshbus::mesh_proc
