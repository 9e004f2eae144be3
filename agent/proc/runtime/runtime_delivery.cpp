#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "agent/proc/runtime/runtime.h"
#include "common/wire/wire_region.h"
#include "wire/frame_generated.h"

// What comes in: from the broker to the handlers' thread, and what the sender hears of it.

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

std::optional<Point> Runtime::point_of(const CastBody& cast) {
  if (cast.front() == cast_front_) return cast_point_;
  cast_front_ = cast.front();
  cast_point_.reset();
  if (const auto view = from_wire(cast.head().view())) {
    if (auto point = view->point(rank_)) cast_point_ = std::move(*point);
  }
  return cast_point_;
}

Error Runtime::is_behind() const {
  return {ErrorCode::queue_full,
          bootstrap_.proc.to_string() + " is behind: its queue for handlers is full"};
}

void Runtime::on_delivery(const Bus::Delivery& delivery) {
  const wire::Envelope& envelope = delivery.envelope;
  const wire::CallHeader& header = delivery.header;
  const bool is_call = envelope.kind() == wire::Kind::call;
  if (is_call && envelope.port() == kSettingsPort)
    return on_settings(envelope, header, delivery.body);
  std::optional<Point> point;
  if (delivery.cast != nullptr) point = point_of(*delivery.cast);
  // What an actor takes is told in the order in which it came, behind what waits for the handlers.
  if (is_tracked(envelope) && runs_.untaken() > 0 &&
      !work_.has_room(runs_.open_bytes(), runs_.open_size()))
    return bus_->give_back(envelope, is_behind());
  switch (actors_.on_data(envelope, header, delivery.body, point)) {
    case ActorSystem::Delivery::not_mine: break;
    case ActorSystem::Delivery::returned: return;
    case ActorSystem::Delivery::taken:
      if (!is_tracked(envelope)) return;
      if (runs_.untaken() == 0) return bus_->taken(envelope);
      return add_message(nullptr, delivery, std::nullopt);
  }
  const auto found = program_.handlers_.find(envelope.port());
  if (found == program_.handlers_.end()) {
    const bool is_of_actor = envelope.port() > UINT32_MAX / 2;
    const Error error(ErrorCode::no_such_port,
                      bootstrap_.proc.to_string() +
                          (is_of_actor ? " has no actor with port " : " has no handler for port ") +
                          std::to_string(envelope.port()));
    return is_call ? bus_->fail_call(envelope, header, error) : bus_->give_back(envelope, error);
  }
  if (is_call) return add_call(found->second, delivery, std::move(point));
  if (!work_.has_room(runs_.open_bytes() + sizeof(MessageRun::Message) + delivery.body.size(),
                      runs_.open_size()))
    return bus_->give_back(envelope, is_behind());
  add_message(&found->second, delivery, std::move(point));
}

void Runtime::add_message(const ProcProgram::Handler* handler, const Bus::Delivery& delivery,
                          std::optional<Point> point) {
  MessageRun& run = runs_.open();
  const Point* const kept = point ? run.keep(std::move(*point)) : nullptr;
  // What is not for a handler keeps no frame.
  run.add({handler, delivery.envelope, handler == nullptr ? Bytes() : delivery.body, kept},
          handler == nullptr ? nullptr : delivery.frame);
  if (run.is_full()) close_run();
}

void Runtime::close_run() {
  if (!runs_.is_open()) return;
  const auto run = runs_.close();
  const bool is_taken = work_.push(run->bytes(), run->size(), [this, run] {
    run->run([this](const MessageRun::Message& message) { handle_message(message); });
    // If this is the last work, this very thread turns the reactor next, and tells.
    if (work_.is_last()) reactor_.post_quietly([this] { taken_.tell(); });
  });
  if (!is_taken) {
    runs_.drop_last();
    for (const auto& message : run->messages()) bus_->give_back(message.envelope, is_behind());
  } else {
    taken_.watch();
  }
}

void Runtime::add_call(const ProcProgram::Handler& handler, const Bus::Delivery& delivery,
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
    incoming.deadline = reactor_.now() + std::chrono::milliseconds(delivery.header.deadline_ms());
  const bool is_taken =
      work_.push(sizeof incoming + delivery.body.size(), 1,
                 [this, &handler, envelope = delivery.envelope, header = delivery.header,
                  incoming = std::move(incoming),
                  frame = delivery.frame] { handle(handler, envelope, header, incoming); });
  if (!is_taken) bus_->fail_call(delivery.envelope, delivery.header, is_behind());
}

void Runtime::on_settings(const wire::Envelope& envelope, const wire::CallHeader& header,
                          Bytes body) {
  const auto changes = decode_settings_call(body);
  if (!changes) return bus_->fail_call(envelope, header, changes.error());
  if (!changes->empty()) {
    if (envelope.role() < Role::operate)
      return bus_->fail_call(envelope, header,
                             Error(ErrorCode::unauthorised,
                                   "settings of procs are changed by who may start and stop them"));
    if (const auto changed = settings_.change(*changes); !changed)
      return bus_->fail_call(envelope, header, changed.error());
    apply_settings();
  }
  bus_->answer_call(envelope, header, encode_settings(settings_.list()));
}

void Runtime::handle_message(const MessageRun::Message& message) {
  if (is_cut_) return;
  Incoming incoming;
  incoming.body = message.body;
  incoming.port = message.envelope.port();
  incoming.source_proc = message.envelope.source_proc();
  incoming.source_host = message.envelope.source_host();
  if (message.point != nullptr) incoming.point = *message.point;
  try {
    const auto answer = (*message.handler)(proc_, incoming);
    if (!answer)
      log::warn("handler of port " + std::to_string(incoming.port) + ": " +
                answer.error().to_string());
  } catch (const std::exception& error) {
    log_thrown(incoming.port, error.what());
  } catch (...) {
    log_thrown(incoming.port, kNoException);
  }
}

void Runtime::handle(const ProcProgram::Handler& handler, const wire::Envelope& envelope,
                     const wire::CallHeader& header, const Incoming& incoming) {
  if (is_cut_) return;
  if (incoming.deadline && *incoming.deadline < std::chrono::steady_clock::now())
    return;  // nobody waits any more
  Result<std::string> answer = fail(ErrorCode::call_error, "");
  try {
    answer = handler(proc_, incoming);
  } catch (const std::exception& error) {
    answer = fail(ErrorCode::call_error, error.what());
  } catch (...) {
    answer = fail(ErrorCode::call_error, kNoException);
  }
  if (!answer && answer.error().code() != ErrorCode::call_error)
    answer = fail(ErrorCode::call_error, answer.error().to_string());
  // At once: a message that the next handler sends must not arrive before this answer.
  (void)outgoing_.use(
      [&](Bus& bus) -> Result<void> {
        if (answer) {
          bus.answer_call(envelope, header, *answer);
        } else {
          bus.fail_call(envelope, header, answer.error());
        }
        return {};
      },
      work_.is_last());
}

void Runtime::on_undelivered(const wire::Envelope& envelope, const Error& error) {
  if (envelope.kind() == wire::Kind::control) return actors_.on_undelivered(envelope);
  if (envelope.kind() != wire::Kind::message) {
    // An answer that its caller is not there for any more.
    return log::debug("an answer came back: " + error.to_string());
  }
  if (!program_.on_undelivered_)
    return lost_log_.warn("a message for port " + std::to_string(envelope.port()) +
                          " came back: " + error.to_string());
  if (returns_ >= kMostReturns)
    return lost_log_.warn("a message for port " + std::to_string(envelope.port()) +
                          " came back, and is not told of, because " +
                          std::to_string(kMostReturns) +
                          " others wait for on_undelivered: " + error.to_string());
  ++returns_;
  close_run();
  work_.push_last([this, envelope, error] {
    --returns_;
    if (is_cut_) return;
    try {
      program_.on_undelivered_(
          proc_, Undelivered{rank_of(envelope.destination_proc()), envelope.port(), error});
    } catch (const std::exception& thrown) {
      log::warn(std::string("on_undelivered: ") + thrown.what());
    } catch (...) {
      log::warn("on_undelivered: an exception that is no std::exception");
    }
  });
}

std::optional<std::uint64_t> Runtime::rank_of(std::uint64_t proc_key) {
  std::call_once(ranks_once_, [this] {
    for (std::uint64_t rank = 0; rank < bootstrap_.mesh.num_ranks(); ++rank)
      rank_of_key_.emplace(bootstrap_.mesh.proc_at(rank)->key(), rank);
  });
  const auto found = rank_of_key_.find(proc_key);
  if (found == rank_of_key_.end()) return std::nullopt;
  return found->second;
}

}  // namespace meshbus::mesh_proc
