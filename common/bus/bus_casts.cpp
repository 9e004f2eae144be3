// Messages and calls to every rank of a view (spec 7.4): one message to our broker, which makes the
// copies.
#include <cstring>
#include <utility>

#include "common/base/log.h"
#include "common/bus/bus.h"
#include "common/bus/cast.h"
#include "wire/frame_generated.h"

namespace meshbus {
namespace {

Error queue_is_full() {
  return {ErrorCode::queue_full, "the queue to the broker is full"};
}

}  // namespace

Result<void> Bus::check_cast(const CastPlan& to, std::size_t bytes, bool is_counted) const {
  if (is_castless_)
    return fail(ErrorCode::version_mismatch,
                "our broker is of a release of meshbus that knows no casts: update that host");
  for (const auto& piece : to.pieces) {
    if (piece.front.size() + bytes > kBodyLimit)
      return fail(ErrorCode::too_large, "a cast of " + std::to_string(bytes) +
                                            " bytes; the limit for this view is " +
                                            std::to_string(kBodyLimit - piece.front.size()));
  }
  const auto lock = session_->lock();
  if (is_counted && !fates_.has_room(to.targets.size()))
    return fail(
        ErrorCode::queue_full,
        std::to_string(fates_.count()) +
            " messages are on their way to receivers that have not said that they took them");
  return {};
}

std::uint64_t Bus::post_cast(const CastPlan& to, std::size_t piece, std::uint32_t port,
                             wire::Kind kind, Bytes head, Bytes body, std::uint32_t flags) {
  for (const auto& host : to.hosts) introduce(host);
  wire::Envelope envelope;
  envelope.mutate_flags(kFlagCast | flags);
  envelope.mutate_port(port);
  envelope.mutate_kind(kind);
  envelope.mutate_lane(wire::Lane::data);
  const std::string& front = to.pieces[piece].front;
  zmq::message_t bytes(front.size() + head.size() + body.size());
  auto* at = bytes.data<char>();
  for (const Bytes part : {Bytes(front), head, body}) {
    if (!part.empty()) std::memcpy(at, part.data(), part.size());
    at += part.size();
  }
  const Bytes all = bytes_of(bytes.data(), bytes.size());
  const auto lock = session_->lock();
  envelope.mutate_sequence(next_sequence_);
  if (!session_->push_locked(envelope, all, all.size() > kInlineLimit ? &bytes : nullptr)) return 0;
  const auto& ordinals = to.pieces[piece].ordinals;
  if (has_fate(envelope)) {
    for (const auto ordinal : ordinals) {
      const auto& target = to.targets[ordinal];
      remember(receiver_of(target.proc, target.host), envelope, body.size());
    }
  } else if ((flags & kFlagNoReturn) != 0) {
    no_return_ += ordinals.size();
  }
  return next_sequence_++;
}

Result<void> Bus::cast(const CastPlan& to, std::uint32_t port, Bytes body, bool no_return) {
  if (auto fits = check_cast(to, body.size(), !no_return); !fits) return fits;
  for (std::size_t piece = 0; piece < to.pieces.size(); ++piece) {
    if (post_cast(to, piece, port, wire::Kind::message, {}, body, no_return ? kFlagNoReturn : 0) !=
        0)
      continue;
    if (piece == 0) return fail(queue_is_full());
    // The first ranks have it already: the others hear by themselves.
    reactor_.post([this, targets = to.pieces[piece].ordinals, all = to.targets, port, no_return,
                   alive = std::weak_ptr<void>(alive_)] {
      if (alive.expired() || no_return || !events_.on_undeliverable) return;
      for (const auto ordinal : targets) {
        wire::Envelope envelope;
        envelope.mutate_destination_proc(all[ordinal].proc);
        envelope.mutate_destination_host(all[ordinal].host);
        envelope.mutate_port(port);
        envelope.mutate_kind(wire::Kind::message);
        envelope.mutate_lane(wire::Lane::data);
        events_.on_undeliverable(envelope, queue_is_full());
      }
    });
  }
  return {};
}

std::uint64_t Bus::cast_call(std::shared_ptr<const CastPlan> to, std::uint32_t port, Bytes body,
                             std::chrono::milliseconds deadline, CastAnswer answer) {
  if (to->targets.empty()) return 0;
  const auto id = next_id_++;
  CastCall& cast = casts_[id] = {.to = to, .answer = std::move(answer)};
  cast.left = to->targets.size();
  cast.is_open.assign(to->targets.size(), true);
  cast.timer = reactor_.after(deadline, [this, id, deadline] {
    fail_cast_call(id, Error(ErrorCode::timeout,
                             "no answer within " + std::to_string(deadline.count()) + " ms"));
  });
  const wire::CallHeader header(id, static_cast<std::uint32_t>(deadline.count()),
                                wire::ErrorCode::none, 0);
  const auto fail_later = [this, id](Error error, std::vector<std::uint64_t> ordinals) {
    reactor_.post([this, id, error = std::move(error), ordinals = std::move(ordinals),
                   alive = std::weak_ptr<void>(alive_)] {
      for (const auto ordinal : ordinals) {
        if (!alive.expired()) finish_cast(id, ordinal, fail(error));
      }
    });
  };
  const auto fits = check_cast(*to, sizeof header + body.size(), false);
  for (std::size_t piece = 0; piece < to->pieces.size(); ++piece) {
    const std::uint64_t sequence = fits ? post_cast(*to, piece, port, wire::Kind::call,
                                                    bytes_of(&header, sizeof header), body, 0)
                                        : std::uint64_t{0};
    cast.sequences.push_back(sequence);
    if (sequence == 0) {
      fail_later(fits ? queue_is_full() : fits.error(), to->pieces[piece].ordinals);
    } else {
      cast_of_sequence_.emplace(sequence, id);
    }
  }
  return id;
}

void Bus::on_cast_answer(std::uint64_t id, const wire::Envelope& from, Result<std::string> answer) {
  const CastCall& cast = casts_.at(id);
  const auto found = cast.to->ordinal_of_proc.find(from.source_proc());
  if (found == cast.to->ordinal_of_proc.end() ||
      !is_of_host(from, cast.to->targets[found->second].host))
    return log::warn("bus: an answer is dropped: it does not come from one that was asked");
  finish_cast(id, found->second, std::move(answer));
}

void Bus::finish_cast(std::uint64_t id, std::uint64_t ordinal, Result<std::string> answer) {
  const auto found = casts_.find(id);
  if (found == casts_.end() || !found->second.is_open[ordinal])
    return;  // answered already, or too late
  CastCall& cast = found->second;
  cast.is_open[ordinal] = false;
  if (--cast.left > 0) {
    // It may ask again, or end this.
    const CastAnswer tell = cast.answer;
    tell(ordinal, std::move(answer));
    return;
  }
  const CastCall done = std::move(cast);
  casts_.erase(found);
  for (const auto sequence : done.sequences) cast_of_sequence_.erase(sequence);
  reactor_.cancel(done.timer);
  done.answer(ordinal, std::move(answer));
}

void Bus::fail_cast_call(std::uint64_t id, const Error& error) {
  const auto found = casts_.find(id);
  if (found == casts_.end()) return;
  const std::vector<bool> is_open = found->second.is_open;
  for (std::uint64_t ordinal = 0; ordinal < is_open.size(); ++ordinal) {
    if (is_open[ordinal]) finish_cast(id, ordinal, fail(error));
  }
}

void Bus::fail_cast(const wire::Envelope& envelope, const Error& error) {
  const std::uint64_t host = envelope.destination_host();
  const bool is_all = host == 0 || host == own_host_;
  if (envelope.kind() == wire::Kind::call) {
    const auto found = cast_of_sequence_.find(envelope.sequence());
    if (found == cast_of_sequence_.end()) return;
    const std::uint64_t id = found->second;
    const auto plan = casts_.at(id).to;
    if (envelope.destination_proc() != 0) {
      // One copy. Only who is there for that rank's host may tell.
      const auto at = plan->ordinal_of_proc.find(envelope.destination_proc());
      if (at != plan->ordinal_of_proc.end() &&
          plan->targets[at->second].host == (host == 0 ? own_host_ : host))
        finish_cast(id, at->second, fail(error));
      return;
    }
    for (const auto& piece : plan->pieces) {
      const auto cast = casts_.find(id);
      if (cast == casts_.end()) return;
      // A piece that came back says nothing of the others.
      const auto index = static_cast<std::size_t>(&piece - plan->pieces.data());
      if (cast->second.sequences[index] != envelope.sequence()) continue;
      for (const auto ordinal : piece.ordinals) {
        if (is_all || plan->targets[ordinal].host == host) finish_cast(id, ordinal, fail(error));
      }
    }
    return;
  }
  const auto one = [&](std::uint64_t proc, std::uint64_t of_host) {
    wire::Envelope copy = envelope;
    copy.mutate_destination_proc(proc);
    copy.mutate_destination_host(of_host == 0 ? own_host_ : of_host);
    // What is known to be taken, or was told already, is not told again.
    if (has_fate(envelope) &&
        !forget_fate(receiver_of(proc, of_host), envelope, error.code() == ErrorCode::fate_unknown))
      return;
    if (events_.on_undeliverable) events_.on_undeliverable(copy, error);
  };
  if (envelope.destination_proc() != 0) return one(envelope.destination_proc(), host);
  auto lock = session_->lock();
  const auto holders = fates_.holders(envelope.sequence());
  lock.unlock();
  for (const auto& receiver : holders) {
    if (is_all || receiver.host == host) one(receiver.proc, receiver.host);
  }
}

}  // namespace meshbus
