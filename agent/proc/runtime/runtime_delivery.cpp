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

void Runtime::on_data(const wire::Envelope& envelope, const wire::CallHeader& header, Bytes body, std::optional<Point> point) {
  const bool is_call = envelope.kind() == wire::Kind::call;
  if (is_call && envelope.port() == kSettingsPort) return on_settings(envelope, header, body);
  const auto is_behind = [&] {
    return Error(ErrorCode::queue_full, bootstrap_.proc.to_string() + " is behind: its queue for handlers is full");
  };
  // What an actor takes is told in the order in which it came, behind what waits for the handlers.
  if (has_fate(envelope) && untaken_ > 0 && !work_.has_room()) return bus_->give_back(envelope, is_behind());
  switch (actors_.on_data(envelope, header, body, point)) {
    case ActorSystem::Delivery::not_mine: break;
    case ActorSystem::Delivery::returned: return;
    case ActorSystem::Delivery::taken:
      if (has_fate(envelope)) take_in_turn(envelope);
      return;
  }
  const auto found = program_.handlers_.find(envelope.port());
  if (found == program_.handlers_.end()) {
    const bool is_of_actor = envelope.port() > UINT32_MAX / 2;
    const Error error(ErrorCode::no_such_port, bootstrap_.proc.to_string() +
                                                   (is_of_actor ? " has no actor with port " : " has no handler for port ") +
                                                   std::to_string(envelope.port()));
    return is_call ? bus_->fail_call(envelope, header, error) : bus_->give_back(envelope, error);
  }
  Incoming incoming;
  incoming.port = envelope.port();
  incoming.is_call = is_call;
  incoming.point = std::move(point);
  incoming.source_proc = envelope.source_proc();
  incoming.source_host = envelope.source_host();
  if (is_call && header.deadline_ms() > 0) incoming.deadline = reactor_.now() + std::chrono::milliseconds(header.deadline_ms());
  const bool taken = work_.push(sizeof incoming + body.size(),
                                [this, &handler = found->second, envelope, header, incoming, copy = std::string(body)]() mutable {
                                  incoming.body = copy;
                                  if (!incoming.is_call) mark_taken(envelope);
                                  handle(handler, envelope, header, incoming);
                                });
  if (taken) {
    if (!is_call) ++untaken_;
    return;
  }
  is_call ? bus_->fail_call(envelope, header, is_behind()) : bus_->give_back(envelope, is_behind());
}

void Runtime::on_settings(const wire::Envelope& envelope, const wire::CallHeader& header, Bytes body) {
  const auto changes = decode_settings_call(body);
  if (!changes) return bus_->fail_call(envelope, header, changes.error());
  if (!changes->empty()) {
    if (envelope.role() < Role::operate)
      return bus_->fail_call(envelope, header,
                             Error(ErrorCode::unauthorised, "settings of procs are changed by who may start and stop them"));
    if (const auto changed = settings_.change(*changes); !changed) return bus_->fail_call(envelope, header, changed.error());
    apply_settings();
  }
  bus_->answer_call(envelope, header, encode_settings(settings_.list()));
}

void Runtime::take_in_turn(const wire::Envelope& envelope) {
  if (untaken_ == 0) return bus_->taken(envelope);
  work_.push_last([this, envelope] { mark_taken(envelope); });
  ++untaken_;
}

void Runtime::mark_taken(const wire::Envelope& envelope) {
  {
    const std::lock_guard lock(mutex_);
    taken_.push_back(envelope);
    if (taken_.size() > 1) return;  // is on its way
  }
  reactor_.post([this] {
    std::vector<wire::Envelope> taken;
    {
      const std::lock_guard lock(mutex_);
      taken.swap(taken_);
    }
    untaken_ -= taken.size();
    for (const auto& one : taken) bus_->taken(one);
  });
}

void Runtime::handle(const ProcProgram::Handler& handler, const wire::Envelope& envelope, const wire::CallHeader& header,
                     const Incoming& incoming) {
  if (is_cut_) return;
  if (incoming.deadline && *incoming.deadline < std::chrono::steady_clock::now()) return;  // nobody waits any more
  Result<std::string> answer = fail(ErrorCode::call_error, "");
  try {
    answer = handler(proc_, incoming);
  } catch (const std::exception& error) {
    answer = fail(ErrorCode::call_error, error.what());
  } catch (...) {
    answer = fail(ErrorCode::call_error, "an exception that is no std::exception");
  }
  if (!incoming.is_call) {
    if (!answer) log::warn("handler of port " + std::to_string(incoming.port) + ": " + answer.error().to_string());
    return;
  }
  if (!answer && answer.error().code() != ErrorCode::call_error) answer = fail(ErrorCode::call_error, answer.error().to_string());
  reactor_.post_quietly([this, envelope, header, answer = std::move(answer)] {
    if (answer) {
      bus_->answer_call(envelope, header, *answer);
    } else {
      bus_->fail_call(envelope, header, answer.error());
    }
  });
  // If this is the last one, this very thread turns the reactor next.
  if (!work_.is_last()) reactor_.wake();
}

void Runtime::on_undelivered(const wire::Envelope& envelope, const Error& error) {
  if (envelope.kind() == wire::Kind::control) return actors_.on_undelivered(envelope);
  if (envelope.kind() != wire::Kind::message) {
    // An answer that its caller is not there for any more.
    return log::debug("an answer came back: " + error.to_string());
  }
  if (!program_.on_undelivered_)
    return lost_log_.warn("a message for port " + std::to_string(envelope.port()) + " came back: " + error.to_string());
  if (returns_ >= kMostReturns)
    return lost_log_.warn("a message for port " + std::to_string(envelope.port()) + " came back, and is not told of, because " +
                          std::to_string(kMostReturns) + " others wait for on_undelivered: " + error.to_string());
  ++returns_;
  work_.push_last([this, envelope, error] {
    --returns_;
    if (is_cut_) return;
    try {
      program_.on_undelivered_(proc_, Undelivered{rank_of(envelope.destination_proc()), envelope.port(), error});
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
