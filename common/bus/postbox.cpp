#include "common/bus/postbox.h"

#include <utility>

#include "common/bus/cast.h"

namespace meshbus {
namespace {

wire::Envelope message_to(std::uint64_t proc, std::uint64_t host, std::uint32_t port) {
  wire::Envelope envelope;
  envelope.mutate_destination_proc(proc);
  envelope.mutate_destination_host(host);
  envelope.mutate_port(port);
  envelope.mutate_kind(wire::Kind::message);
  envelope.mutate_lane(wire::Lane::data);
  return envelope;
}

}  // namespace

std::uint64_t Postbox::first_number() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count()) >> 8;
}

std::uint64_t Postbox::post(wire::Envelope&& envelope, Bytes body, MessagePart* detached) {
  const auto lock = session_.lock();
  return post_locked(envelope, body, detached);
}

std::uint64_t Postbox::post_locked(wire::Envelope& envelope, Bytes body, MessagePart* detached) {
  envelope.mutate_sequence(next_);
  envelope.mutate_length(static_cast<std::uint32_t>(body.size()));
  const bool is_counted = is_tracked(envelope);
  if (is_counted && !sent_.has_room()) return 0;
  if (auto* const outlet = outlet_for(envelope, body.size())) {
    direct_.push(*outlet, envelope, body, detached);
  } else if (!session_.push_locked(envelope, body, detached)) {
    return 0;
  }
  if (is_counted) {
    sent_.add(receiver_of(envelope.destination_proc(), envelope.destination_host()), envelope);
  } else if ((envelope.flags() & kFlagNoReturn) != 0) {
    ++no_return_;
  }
  return next_++;
}

DirectOutlets::Outlet* Postbox::outlet_for(const wire::Envelope& envelope, std::size_t bytes) {
  if (!direct_.is_enabled() || envelope.lane() != wire::Lane::data ||
      (envelope.destination_host() != 0 && envelope.destination_host() != own_host_))
    return nullptr;
  // It asks whether all before it has arrived; what comes after it may wait already.
  if ((envelope.flags() & kFlagDirect) != 0) return nullptr;
  auto* const outlet = direct_.outlet_for(envelope);
  if (outlet == nullptr || DirectOutlets::is_fit(envelope, bytes)) return outlet;
  direct_.close(envelope.destination_proc(), session_.outbox());
  return nullptr;
}

std::uint64_t Postbox::post_cast(const CastPlan& plan, std::size_t piece, wire::Envelope envelope,
                                 MessagePart& part, std::size_t length) {
  const Bytes body = bytes_of(part.data(), part.size());
  const auto lock = session_.lock();
  envelope.mutate_sequence(next_);
  envelope.mutate_length(static_cast<std::uint32_t>(length));
  const auto& ordinals = plan.pieces[piece].ordinals;
  if (direct_.is_enabled()) {
    for (const auto ordinal : ordinals)
      direct_.close(plan.targets[ordinal].proc, session_.outbox());
  }
  if (!session_.push_locked(envelope, body, body.size() > kInlineLimit ? &part : nullptr)) return 0;
  if (is_tracked(envelope)) {
    for (const auto ordinal : ordinals) {
      const auto& target = plan.targets[ordinal];
      sent_.add(receiver_of(target.proc, target.host), envelope);
    }
  } else if ((envelope.flags() & kFlagNoReturn) != 0) {
    no_return_ += ordinals.size();
  }
  return next_++;
}

Postbox::Packed Postbox::pack(std::uint64_t proc, std::uint64_t host, std::uint32_t port,
                              Bytes body, MessagePart* detached, const Most& most) {
  wire::Envelope envelope = message_to(proc, host, port);
  const auto lock = session_.lock();
  if (!lock.owns_lock() || !is_packable_ || body.size() > std::min(body_limit(), kBodyLimit) ||
      (host != 0 && host != own_host_ && !known_hosts_.contains(host)))
    return {Packed::Outcome::not_now};
  const Outbox& outbox = session_.outbox();
  const auto* const outlet = host == 0 || host == own_host_ ? direct_.find_used(proc) : nullptr;
  // Only the reactor's thread may close an outlet.
  if (outlet != nullptr && !DirectOutlets::is_fit(envelope, body.size()))
    return {Packed::Outcome::not_now};
  const bool is_first = outlet != nullptr ? outlet->empty() : outbox.empty();
  if (outbox.bytes() + direct_.bytes() + sizeof envelope + body.size() > most.bytes ||
      outbox.count() + direct_.count() >= most.queued || post_locked(envelope, body, detached) == 0)
    return {Packed::Outcome::no_room};
  return {Packed::Outcome::packed, is_first,
          outlet != nullptr ? outlet->is_full() : outbox.is_full(wire::Lane::data)};
}

Postbox::Direct Postbox::send_direct(std::uint64_t proc, std::uint64_t host, std::uint32_t port,
                                     Bytes body, const SendFrame& send) {
  using Outcome = Direct::Outcome;
  wire::Envelope envelope = message_to(proc, host, port);
  // Nobody packs anything behind it before it has left, or is kept.
  const auto lock = session_.lock();
  auto* const outlet = direct_.find_used(proc);
  // Behind one that leaves from where it lies it waits in memory, as what is short.
  if (!is_packable_ || outlet == nullptr || outlet->state != DirectOutlets::Outlet::State::open ||
      outlet->leaving || !sent_.has_room() || body.size() > body_limit() ||
      !DirectOutlets::is_fit(envelope, body.size()))
    return {Outcome::none};
  if (!outlet->is_free()) return {Outcome::behind};
  envelope.mutate_sequence(next_);
  envelope.mutate_length(static_cast<std::uint32_t>(body.size()));
  FrameWriter writer(wire::Lane::data);
  // Still the caller's: the frame is gone before the caller goes on.
  writer.add_detached(
      envelope,
      MessagePart(const_cast<char*>(body.data()), body.size(), [](void*, void*) {}, nullptr));
  DirectOutlets::Leaving leaving{next_, writer.finish(), 0};
  const bool has_left = send(leaving.frame, leaving.sent);
  if (leaving.sent == 0) return {Outcome::refused};
  ++outlet->carried;
  sent_.add(receiver_of(proc, host), envelope);
  if (!has_left) outlet->leaving = std::move(leaving);
  return {has_left ? Outcome::sent : Outcome::begun, next_++};
}

void Postbox::set_packable(bool is_packable) {
  const auto lock = session_.lock();
  is_packable_ = is_packable;
}

void Postbox::set_known(std::uint64_t host, bool is_known) {
  const auto lock = session_.lock();
  if (is_known) {
    known_hosts_.insert(host);
  } else {
    known_hosts_.erase(host);
  }
}

Outbox Postbox::take_queued(std::uint64_t own_host) {
  const auto lock = session_.lock();
  is_packable_ = false;
  if (own_host != 0) own_host_ = own_host;
  Outbox& outbox = session_.outbox();
  return std::exchange(outbox, outbox.emptied());
}

std::vector<wire::Envelope> Postbox::put_back(Outbox queued) {
  std::vector<wire::Envelope> refused;
  std::uint64_t first = 0;
  const auto lock = session_.lock();
  queued.drain([&](const wire::Envelope& envelope, Bytes body) {
    if (first == 0 && is_tracked(envelope)) first = envelope.sequence();
    if (!session_.push_locked(envelope, body)) refused.push_back(envelope);
  });
  // What still waits here was not under way when the session ended.
  if (first != 0) sent_.lower_asked(first);
  is_packable_ = true;
  return refused;
}

bool Postbox::forget(std::uint64_t proc, std::uint64_t host, const wire::Envelope& envelope,
                     bool is_unknown) {
  const auto lock = session_.lock();
  return sent_.remove(receiver_of(proc, host), envelope, is_unknown);
}

Postbox::Load Postbox::load() const {
  const auto lock = session_.lock();
  return {session_.outbox().bytes() + direct_.bytes(), sent_.count(),
          session_.outbox().count() + direct_.count()};
}

Postbox::Counts Postbox::counts() const {
  const auto lock = session_.lock();
  return {.sent = sent_.totals(), .outstanding = sent_.count(), .no_return = no_return_};
}

}  // namespace meshbus
